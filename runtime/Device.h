// What a device offers to the executor. A device is a shared library, loaded when a plan's target
// asks for it, so that nanorun links none of them.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nano {

/// Options of a device that the user can set.
struct DeviceOptions {
  int threads =
      0; ///< CPU threads of one rank; 0: the machine's cores divided by the ranks in this process
  int localRanks =
      0; ///< ranks in this process, which share its cores and memory; 0: all of the communicator's
  bool profile = false; ///< measure every command, for `Device::times`
};

/// What one command of the plan took, over all runs so far.
struct CommandTime {
  const plan::Command *command = nullptr;
  uint64_t runs = 0;
  double seconds = 0;
};

/// One rank's view of a device: its arena, and the plan's programs made ready to run on it.
/// The plan outlives the device. All calls come from the rank's own thread.
class Device {
public:
  virtual ~Device() = default;

  /// Copies `bytes` bytes into buffer `buffer` at byte `offset`.
  virtual Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) = 0;
  /// Copies `bytes` bytes out of buffer `buffer` at byte `offset`; waits for the programs started
  /// so far.
  virtual Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) = 0;
  /// Runs the program of that name to its end. A failure names the command, its model line and what
  /// went wrong.
  virtual Status run(const std::string &program) = 0;
  /// One line for the log: processor or GPU name, threads, library versions.
  virtual std::string describe() const = 0;
  /// With DeviceOptions::profile: the time of every command that has run, in the plan's order; else
  /// nothing.
  virtual std::vector<CommandTime> times() const { return {}; }
};

/// The entry point of a device library, `extern "C"`; null and `*error` filled when the device
/// cannot run this plan. `communicator` joins the ranks, never null, outlives the device.
using CreateDeviceFn = Device *(*)(const plan::Plan *plan, Communicator *communicator,
                                   const DeviceOptions *options, Error *error);
inline constexpr const char *createDeviceSymbol = "nanoCreateDevice";

/// Loads `libnano-device-<target>.so` from beside the running executable (or ../lib) and makes a
/// device of it.
Result<std::unique_ptr<Device>> loadDevice(const plan::Plan &plan, Communicator &communicator,
                                           const DeviceOptions &options);

} // namespace nano
