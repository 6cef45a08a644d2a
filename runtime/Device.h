// What a device offers to the executor. A device is a shared library, loaded when a plan's target
// asks for it, so that nanorun links none of them.
#pragma once

#include "base/Status.h"
#include "runtime/Phases.h"
#include "runtime/comm/Communicator.h"
#include "runtime/plan/Plan.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// Options of a device that the user can set.
struct DeviceOptions {
  std::string device; ///< which one: "cpu", "cuda", "emulator"; empty: that of the plan's target
  int threads = 0; ///< CPU threads of one rank; 0: the machine's cores divided by the ranks on it
  int localRanks =
      0; ///< ranks on this machine, which share its cores and memory; 0: all of the communicator's
  bool profile = false; ///< measure every command, for `Device::times`
  bool trace = false;   ///< keep when every command ran, for `Device::takeSpans`
  bool waitForEach =
      false; ///< run commands one by one and wait for each, so that an error names its command
  bool shareGpus = false; ///< several ranks may have one GPU: slow, for trying many ranks out
  /// How long a rank may wait for the GPUs of others; 0: as long as it takes.
  std::chrono::milliseconds rankTimeout{0};
  bool tune = false;    ///< choose algorithms of products, and among candidates, by measurement
  std::string tuneFile; ///< where such choices are kept; empty: nowhere
  std::function<void(const std::string &)> report; ///< receives lines for the user; may be empty
};

/// What one command of the plan took, over all runs so far.
struct CommandTime {
  const plan::Command *command = nullptr;
  uint64_t runs = 0;
  double seconds = 0;
};

/// Those times of a device that keeps, by a program's name, its `commands`: in the plan's order,
/// each a `command` with its `runs` and `seconds`.
template <typename Programs>
std::vector<CommandTime> timesOf(const plan::Plan &plan, const Programs &programs) {
  std::vector<CommandTime> result;
  for (const plan::Program &program : plan.programs)
    for (const auto &each : programs.at(program.name).commands)
      if (each.runs)
        result.push_back({each.command, each.runs, each.seconds});
  return result;
}

/// What one run of a command costs by itself, repeated for a while.
struct CommandCost {
  const plan::Command *command = nullptr;
  double seconds = 0, joules = 0; ///< joules of the whole device meanwhile
};

/// When one command ran.
struct CommandSpan {
  const plan::Command *command = nullptr;
  double start = 0; ///< seconds of std::chrono::steady_clock, so that ranks of a machine compare
  double seconds = 0;
  double flops = 0; ///< that the data decided: attention's, by the keys that its queries saw
};

/// What the device reaches at best, measured; 0 where it was not.
struct DeviceRates {
  double copyBytes = 0;                            ///< bytes read plus bytes written a second
  double f32Flops = 0, bf16Flops = 0, f8Flops = 0; ///< of matrix products, a second
  /// Joules of the device for a byte of that copy and for an operation of these products, where
  /// `costs` has measured them.
  double copyJoules = 0, f32Joules = 0, bf16Joules = 0, f8Joules = 0;
};

/// Seconds since some moment, by the machine's clock.
inline double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A device's counter of the energy that it uses, with all that runs on it.
struct EnergyCounter {
  /// Joules since some moment; nothing when it cannot be read now. May take milliseconds, and comes
  /// from any thread while the device is there. Empty: there is none.
  std::function<std::optional<double>()> joules;
  std::string name;  ///< "NVML"; of none, why there is none
  std::string owner; ///< what is counted, in all the world: ranks that share it count it once
  double limit = 0;  ///< watts that the device keeps below; 0: it does not say
  /// The clock that says when it stood at what it says.
  double (*now)() = secondsNow;
};

/// One rank's view of a device: its arena, and the plan's programs made ready to run on it.
/// The plan outlives the device. All calls come from the rank's own thread.
class Device {
public:
  virtual ~Device() = default;

