// The CPU as a device: a host device whose kernels are the plan's native code.
#pragma once

#include "runtime/cpu/Energy.h"
#include "runtime/cpu/HostDevice.h"
#include "runtime/plan/LoadedCode.h"

#include <memory>

namespace nano::cpu {

/// One rank on the CPU. All chunks of launches are prepared when the device is made.
class CpuDevice : public HostDevice {
public:
  /// BadInput when the plan is for another target, needs features that this processor lacks, does
  /// not fit into memory, or has code that does not load.
  static Result<std::unique_ptr<CpuDevice>>
  create(const plan::Plan &plan, Communicator &communicator, const DeviceOptions &options);

  EnergyCounter energy() const override { return raplCounter(); }

protected:
  Result<std::unique_ptr<PreparedLaunch>> prepareLaunch(const plan::Launch &command) override;

private:
  class Launch;

  using HostDevice::HostDevice;
  Status allocateScratch();

  Mapping scratch; ///< kernels' scratch, one part a thread
  size_t scratchStride = 0;
  std::unique_ptr<plan::LoadedCode> code;
};

} // namespace nano::cpu
