// What the row kernels of both targets are built of: outputs, and sums carried through loops.
#pragma once

#include "passes/kernels/RowEvaluator.h"

namespace nano::kernels {

/// Builds at `v.b`'s insertion point, with values of the task evaluated by `e`.
class RowCode {
public:
  explicit RowCode(KernelFrame &frame)
      : frame(frame), e(frame), v(e.v),
        yielded(frame.task.getBody().front().getTerminator()->getOperands()) {}

protected:
  using LoopBody =
      llvm::function_ref<mlir::LogicalResult(Index at, llvm::MutableArrayRef<mlir::Value> sums)>;

  /// for (at = from; at < to; at += step), one deeper, carrying `sums`; their values after it.
  /// `unroll`: iterations that the kernel's text asks to be written out, 0: none.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> loop(mlir::Value from, mlir::Value to,
                                                       int64_t step, int64_t unroll,
                                                       llvm::ArrayRef<mlir::Value> sums,
                                                       LoopBody body);

  /// The row at these digits, as one number.
  mlir::Value numberOf(Position row);

  /// The outputs' element(s) at `position`.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> evaluateOutputs(llvm::ArrayRef<unsigned> outputs,
                                                                  const Position &position);
  /// Computes all of them before the first is stored: they may overwrite what others read. What
  /// only one column of a row needs is computed where the vector holds that column.
  mlir::LogicalResult storeOutputs(llvm::ArrayRef<unsigned> outputs, const Position &position);

  using Body = llvm::function_ref<mlir::LogicalResult()>;
  /// if (condition) body else otherwise, one deeper.
  mlir::LogicalResult when(mlir::Value condition, Body body, Body otherwise = nullptr);

  /// The result of a row reduction that is one element of the row (see pickedBy).
  mlir::FailureOr<mlir::Value> picked(graph::ReduceOp reduce, const Position &row, int64_t columns);
  /// Likewise of all that a pass has, which are known from then on.
  mlir::LogicalResult pickAll(llvm::ArrayRef<graph::ReduceOp> reduces, const Position &row,
                              int64_t columns);

  static mlir::Type elementType(graph::ReduceOp reduce) {
    return mlir::getElementTypeOrSelf(reduce.getType());
  }
  static bool isSum(graph::ReduceOp reduce) { return reduce.getCombiner() == graph::Combiner::sum; }
  mlir::Value identity(graph::ReduceOp reduce);
  mlir::Value combine(graph::ReduceOp reduce, mlir::Value a, mlir::Value c);
  /// sum ← sum ∘ element(s) of the reduction's operand; lanes outside the mask keep their sum. A
  /// product that only this sum needs is not rounded by itself.
  mlir::LogicalResult addTo(mlir::Value &sum, graph::ReduceOp reduce, const Position &position);
  /// All lanes of a vector combined.
  mlir::Value combineLanes(graph::ReduceOp reduce, mlir::Value vector);

private:
  mlir::LogicalResult storeAllOutputs(llvm::ArrayRef<unsigned> outputs, const Position &position);

protected:
  KernelFrame &frame;
  RowEvaluator e;
  VectorOps &v;
  mlir::OperandRange yielded; ///< the task's outputs as tensors
};

} // namespace nano::kernels
