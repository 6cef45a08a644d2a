// A tensor map as the driver encodes it, for all that has the driver's function: the device, and
// programs for a GPU that link nothing of this room.
#pragma once

#include "runtime/plan/Plan.h"

#include <cuda.h>

#include <array>

namespace nano::cuda {

/// Zeroes around a matrix, and copies, are the same in every type of that size.
inline CUtensorMapDataType mapTypeOf(plan::DType type) {
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
  case plan::DType::U16:
    return CU_TENSOR_MAP_DATA_TYPE_UINT16;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

inline CUtensorMapSwizzle mapSwizzleOf(uint32_t bytes) {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

/// Encodes the map of the matrix at `matrix`, a multiple of 16 bytes. `encodeTiled` is the driver's
/// cuTensorMapEncodeTiled; the result is its: an error where the map breaks a rule of
/// plan::brokenRule.
inline CUresult encodeMap(decltype(&::cuTensorMapEncodeTiled) encodeTiled,
                          const plan::TensorMap &map, CUdeviceptr matrix, CUtensorMap &encoded) {
  const std::array<cuuint64_t, 2> sizes = {map.columns, map.rows};
  const std::array<cuuint64_t, 1> strides = {map.rowBytes};
  const std::array<cuuint32_t, 2> box = {map.boxColumns, map.boxRows}, steps = {1, 1};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver wants the GPU's address as a pointer
  auto *address = reinterpret_cast<void *>(matrix);
  return encodeTiled(&encoded, mapTypeOf(map.type), 2, address, sizes.data(), strides.data(),
                     box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                     mapSwizzleOf(map.swizzleBytes), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

} // namespace nano::cuda
