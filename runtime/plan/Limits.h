// What products and kernels of plans keep to, wherever it is checked.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace nano::plan {

/// Dynamic shared memory that a block can have, in bytes, on GPUs of compute capability 9.0.
inline constexpr uint64_t maxSharedBytes = 227 * 1024;

/// Whether the plan's kernels wait themselves for the launch before them, as those with the device
/// library's awaitPredecessor do: they may be started before that one is over.
inline bool kernelsAwait(const Plan &plan) {
  return std::any_of(plan.sources.begin(), plan.sources.end(), [](const Source &source) {
    return source.text.find("griddepcontrol.wait;") != std::string::npos;
  });
}

/// One of the types whose products have scales.
inline bool isFloat8(DType type) { return type == DType::F8E4M3FN || type == DType::F8E5M2; }

} // namespace nano::plan
