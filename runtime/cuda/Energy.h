// The joules that a GPU counts, through NVML.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/Api.h"

#include <string>

namespace nano::cuda {

/// The counter of the GPU with this identifier, as `visibleGpus` gives it: of the whole GPU, since
/// the driver was loaded. None where NVML knows no such GPU or the GPU does not count (before
/// Volta, or a part of one).
EnergyCounter energyOf(const NvmlApi &api, const std::string &identifier);

} // namespace nano::cuda
