// From the operands and results of the graph op that a task consists of to the kernel's arguments.
#pragma once

#include "passes/emit/KernelEmitter.h"

namespace nano::kernels {

/// The argument that stands for `operand`, which is an argument of the task's block.
mlir::Value argumentOf(KernelFrame &frame, mlir::Value operand);

/// The arguments that `result` is written to: none when the task does not yield it.
llvm::SmallVector<mlir::Value> argumentsOfResult(KernelFrame &frame, mlir::Value result);

/// Fails when the task asks for a result in place of an operand. For kernels whose iterations read
/// what other iterations would write.
mlir::LogicalResult verifyNotInPlace(KernelFrame &frame);

/// True when the rows of a memref's last dimension are contiguous and begin at multiples of 16
/// bytes.
bool hasVectorRows(mlir::Value memref);
/// Likewise of the columns of a matrix whose rows lie as columns.
bool hasVectorColumns(mlir::Value memref);

/// The most elements, of 16 bytes at most and a power of two, that lie side by side at multiples of
/// their bytes in all of the memrefs, wherever dimension `dim` is cut into so many.
int64_t commonVector(llvm::ArrayRef<mlir::Value> memrefs, int64_t dim);

/// The one op of type `Op` of the task.
template <typename Op> Op onlyOp(KernelFrame &frame) {
  return *frame.task.getBody().front().getOps<Op>().begin();
}

} // namespace nano::kernels
