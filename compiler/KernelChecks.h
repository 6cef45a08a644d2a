// Runs the plan that measures what must hold of kernels of a model's own: on the CPU, on the
// emulator, which also checks every access of their text, or on a GPU where that cannot compile it.
#pragma once

#include "compiler/TraceModel.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace nano {

/// A folder that is removed again with what it holds.
class CheckFolder {
public:
  /// Throws ModelError where none can be made.
  CheckFolder();
  ~CheckFolder();
  CheckFolder(const CheckFolder &) = delete;
  CheckFolder &operator=(const CheckFolder &) = delete;
  std::string plan() const { return path + "/checks.plan"; }

  std::string path;
};

/// What checks came to.
struct CheckNumbers {
  /// By name of the check; nothing for what is no finite number.
  std::map<std::string, std::optional<double>> found;
  /// By name of the check: why it could not be made on this machine.
  std::map<std::string, std::string> unmade;
};

/// Writes, into `folder.plan()`, the plan of all checks but these.
using WriteChecks =
    llvm::function_ref<void(const CheckFolder &folder, const std::set<std::string> &without)>;

/// Makes the checks by the nanorun beside this program. Those of target cuda run on the emulator;
/// one whose kernel the emulator cannot compile, as with inline PTX, runs on this machine's GPU,
/// and is not made where there is none. Throws ModelError: a run that fails, with its message,
/// which names kernel, line and access; on the CPU also one that cannot begin; no nanorun.
CheckNumbers runChecks(const std::vector<frontend::KernelCheck> &checks, const std::string &target,
                       WriteChecks write);

/// What replacements come to.
struct CheckVerdict {
  std::set<std::string> refused; ///< checks whose kernels replace nothing
  /// Those that were not made, of kernels that replace something: a run begins with them.
  std::set<std::string> unproven;
};

/// What the numbers say. Throws ModelError for a derivative, or results, that are not as they
/// should be; tells of all replacements and of checks that were not made.
CheckVerdict judgeChecks(const std::vector<frontend::KernelCheck> &checks,
                         const CheckNumbers &numbers);

} // namespace nano
