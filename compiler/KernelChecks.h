// Runs the plan that measures what must hold of kernels of a model's own: on the CPU, or on the
// emulator, which also checks every access of their text.
#pragma once

#include "compiler/TraceModel.h"

#include <map>
#include <optional>
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

/// What each check came to, by its name; nothing for what is no finite number. Runs the nanorun
/// beside this program on `folder.plan()`, which is for `target`. Throws ModelError: a run that
/// fails, with its message, which names kernel, line and access; no nanorun.
std::map<std::string, std::optional<double>> runChecks(const CheckFolder &folder,
                                                       const std::string &target);

/// What the numbers say. Throws ModelError for a derivative, or results, that are not as they
/// should be; returns the checks whose kernels replace nothing, and tells of all replacements.
std::set<std::string> judgeChecks(const std::vector<frontend::KernelCheck> &checks,
                                  const std::map<std::string, std::optional<double>> &found);

} // namespace nano
