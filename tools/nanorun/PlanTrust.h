// Whose plans run: --trust and --rebuild.
#pragma once

#include "base/Status.h"
#include "runtime/plan/PlanFile.h"

#include <string>
#include <vector>

namespace nano {

/// What a plan must be before anything of it is looked at.
struct PlanTrust {
  std::vector<std::string> keys; ///< files of public keys, one of which has signed it; empty: any
  std::string model;             ///< the model file that nanoc makes these bytes of; empty: any
};

/// Reads the plan at `path` once, holds its bytes against what is trusted, and only then parses
/// them. Errors as those of PlanFile::open, readPublicKey and checkSignature; BadInput where nanoc
/// is not beside this program or refuses the model; Failed where it makes another plan, after what
/// differs was printed.
Result<plan::PlanFile> openTrusted(const std::string &path, const PlanTrust &trust);

} // namespace nano
