// Tensor maps of a plan's kernels as the driver encodes them.
#pragma once

#include "runtime/cuda/Gpu.h"
#include "runtime/plan/Plan.h"

namespace nano::cuda {

/// Throws a BadInput Failure when the GPU or its driver cannot run a kernel of clusters or tensor
/// maps: those are of compute capability 9.0 and CUDA 12.
void requireHopper(const Gpu &gpu, const plan::Kernel &kernel);

/// The map of the matrix at `matrix`, for what `requireHopper` has let pass. Throws when the driver
/// refuses.
CUtensorMap encode(const Gpu &gpu, const plan::TensorMap &map, CUdeviceptr matrix);

} // namespace nano::cuda
