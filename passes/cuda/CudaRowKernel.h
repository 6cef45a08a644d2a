// Kernels of a GPU for element-wise neighbourhoods with row and column reductions and gathers.
#pragma once

#include "passes/cuda/CudaRowLayout.h"
#include "passes/cuda/CudaTiles.h"
#include "passes/emit/KernelEmitter.h"
#include "passes/row/RowForm.h"

namespace nano::kernels {

/// Writes the kernel of a task of the given form, for a block of GPU threads: CudaRowLayout says
/// which thread has which columns. A row that fits stays in registers from pass to pass, so that
/// its bytes are read once. Outputs that lie transposed are gathered in shared memory where
/// CudaTiles can say how.
mlir::LogicalResult emitCudaRowKernel(KernelFrame &frame, const RowForm &form);
/// Of column reductions alone.
mlir::LogicalResult emitCudaColumnKernel(KernelFrame &frame, const RowForm &form,
                                         const CudaRowLayout &layout);
/// Of CudaTiles' kinds Tile and Strip.
mlir::LogicalResult emitCudaTileKernel(KernelFrame &frame, const RowForm &form,
                                       const CudaTiles &tiles);

} // namespace nano::kernels
