// What products and kernels of plans keep to, wherever it is checked.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>

namespace nano::plan {

/// Dynamic shared memory that a block can have, in bytes, on GPUs of compute capability 9.0.
inline constexpr uint64_t maxSharedBytes = 227 * 1024;

/// One of the types whose products have scales.
inline bool isFloat8(DType type) { return type == DType::F8E4M3FN || type == DType::F8E5M2; }

} // namespace nano::plan
