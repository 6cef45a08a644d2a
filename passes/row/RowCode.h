// What the row kernels of both targets are built of: outputs, and sums carried through loops.
#pragma once

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ReduceOps.h"
#include "passes/row/RowEvaluator.h"

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
  /// Stores one of them. Where it is either a new value or what lies there already (a row of keys
  /// among those of the tokens before), nothing is written but vectors with a new one.
  mlir::LogicalResult store(unsigned output, mlir::Value value, const Position &position);

  using Body = llvm::function_ref<mlir::LogicalResult()>;
  /// if (condition) body else otherwise, one deeper.
  mlir::LogicalResult when(mlir::Value condition, Body body, Body otherwise = nullptr);

  /// The result of a row reduction that is one element of the row (see pickedBy).
  mlir::FailureOr<mlir::Value> picked(graph::ReduceOp reduce, const Position &row);
  /// Loads the columns that `picked` asks for.
  mlir::LogicalResult loadTargets(llvm::ArrayRef<graph::ReduceOp> reduces, const Position &row);
  /// As `picked`, of all that a pass has, which are known from then on.
  mlir::LogicalResult pickAll(llvm::ArrayRef<graph::ReduceOp> reduces, const Position &row);

  static mlir::Type elementType(graph::ReduceOp reduce) {
    return mlir::getElementTypeOrSelf(reduce.getType());
  }
  /// Of what is carried: f32, or i32.
  static mlir::Type carriedType(graph::ReduceOp reduce) {
    return VectorOps::registerType(elementType(reduce));
  }
  static bool isSum(graph::ReduceOp reduce) { return reduce.getCombiner() == graph::Combiner::sum; }
  static bool isLogSumExp(graph::ReduceOp reduce) {
    return reduce.getCombiner() == graph::Combiner::logsumexp;
  }
  /// Of a sum or a maximum: the number to begin with, and a ∘ c.
  mlir::Value identity(graph::ReduceOp reduce);
  mlir::Value combine(bool isSum, mlir::Value a, mlir::Value c) {
    return isSum ? v.addf(a, c) : v.max(a, c);
  }
  /// sum ← sum ∘ element(s) of the operand of a sum or maximum; lanes outside the mask keep their
  /// sum. A product that only this sum needs is not rounded by itself.
  mlir::LogicalResult addTo(mlir::Value &sum, graph::ReduceOp reduce, const Position &position);

  /// What row reductions carry through a loop over columns, one reduction's numbers behind the
  /// other's: of a log-sum-exp two, the largest x so far and Σ e^(x − largest), else the sum or
  /// maximum so far. These before the first element; vectors if `wide`, but for the largest x on a
  /// GPU, which is of all lanes.
  llvm::SmallVector<mlir::Value> carried(llvm::ArrayRef<graph::ReduceOp> reduces, bool wide = true);
  /// As addTo, of all of them.
  mlir::LogicalResult addTo(llvm::MutableArrayRef<mlir::Value> sums,
                            llvm::ArrayRef<graph::ReduceOp> reduces, const Position &position);

  /// The sum or the maximum of all lanes of a vector, or of more than them: a scalar.
  using Across = llvm::function_ref<mlir::Value(bool isSum, mlir::Value vector)>;
  /// The results, not rounded yet, of row reductions that `parts` carry: one or several of what
  /// `carried` makes, side by side.
  llvm::SmallVector<mlir::Value> totals(llvm::ArrayRef<graph::ReduceOp> reduces,
                                        llvm::ArrayRef<mlir::Value> parts, Across across);
  /// Combined pairwise: (0 ∘ 1) ∘ (2 ∘ 3).
  mlir::Value combineAll(bool isSum, llvm::SmallVector<mlir::Value> parts);

private:
  /// The choice that an output is between a new value and the element that it overwrites; null for
  /// others.
  graph::SelectOp changeOf(unsigned output);
  /// The column that the reduction's result is at.
  mlir::FailureOr<Computed> targetOf(graph::ReduceOp reduce, const Position &row);
  /// A column of the row that the reduction picks an element of.
  static Position pickedAt(graph::ReduceOp reduce, const Position &row, Index column);
  mlir::LogicalResult addExponential(mlir::Value &largest, mlir::Value &sum, graph::ReduceOp reduce,
                                     const Position &position);
  mlir::LogicalResult storeAllOutputs(llvm::ArrayRef<unsigned> outputs, const Position &position);

protected:
  KernelFrame &frame;
  RowEvaluator e;
  VectorOps &v;
  mlir::OperandRange yielded; ///< the task's outputs as tensors
};

} // namespace nano::kernels
