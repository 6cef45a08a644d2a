// Transposes for CUDA: which tasks are copies, and which others take more than one kernel.
#pragma once

#include "ir/step/Step.h"

namespace nano::kernels {

/// True for a task that copies a matrix, or a batch of them, between layouts of which one has the
/// rows contiguous and the other the columns.
bool isTransposingCopy(step::TaskOp task);
/// True for one of bytes, from rows to columns, that blocks gather as what they compute: with a
/// quarter of the accesses to shared memory that the device library's transpose takes.
bool isGatheringCopy(step::TaskOp task);

/// A task that copies, which `b` inserts.
step::TaskOp copyTask(mlir::OpBuilder &b, mlir::Location loc, mlir::Value from, mlir::Value to,
                      uint64_t stream);

/// Tasks in place of one that permutes what it reads so that neighbours lie far apart:
/// - where it permutes all of it alike and works element by element, one that walks over the rows
///   of what is read, with outputs that lie transposed;
/// - else the task behind copies of what it permutes, in the order that it reads.
/// Permutes by several batches, or of few rows or columns, stay as they are.
llvm::SmallVector<step::TaskOp> straightenPermutes(step::TaskOp task);

/// Straightens permutes, and makes tasks of a task with outputs that lie transposed of which each
/// is one kernel:
/// - the task as it is, where its kernel can write them (CudaTiles), or is a template of several
///   results;
/// - two, where that takes rows that are too long to be gathered: what row reductions come to goes
///   to buffers, and a task behind computes every element from these and the operands;
/// - else the task writes such an output row by row, where no other output has the same value to a
///   buffer of its own, and a copy behind it transposes.
/// Remarks name copies of 8 bits that transpose, and why they are kernels of their own.
/// Errors: the task has no form (RowForm).
mlir::FailureOr<llvm::SmallVector<step::TaskOp>> separateTransposes(step::TaskOp task);

} // namespace nano::kernels
