// The CPU as a device: one arena of memory, kernels from the plan's native code, products by
// oneDNN.
#pragma once

#include "runtime/Device.h"
#include "runtime/cpu/Matmul.h"
#include "runtime/cpu/Memory.h"
#include "runtime/cpu/NativeCode.h"
#include "runtime/cpu/ThreadTeam.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace nano::cpu {

/// One rank on the CPU. Commands run one after the other in the plan's order, each by all threads
/// of the rank; streams and events therefore need nothing. All addresses, chunks and products are
/// prepared when the device is made.
class CpuDevice : public Device {
public:
  /// BadInput when the plan is for another target, needs features that this processor lacks, does
  /// not fit into memory, or has code that does not load.
  static Result<std::unique_ptr<CpuDevice>>
  create(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options);

  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override;
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override;
  Status run(const std::string &program) override;
  std::string describe() const override;
  std::vector<CommandTime> times() const override;

private:
  /// A command with its operands as addresses.
  struct Prepared {
    const plan::Command *command = nullptr;
    KernelFn kernel = nullptr;             ///< Launch
    std::vector<std::vector<void *>> args; ///< Launch: by segment
    std::vector<Chunk> chunks;             ///< Launch
    Matmul *product = nullptr;             ///< Matmul
    uint64_t runs = 0;
    double seconds = 0;
  };

  CpuDevice(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
            int ranks);

  Status prepare();
  Status prepare(const plan::Command &command, Prepared &prepared);
  Status execute(const Prepared &prepared);
  std::byte *address(const plan::Ref &ref) const;
  Error in(const plan::Program &program, size_t index, const Error &error) const;
  Status checkRange(uint32_t buffer, uint64_t offset, uint64_t bytes) const;

  const plan::Plan &plan;
  Communicator &communicator;
  DeviceOptions options;
  ThreadTeam team;
  Mapping arena;
  Mapping scratch; ///< kernels' scratch, one part a thread
  size_t scratchStride = 0;
  std::unique_ptr<NativeCode> code;
  Matmuls matmuls;
  std::unordered_map<std::string, std::vector<Prepared>> programs;
};

} // namespace nano::cpu
