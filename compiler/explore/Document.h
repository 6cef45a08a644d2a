// The document that the page shows: everything that a plan says, as JSON.
#pragma once

#include "base/Status.h"
#include "compiler/explore/Explore.h"
#include "compiler/explore/PassRecords.h"
#include "ir/machine/Machine.h"
#include "runtime/plan/PlanFile.h"

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace nano::explore {

/// What a page is made of.
struct Parts {
  const plan::PlanFile *file = nullptr;
  std::string name;                          ///< of the plan file, as messages and titles show it
  const machine::Machine *machine = nullptr; ///< by whose rates times are predicted
  const PassRecords *passes = nullptr;       ///< null: unknown
  std::vector<llvm::json::Value> runs;       ///< of readRunLog
  llvm::json::Value profile = nullptr;       ///< of readProfile
  llvm::json::Value comparison = nullptr;    ///< with another plan
};

/// The document, for all numbers of ranks of the plan. Times are whole nanoseconds, of a command
/// picoseconds; what occurs often stands once in "texts" and is meant by its index, −1 for none.
/// BadInput where a variant breaks a rule of plans, has no training step, or the machine cannot
/// have so many ranks.
Result<std::string> documentOf(const Parts &parts);

/// The document of a compilation that made no plan: no buffers, programs and times; the text of
/// every file that its ops or its error name.
std::string documentOfFailure(const FailedCompilation &failed);

} // namespace nano::explore
