// NVML as far as this room uses it. Its header need not come with the CUDA toolkit; what stands
// here is the binary interface that NVML has kept.
#pragma once

#include "runtime/Device.h"

namespace nano::cuda {

namespace nvml {

using Device = struct OpaqueDevice *; ///< nvmlDevice_t
enum Outcome : int {                  ///< nvmlReturn_t
  success = 0,
  notSupported = 3,
};

} // namespace nvml

#define NANO_NVML_FUNCTIONS(X)                                                                     \
  X(nvmlInit_v2)                                                                                   \
  X(nvmlErrorString)                                                                               \
  X(nvmlDeviceGetHandleByUUID)                                                                     \
  X(nvmlDeviceGetTotalEnergyConsumption)                                                           \
  X(nvmlDeviceGetEnforcedPowerLimit)

/// NVML's functions, as a table like those of Api.h.
struct NvmlApi {
  using Outcome = nvml::Outcome;
  using Device = nvml::Device;
  Outcome (*nvmlInit_v2)() = nullptr;
  const char *(*nvmlErrorString)(Outcome outcome) = nullptr;
  Outcome (*nvmlDeviceGetHandleByUUID)(const char *uuid, Device *device) = nullptr;
  Outcome (*nvmlDeviceGetTotalEnergyConsumption)(Device device,
                                                 unsigned long long *millijoules) = nullptr;
  Outcome (*nvmlDeviceGetEnforcedPowerLimit)(Device device, unsigned *milliwatts) = nullptr;
  /// The clock that its counters are read beside; a board of tests has its own.
  double (*now)() = secondsNow;
};

} // namespace nano::cuda
