// Rows moved by some places, as convolutions along tokens and mixes with the token before read
// them: kernels read them where they lie.
#pragma once

#include "ir/graph/Nano.h"

namespace nano {

/// Rows that are moved by so many places, with zeros where none is moved to, become gathered ones
/// where all that read them can be in a kernel:
///
///   %s = nano.slice %x dim 0 at 0           %i = max(row − 2, 0), once for all that move so far
///   %y = nano.concat %zeros, %s dim 0   ⇒   %g = nano.gather %x, %i
///                                           %y = nano.select ge, row, 2, %g, 0
///
/// Likewise towards the start, and along any dimension but the last. No copy of x is made, and a
/// kernel that reads several of them finds the rows of one in the cache for the others.
void readShiftedRows(graph::ProgramOp function);

} // namespace nano
