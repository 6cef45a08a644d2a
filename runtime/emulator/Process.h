// Child processes, and files for them.
#pragma once

#include <string>
#include <vector>

namespace nano::emulator {

/// A folder that is removed again with all that is in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  /// Empty when it could not be made.
  const std::string &path() const { return name; }

private:
  std::string name;
};

/// The file's bytes; empty when it cannot be read.
std::string readFile(const std::string &path);
bool writeFile(const std::string &path, const std::string &bytes);

/// Runs a program found along PATH and waits for it; its output and messages go to file `output`.
/// Its exit status; -1 when it cannot be started, -2 when it did not exit by itself.
int runProcess(const std::vector<std::string> &command, const std::string &output);

} // namespace nano::emulator
