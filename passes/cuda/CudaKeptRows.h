// What a block's shared memory keeps of a row that is too long for registers.
#pragma once

#include "passes/cuda/CudaRowLayout.h"
#include "passes/row/RowPlan.h"

namespace nano::kernels {

/// Shared memory that a block may use for values kept from pass to pass; and as much as leaves room
/// for another block, so that one computes while the other waits.
constexpr int64_t maxKeptBytes = 200 * 1024, halfKeptBytes = 110 * 1024;

/// True when something reads the value at other columns than its own.
bool isMoved(mlir::Value value);
/// Bytes of a row of the value while it is kept.
int64_t keptRowBytes(mlir::Value value, const RowForm &form);

/// Bytes of all that the passes keep of a row that is too long for registers, if they fit in shared
/// memory and no other thread reads them; else 0.
int64_t keptLongRowBytes(const RowPlan &plan, const RowForm &form, const CudaRowLayout &layout);

/// Where what passes keep of a long row leaves no room for a second block, or does not fit at all,
/// and the operands that it is computed from are narrow enough: these are kept, and it is computed
/// again. A multiprocessor with one block either computes or waits for memory, which still takes
/// less than reading a row twice from memory. And where passes keep nothing: operands that several
/// of them read.
void keepOperandsOfLongRow(RowPlan &plan, const RowForm &form, const CudaRowLayout &layout,
                           mlir::ValueRange yielded);

/// Of a row that stays in registers: what a pass stores is kept for later passes as it is stored,
/// where these want nothing else of the operands that it is computed from, and it takes no more
/// room. `yielded`: the task's outputs as tensors.
void keepStored(RowPlan &plan, const RowForm &form, const CudaRowLayout &layout,
                mlir::ValueRange yielded);

} // namespace nano::kernels
