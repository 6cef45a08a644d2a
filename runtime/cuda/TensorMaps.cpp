// Tensor maps of a plan's kernels on a GPU that has them.
#include "runtime/cuda/TensorMaps.h"
#include "runtime/cuda/EncodeMap.h"
#include "runtime/plan/TensorMaps.h"

namespace nano::cuda {
static_assert(sizeof(CUtensorMap) == plan::encodedMapBytes);
static_assert(alignof(CUtensorMap) >= plan::encodedMapAlignment);

void requireHopper(const Gpu &gpu, const plan::Kernel &kernel) {
  if (kernel.tensorMaps.empty() && kernel.clusterBlocks == 1)
    return;
  const std::string named = "kernel " + kernel.name + " has clusters or tensor maps, ";
  if (gpu.major < 9)
    throw Failure{badInput(named + "which are of compute capability 9.0; " + gpu.name + " has " +
                           std::to_string(gpu.major) + "." + std::to_string(gpu.minor) +
                           ", use another GPU")};
  if (!kernel.tensorMaps.empty() && !gpu.api.cuTensorMapEncodeTiled)
    throw Failure{badInput(named + "which the driver of " + gpu.name +
                           " does not know: it lacks cuTensorMapEncodeTiled; update it")};
}

CUtensorMap encode(const Gpu &gpu, const plan::TensorMap &map, CUdeviceptr matrix) {
  CUtensorMap encoded = {};
  gpu.check(encodeMap(gpu.api.cuTensorMapEncodeTiled, map, matrix, encoded),
            "cuTensorMapEncodeTiled");
  return encoded;
}

} // namespace nano::cuda
