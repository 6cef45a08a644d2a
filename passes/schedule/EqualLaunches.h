// Launches that compute again what a buffer holds already.
#pragma once

#include "ir/step/Step.h"

#include <vector>

namespace nano::schedule {

/// Removes launches of a program whose one result an earlier launch of the same kernel has computed
/// from the same operands, and lets its readers read that one's: positions sorted by one list of
/// ids for several sums, values made again in the backward pass. Both launches must be the only
/// ones that write their results, which are whole transient buffers, and nothing may have written
/// to the operands in between. A launch stays where its absence would let more than `limit` bytes
/// live at once. `commands` are the program's in order; so are those returned.
std::vector<mlir::Operation *> removeEqualLaunches(std::vector<mlir::Operation *> commands,
                                                   const step::KernelTable &kernels, int64_t limit);

} // namespace nano::schedule
