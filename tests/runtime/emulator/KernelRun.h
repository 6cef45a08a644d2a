// Runs one kernel of a test's .cu file on the emulator, or on a GPU in the program that is built
// for that, with buffers of any content.
#pragma once

#include "runtime/Device.h"
#include "runtime/comm/LocalCommunicator.h"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace nano::test {

/// A GPU finds no faults: there only the kernels without are run.
#ifdef NANO_TEST_ON_GPU
inline constexpr bool isOnGpu = true;
#else
inline constexpr bool isOnGpu = false;
#endif

/// The text of a file below this folder's kernels/, with the headers that it may include.
std::vector<plan::Source> sourcesOf(const std::string &file);
/// "file.cu:N": the only line of the file that holds "// @mark".
std::string lineOf(const std::string &file, const std::string &mark);

/// A plan of one launch.
class KernelRun {
public:
  KernelRun(const std::string &file, const std::string &kernel);

  /// The next operand of the kernel.
  template <typename T> KernelRun &input(const std::vector<T> &values) {
    return operand(values, true, false);
  }
  /// The next operand of the kernel, `count` elements that it only writes.
  template <typename T> KernelRun &output(size_t count) {
    return operand(std::vector<T>(count), false, true);
  }
  template <typename T> KernelRun &inputOutput(const std::vector<T> &values) {
    return operand(values, true, true);
  }
  KernelRun &threads(uint32_t count);
  KernelRun &blocks(int64_t count);
  KernelRun &shared(uint64_t bytes);
  KernelRun &cluster(uint32_t blocks);
  /// The next of the kernel's tensor maps.
  KernelRun &map(const plan::TensorMap &map);
  /// For what the functions above do not cover; before the first run.
  plan::Plan &plan() { return *planned; }
  /// The device's line for the log; after a run.
  std::string describe() const { return device->describe(); }
  /// What the device told the user so far.
  const std::vector<std::string> &reported() const { return *lines; }

  /// Runs the launch once, under another schedule each time; the message of the error that ended
  /// it, or "". Operands have their first contents. Checked or fast is for the first run to say.
  std::string run(bool checked = true);
  /// Operand `index` after the run.
  template <typename T> std::vector<T> result(size_t index) const {
    std::vector<T> values(results[index].size() / sizeof(T));
    std::memcpy(values.data(), results[index].data(), results[index].size());
    return values;
  }

private:
  template <typename T> KernelRun &operand(const std::vector<T> &values, bool read, bool written) {
    auto *bytes = reinterpret_cast<const std::byte *>(values.data());
    contents.emplace_back(bytes, bytes + values.size() * sizeof(T));
    add(sizeof(T), read, written);
    return *this;
  }
  void add(size_t elementBytes, bool read, bool written);

  // Behind pointers, since the device refers to them.
  std::unique_ptr<plan::Plan> planned = std::make_unique<plan::Plan>();
  std::unique_ptr<LocalGroup> group = std::make_unique<LocalGroup>(1);
  std::unique_ptr<std::vector<std::string>> lines = std::make_unique<std::vector<std::string>>();
  std::vector<std::vector<std::byte>> contents, results;
  std::unique_ptr<Device> device;
};

} // namespace nano::test
