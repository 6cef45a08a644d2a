// The emulator as a device: a host device whose kernels are the plan's CUDA texts.
#pragma once

#include "runtime/Tuning.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/emulator/Cluster.h"
#include "runtime/emulator/Options.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace nano::emulator {

/// One rank of a CUDA plan on the host's processor.
///
/// Checked: every buffer has memory of its own with gaps in between, kernels see only the buffers
/// that are operands of their launch, and a program starts with void contents (0xff in every byte)
/// in all buffers but states, scalars and the inputs of training. Blocks run one after the other in
/// a random order. Fast: the plan's arena, and blocks on all threads of the rank.
class EmulatorDevice : public cpu::HostDevice {
public:
  /// BadInput when the plan is not for CUDA, does not fit into memory, or has kernels that do not
  /// compile.
  static Result<std::unique_ptr<EmulatorDevice>> create(const plan::Plan &plan,
                                                        Communicator &communicator,
                                                        const DeviceOptions &options,
                                                        const Options &emulator);

  std::string describe() const override;

protected:
  Result<std::unique_ptr<cpu::PreparedLaunch>> prepareLaunch(const plan::Launch &command) override;
  void begin(const plan::Program &program) override;
  Status end(const plan::Program &program) override;
  Status runChosen(const plan::Command &command, const std::function<Status()> &own) override;
  std::byte *bufferAddress(uint32_t buffer) const override;

private:
  class EmulatedLaunch;
  /// The ways of a command that has candidates, and which one it goes.
  struct Ways {
    std::vector<std::string> names;
    std::vector<std::unique_ptr<cpu::PreparedLaunch>> candidates;
    size_t chosen = 0;
    bool isOpen = false; ///< to be measured
  };

  EmulatorDevice(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options,
                 const Options &emulator)
      : HostDevice(plan, communicator, options), emulator(emulator) {}
  Status allocateBuffers();
  /// After all other commands. Opens the tuning file.
  Status prepareCandidates();
  Status takeChoices();
  /// Seconds of a run in each way, with what is in the command's operands.
  Status measure(const plan::Command &command, const Ways &ways,
                 const std::function<Status()> &own);
  /// The first fault as an error.
  Status runBlocks(Launch &launch);

  Options emulator;
  Kernels kernels;
  std::vector<std::unique_ptr<Cluster>> clusters; ///< one a thread of the team
  uint64_t launches = 0;                          ///< so far, for the schedules' seeds
  std::unordered_map<const plan::Command *, Ways> ways;
  std::optional<Tuning> tuning; ///< where some command has candidates
  // Checked.
  cpu::Mapping memory;
  std::vector<uint64_t> offsets;                                   ///< of the buffers
  GlobalMemory global;                                             ///< the buffers, in their order
  std::unordered_map<std::string, std::set<uint32_t>> voidAtStart; ///< by program
};

} // namespace nano::emulator
