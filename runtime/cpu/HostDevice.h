// What devices on the host's processor share: memory, moves, products and collectives of a plan.
// How a kernel is launched is up to the device.
#pragma once

#include "runtime/Device.h"
#include "runtime/cpu/Matmul.h"
#include "runtime/cpu/Memory.h"
#include "runtime/cpu/ThreadTeam.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nano::cpu {

/// A Launch command with its operands as addresses.
class PreparedLaunch {
public:
  virtual ~PreparedLaunch() = default;
  virtual Status run() = 0;
};

/// One rank on the host's processor. Commands run one after the other in the plan's order, each by
/// all threads of the rank; streams and events therefore need nothing. All addresses and products
/// are prepared when the device is made.
class HostDevice : public Device {
public:
  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override;
  Status clear(uint32_t buffer) override;
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override;
  Status run(const std::string &program) override;
  Status runCommand(const std::string &program, size_t command) override;
  std::string describe() const override;
  std::vector<CommandTime> times() const override;
  std::vector<CommandSpan> takeSpans() override { return std::exchange(spans, {}); }

protected:
  HostDevice(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options);

  /// Reserves an arena of the plan's size, and behind it what the plan has in the host's memory.
  /// BadInput when it does not fit into memory.
  Status allocateArena();
  /// Prepares all commands of all programs; after it the device can run.
  Status prepareCommands();

  /// Called when the buffers have their addresses, once for each Launch command.
  virtual Result<std::unique_ptr<PreparedLaunch>> prepareLaunch(const plan::Launch &command) = 0;
  /// Called when a program starts, and when all its commands have run.
  virtual void begin(const plan::Program &program) {}
  virtual Status end(const plan::Program &program) { return ok(); }
  /// Runs a command that has candidates in one of its ways; `own` is its own one.
  virtual Status runChosen(const plan::Command &command, const std::function<Status()> &own) {
    return own();
  }
  /// Where a buffer starts.
  virtual std::byte *bufferAddress(uint32_t buffer) const {
    return arena.data() + plan.buffers[buffer].offset;
  }

  std::byte *address(const plan::Ref &ref) const { return bufferAddress(ref.buffer) + ref.offset; }
  /// Ranks that share this machine.
  int ranks() const;

  const plan::Plan &plan;
  Communicator &communicator;
  DeviceOptions options;
  ThreadTeam team;

private:
  /// A command that is ready to run.
  struct Prepared {
    const plan::Command *command = nullptr;
    std::unique_ptr<PreparedLaunch> launch; ///< Launch
    Matmul *product = nullptr;              ///< Matmul
    /// Collectives, and of each move its buffer and line.
    plan::Exchange exchange;
    std::vector<std::string> names;
    uint64_t runs = 0;
    double seconds = 0;
  };
  struct PreparedProgram {
    const plan::Program *program = nullptr;
    std::vector<Prepared> commands;
  };

  Status prepare(const plan::Command &command, Prepared &prepared);
  Status execute(const Prepared &prepared);
  Status executeOwn(const Prepared &prepared);
  Status communicate(const Prepared &prepared);
  /// Operations that the data decide, of a command that has just run (`CommandSpan::flops`).
  double decidedFlops(const plan::Command &command) const;
  MatmulOperands operandsOf(const plan::Matmul &matmul) const;

  Mapping arena;
  Matmuls matmuls;
  std::unordered_map<std::string, PreparedProgram> programs;
  std::vector<CommandSpan> spans;
};

} // namespace nano::cpu
