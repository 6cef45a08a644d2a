// Rewrites that bring a function into the form that nano-fuse groups.
#pragma once

#include "ir/graph/Nano.h"

namespace nano {

/// Writes cross-entropy out as row reductions, splits reductions into ones along the last dimension
/// and ones over rows in a fixed number of parts (so that they run in parallel with the same bits
/// for any number of threads), and joins sums of zero-padded pieces, which is how the derivatives
/// of slices arrive, into concats. Writes conversions to and from 8 bits out (DecomposeQuantize.h),
/// and sums and slopes of hyperbolic tangents by the logistic function (Logistic.h).
mlir::LogicalResult decomposeReductions(graph::ProgramOp function);

} // namespace nano
