// Transposed copies for CUDA: which tasks are one, and how others are rid of them.
#pragma once

#include "ir/step/Step.h"

namespace nano::kernels {

/// True for a task that copies a matrix, or a batch of them, between layouts of which one has the
/// rows contiguous and the other the columns.
bool isTransposingCopy(step::TaskOp task);

/// Takes the outputs out of a task that lie transposed: the task writes them row by row, where no
/// other output has the same value to a buffer of its own, and a copy behind it transposes. A
/// thread of a row kernel would write every element of such an output to another piece of memory.
/// Returns the task and its copies, or the task as it is.
llvm::SmallVector<step::TaskOp> separateTransposes(step::TaskOp task);

} // namespace nano::kernels
