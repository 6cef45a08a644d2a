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

} // namespace nano::plan
