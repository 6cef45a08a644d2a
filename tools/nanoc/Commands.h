// The commands of nanoc that look at what has been compiled: a library beside nanoc, loaded when
// one of them is given, so that who only compiles and trains need not build them.
#pragma once

#include "base/Status.h"
#include "compiler/bisect/Bisect.h"
#include "compiler/explore/Explore.h"
#include "compiler/inspect/Diff.h"
#include "compiler/inspect/Explain.h"

namespace nano {

/// What the library has. Each returns an exit status.
struct Commands {
  int (*bisect)(const bisect::Options &);
  int (*diff)(const inspect::DiffOptions &);
  int (*explain)(const inspect::ExplainOptions &);
  int (*explore)(const explore::Options &);
  int (*exploreFailure)(const explore::FailedCompilation &);
};

/// The symbol of its `Commands`.
constexpr char commandsSymbol[] = "nanoCommands";

/// Loads libnano-commands.so from beside this program, to the end of the process. BadInput where it
/// is not there.
Result<const Commands *> loadCommands();

} // namespace nano
