// What products and kernels of plans keep to, wherever it is checked.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>

namespace nano::plan {

/// Dynamic shared memory that a block can have, in bytes, on GPUs of compute capability 9.0.
inline constexpr uint64_t maxSharedBytes = 227 * 1024;

/// Sizes that no machine has, so that sums and products of what plans say stay numbers: bytes of an
/// arena, of a kernel's scratch memory, and ranks.
inline constexpr uint64_t mostArenaBytes = uint64_t(1) << 46;
inline constexpr uint64_t mostScratchBytes = uint64_t(1) << 40;
inline constexpr int64_t mostRanks = int64_t(1) << 20;

inline bool isInteger(DType type) { return type == DType::I32 || type == DType::U16; }
/// One of the types whose products have scales.
inline bool isFloat8(DType type) { return type == DType::F8E4M3FN || type == DType::F8E5M2; }

} // namespace nano::plan
