// Programs that nanorun runs beside itself, and a folder for what they leave.
#pragma once

#include "base/Status.h"

#include <chrono>
#include <string>
#include <vector>

namespace nano {

/// A folder that goes with the object; `path` is empty where none could be made.
struct TemporaryFolder {
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string path;
};

struct ChildOptions {
  /// Where what it says goes; empty: where nanorun's own goes.
  std::string output, errors;
  /// Whether it is to know of the ranks that this process is one of.
  bool keepsLaunch = true;
  /// It is killed when it takes longer; 0: never.
  std::chrono::seconds most{0};
};

/// The exit status of a program that was run to its end; 128 and the signal's number where one
/// ended it. Failed: it cannot be started.
Result<int> statusOf(std::vector<std::string> command, const ChildOptions &options = {});

} // namespace nano
