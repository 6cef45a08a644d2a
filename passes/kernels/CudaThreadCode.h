// What one GPU thread's code is built of: branches, loops, registers, calls of the device library,
// and partial sums.
#pragma once

#include "passes/kernels/RowEvaluator.h"

namespace nano::kernels {

/// Builds at `v.b`'s insertion point, with values of the task evaluated by `e`.
class CudaThreadCode {
public:
  explicit CudaThreadCode(KernelFrame &frame) : frame(frame), e(frame), v(e.v) {}

protected:
  using Body = llvm::function_ref<mlir::LogicalResult()>;
  using LoopBody =
      llvm::function_ref<mlir::LogicalResult(Index at, llvm::MutableArrayRef<mlir::Value> sums)>;

  /// What `make` builds is called `name` in the kernel's text.
  template <typename Make> auto named(llvm::StringRef name, Make make) {
    mlir::Location before = v.loc, frameBefore = frame.loc;
    v.loc = frame.loc = mlir::NameLoc::get(mlir::StringAttr::get(v.b.getContext(), name));
    auto result = make();
    v.loc = before;
    frame.loc = frameBefore;
    return result;
  }

  /// A call of nano::`callee`; its result, null when it has none.
  mlir::Value called(llvm::StringRef name, const llvm::Twine &callee, mlir::Type result,
                     mlir::ValueRange operands);

  /// if (condition) body else otherwise, one deeper.
  mlir::LogicalResult when(mlir::Value condition, Body body, Body otherwise = nullptr);
  /// for (at = from; at < to; at += step), one deeper, carrying `sums`; their values after it.
  /// `unroll`: iterations that are written out, 0: none.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> loop(mlir::Value from, mlir::Value to,
                                                       int64_t step, int64_t unroll,
                                                       llvm::ArrayRef<mlir::Value> sums,
                                                       LoopBody body);
  mlir::Value less(mlir::Value a, mlir::Value c); ///< a < c
  mlir::Value isZero(mlir::Value number);         ///< number == 0

  /// Registers of this thread for `count` vectors of `element`.
  mlir::Value registers(mlir::Type element, int64_t count);
  /// What a tensor's elements are while they are kept: bf16 and f8 stay narrow.
  static mlir::Type keptType(mlir::Value value) {
    return mlir::getElementTypeOrSelf(value.getType());
  }
  void storeRegister(mlir::Value value, mlir::Value memory, mlir::Value slot);

  static mlir::Type elementType(graph::ReduceOp reduce) {
    return mlir::getElementTypeOrSelf(reduce.getType());
  }
  static bool isSum(graph::ReduceOp reduce) { return reduce.getCombiner() == graph::Combiner::sum; }
  mlir::Value identity(graph::ReduceOp reduce);
  mlir::Value combine(graph::ReduceOp reduce, mlir::Value a, mlir::Value c);
  /// sum ← sum ∘ element(s) of the reduction's operand; lanes outside the mask keep their sum. A
  /// product that only this sum needs is not rounded by itself.
  mlir::LogicalResult addTo(mlir::Value &sum, graph::ReduceOp reduce, const Position &position);

  KernelFrame &frame;
  RowEvaluator e;
  VectorOps &v;
};

} // namespace nano::kernels
