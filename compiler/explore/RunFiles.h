// Files of a run: nanorun's --log and --profile, checked, as parts of the page's document.
#pragma once

#include "base/Status.h"
#include "runtime/plan/PlanFile.h"

#include "llvm/Support/JSON.h"

#include <string>

namespace nano::explore {

/// A log as {"file", "run": its first line, "steps": {name: numbers}, "vals": {…}, "reports":
/// {name:
/// {"steps", "values"}}, "fp8": [{"step", "products"}], "end"}; numbers stand by step, null for NaN
/// and infinities. What events of energy tell of several steps stands in "steps" as "joules", the
/// same for each of them. Of a log that a resumed run has gone on with, a later line of a step
/// counts. BadInput, naming file and line: no log of nanorun.
Result<llvm::json::Value> readRunLog(const std::string &path);

/// A trace as {"file", "world", "step", "device", "rows": [[rank, stream, start ns, ns, name,
/// program, line, kernel]], "rates"…}. BadInput, naming the file: no trace of nanorun --profile, or
/// of another plan than `plans`.
Result<llvm::json::Value> readProfile(const std::string &path, const plan::PlanFile &plans);

} // namespace nano::explore
