// cuTensorMapEncodeTiled for matrices.
#include "runtime/cuda/TensorMaps.h"
#include "runtime/plan/TensorMaps.h"

#include <array>

namespace nano::cuda {
namespace {

static_assert(sizeof(CUtensorMap) == plan::encodedMapBytes);
static_assert(alignof(CUtensorMap) >= plan::encodedMapAlignment);

/// Zeroes around a matrix, and copies, are the same in every type of that size.
CUtensorMapDataType typeOf(plan::DType type) {
  switch (type) {
  case plan::DType::F32:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case plan::DType::BF16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case plan::DType::F8E4M3FN:
  case plan::DType::F8E5M2:
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  case plan::DType::I32:
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle swizzleOf(uint32_t bytes) {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

} // namespace

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
  const std::array<cuuint64_t, 2> sizes = {map.columns, map.rows};
  const std::array<cuuint64_t, 1> strides = {map.rowBytes};
  const std::array<cuuint32_t, 2> box = {map.boxColumns, map.boxRows}, steps = {1, 1};
  CUtensorMap encoded = {};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver wants the GPU's address as a pointer
  auto *address = reinterpret_cast<void *>(matrix);
  gpu.check(gpu.api.cuTensorMapEncodeTiled(
                &encoded, typeOf(map.type), 2, address, sizes.data(), strides.data(), box.data(),
                steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzleOf(map.swizzleBytes),
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            "cuTensorMapEncodeTiled");
  return encoded;
}

} // namespace nano::cuda
