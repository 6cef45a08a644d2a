// What tensor maps keep to, as the CUDA driver's cuTensorMapEncodeTiled says for two dimensions.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>

namespace nano::plan {

/// A map as a kernel's parameter, in bytes, and what its address is a multiple of.
inline constexpr uint64_t encodedMapBytes = 128, encodedMapAlignment = 64;
/// Blocks that a cluster has at most on every GPU that has clusters.
inline constexpr uint32_t mostClusterBlocks = 8;

/// The rule that the map breaks, by itself, or null. Stricter than the driver: rows of a permuted
/// box fill the swizzle's width, since shorter ones would lie that far apart all the same.
const char *brokenRule(const TensorMap &map);

/// From the matrix's first byte to its end; UINT64_MAX when that is too large a number.
uint64_t bytesOf(const TensorMap &map);

/// Bytes that a load of a box writes, whether they lie in the matrix or not.
inline uint64_t boxBytes(const TensorMap &map) {
  return uint64_t(map.boxColumns) * map.boxRows * sizeOf(map.type);
}

} // namespace nano::plan