  /// Copies `bytes` bytes into buffer `buffer` at byte `offset`, as if after the programs started
  /// so far; `data` is free again on return.
  virtual Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) = 0;
  /// Makes buffer `buffer` zero, as `write` would.
  virtual Status clear(uint32_t buffer) = 0;
  /// Gives `count` elements of a state in its buffer, from element `first` on, their initial values
  /// by this seed (`initializeStates`), as `write` would. False where this device leaves it to the
  /// caller.
  virtual Result<bool> fill(const plan::State &state, uint64_t seed, uint64_t first,
                            uint64_t count) {
    return false;
  }
  /// Copies `bytes` bytes out of buffer `buffer` at byte `offset`; waits for the programs started
  /// so far.
  virtual Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) = 0;
  /// As `read`, but the data need only be there after the next `wait`, until when `data` stays.
  virtual Status readLater(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) {
    return read(buffer, offset, data, bytes);
  }
  /// Runs the program of that name, or starts it: `wait` and `read` wait for its end and report
  /// what went wrong after this call returned. A failure names the command, its model line and what
  /// went wrong, as far as the device knows them.
  virtual Status run(const std::string &program) = 0;
  /// Does beforehand what running these programs for the first time would take longer for than
  /// later. States and inputs are written after it; all ranks call it with the same programs.
  virtual Status prepareAhead(const std::vector<std::string> &programs) { return ok(); }
  /// Runs one command of a program to its end.
  virtual Status runCommand(const std::string &program, size_t command) = 0;
  /// Waits for everything that was started.
  virtual Status wait() { return ok(); }
  /// One line for the log: processor or GPU name, threads, library versions.
  virtual std::string describe() const = 0;
  /// With DeviceOptions::profile: the time of every command that has run, in the plan's order; else
  /// nothing. A GPU's first run of a program is not among them, and no run with waitForEach.
  virtual std::vector<CommandTime> times() const { return {}; }
  /// With DeviceOptions::trace: every command that has run since the last call, in the order of
  /// their starts; else nothing.
  virtual std::vector<CommandSpan> takeSpans() { return {}; }
  /// With DeviceOptions::trace: what floors of times are computed from; nothing where the device
  /// does not measure it.
  virtual std::optional<DeviceRates> rates() const { return std::nullopt; }
  /// Why `costs` cannot be asked; empty where it can.
  virtual std::string whyNoCosts() const { return "this device does not count them"; }
  /// What a run of each command of these programs costs, of those that compute or copy something by
  /// themselves, each repeated for a while when nothing else runs; with DeviceOptions::trace
  /// `rates` has joules from then on. Takes a second a command or less. What lies in the buffers is
  /// lost.
  virtual Result<std::vector<CommandCost>> costs(const std::vector<std::string> &programs) {
    return failed(whyNoCosts());
  }
  /// The counter of the energy that the device uses.
  virtual EnergyCounter energy() const { return {{}, "this device does not count it", ""}; }
  /// What the parts of making the device took, and what it did once for programs since then.
  virtual Phases::Times startTimes() const { return {}; }
  /// Names and values for the log: versions, sizes, choices.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
};

/// The entry point of a device library, `extern "C"`; null and `*error` filled when the device
/// cannot run this plan. `communicator` joins the ranks, never null, outlives the device.
using CreateDeviceFn = Device *(*)(const plan::Plan *plan, Communicator *communicator,
                                   const DeviceOptions *options, Error *error);
inline constexpr const char *createDeviceSymbol = "nanoCreateDevice";

/// An entry point that a device library may have beside it: what decides the numbers that kernels
/// of a plan's text give on the first of the devices that the process sees, "NVIDIA H200, …". False
/// and `*error` filled where there is none.
using IdentifyDeviceFn = bool (*)(std::string *text, Error *error);
inline constexpr const char *identifyDeviceSymbol = "nanoIdentifyDevice";

/// Another: begins with what takes long and is the same for all plans; returns when it is done.
/// What is wrong hears who makes a device.
using BeginDeviceFn = void (*)();
inline constexpr const char *beginDeviceSymbol = "nanoBeginDevice";

/// Whether a device of that name runs this plan: the plan's target, or the emulator for a plan for
/// cuda. BadInput otherwise.
Status checkDevice(const plan::Plan &plan, const std::string &device);

/// Loads `libnano-device-<device>.so` from beside the running executable (or ../lib) and makes a
/// device of it, of the one that the options name or else of the plan's target.
Result<std::unique_ptr<Device>> loadDevice(const plan::Plan &plan, Communicator &communicator,
                                           const DeviceOptions &options);

/// Has the library of the device that would be made begin, beside what comes before `loadDevice`.
/// The future's destructor waits for it: a process that ends must not do so meanwhile.
std::future<void> beginDevice(const plan::Plan &plan, const std::string &device);

/// What its library says of the device of that name; the name itself where it says nothing.
Result<std::string> identifyDevice(const plan::Plan &plan, const std::string &device);

} // namespace nano
