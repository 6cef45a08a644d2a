// Kernels of a CPU for element-wise neighbourhoods with row and column reductions and gathers.
#pragma once

#include "passes/emit/KernelEmitter.h"
#include "passes/row/RowForm.h"

namespace nano::kernels {

/// Writes the kernel of a task of the given form. Errors at ops that the form has no place for.
///
/// A row is walked pass by pass. Each pass is a loop over vectors of columns that evaluates what it
/// needs from the operands; a pass ends where a row reduction's result is needed. Values that
/// several passes need are computed again, unless that is expensive: then the first pass keeps them
/// in private memory. Sums are accumulated in f32, lane by lane, in an order that depends on the
/// number of columns alone.
mlir::LogicalResult emitRowKernel(KernelFrame &frame, const RowForm &form);

/// The launch's number of iterations on a CPU with vectors of `lanes`.
int64_t rowIterations(const RowForm &form, int64_t lanes);

} // namespace nano::kernels
