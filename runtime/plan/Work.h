// What commands move and compute: the figures that floors of times and cost models start from.
#pragma once

#include "runtime/plan/Plan.h"

namespace nano::plan {

/// What a command moves and computes at least, on its own device. Bytes: every operand once, as its
/// Ref or its sizes say; a launch whose operands say nothing has none. Operations: 2·m·n·k·batch of
/// a product, of a launch what its kernel says of an iteration. What ranks send each other is not
/// in it.
struct CommandWork {
  double bytes = 0, flops = 0;
};
CommandWork workOf(const Plan &plan, const Command &command);

/// Where attention finds the first and the last key that each query sees: 32-bit integers, one a
/// query, the first two operands of its kernel that hold indices.
struct KeyRanges {
  Ref first, last;
  uint64_t queries = 0;
};
/// Those of each segment of a launch; none of a kernel whose operations do not go by keys.
std::vector<KeyRanges> keyRangesOf(const Plan &plan, const Launch &launch);
/// The keys that a query sees on average.
double meanKeys(const int32_t *first, const int32_t *last, uint64_t queries);
/// The operations of attention whose segments' queries see so many keys on average.
double attentionFlops(const Plan &plan, const Launch &launch, const std::vector<double> &keys);

} // namespace nano::plan
