// Runs kernels that call the device library's templates on the emulator, with all of its checks:
// the text, the buffers and a launch, without a plan's other parts.
#pragma once

#include "runtime/emulator/Cluster.h"
#include "runtime/emulator/KernelImage.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nano::test {

/// bf16 and back, rounding to nearest even.
uint16_t toBf16(float value);
float fromBf16(uint16_t bits);

/// The text of a header of the device library, in whose place a changed one can be compiled; a
/// failed assertion where there is none.
std::string libraryText(const std::string &name);
/// The text with `other` in the place of `part`; a failed assertion where it does not have that.
std::string replaced(std::string text, const std::string &part, const std::string &other = "");

/// A buffer of global memory, which kernels see when it is an argument.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(std::string name, int elementBytes, size_t count)
      : name(std::move(name)), elementBytes(elementBytes), bytes(elementBytes * count) {}
  static DeviceBuffer ofFloats(std::string name, const std::vector<double> &values);
  static DeviceBuffer ofBf16(std::string name, const std::vector<double> &values);
  static DeviceBuffer ofInts(std::string name, const std::vector<int> &values);

  /// Values of a bf16 buffer, or one of f32.
  std::vector<double> values() const;

  std::string name;
  int elementBytes = 1;
  std::vector<std::byte> bytes; ///< void ones hold 0xff
};

/// An argument of a kernel: the address of byte `offset` of a buffer.
struct Argument {
  DeviceBuffer *buffer;
  bool isWritten = false;
  size_t offset = 0;
  bool isUpdated = false; ///< written, and read before
};

struct Shape {
  int threads = 0;
  int64_t iterations = 0;
  int sharedBytes = 0;
  int64_t blockIterations = 1;            ///< of a block
  std::vector<plan::TensorMap> maps = {}; ///< of arguments
};

/// Kernels of one text.
class TemplateRunner {
public:
  /// `text` defines the kernels `names`, each with one Launch<n, 1>. A failed assertion and void
  /// kernels when it does not compile.
  TemplateRunner(const std::string &text, const std::vector<std::string> &names);

  /// Runs all blocks in a random order. The first fault, or nothing.
  std::string run(const std::string &kernel, const Shape &shape,
                  const std::vector<Argument> &arguments, uint64_t seed);

private:
  emulator::Kernels kernels;
  std::vector<std::string> names;
  emulator::Cluster cluster;
};

} // namespace nano::test
