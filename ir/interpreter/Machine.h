// The interpreter's machine: values of a function's SSA names, and one method for each family of
// ops.
#pragma once

#include "ir/graph/AttentionOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/TableOps.h"
#include "ir/interpreter/Interpreter.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace nano::interpreter {

/// Executes blocks of graph ops. A block of element-wise ops on rank-0 tensors can be run on many
/// elements at once
/// (`lanes`): its values then have shape [lanes], as the score functions of attention need.
class Machine {
public:
  using Values = llvm::SmallVector<TensorValue>;
  using Operands = llvm::ArrayRef<const TensorValue *>;

  Machine(StateMap &states, const Options &options) : states(states), options(options) {}

  /// Runs a block and returns the operands of its terminator.
  mlir::FailureOr<Values> runBlock(mlir::Block &block, llvm::ArrayRef<TensorValue> arguments);
  /// The results of one op.
  mlir::FailureOr<Values> runOp(mlir::Operation *op, Operands operands);

private:
  /// Ops with matrix products, tables, attention, losses; failure() when `op` is none of them.
  mlir::FailureOr<Values> runCompute(mlir::Operation *op, Operands operands, bool &known);
  mlir::FailureOr<Values> runSequence(mlir::Operation *op, Operands operands, bool &known);
  mlir::FailureOr<Values> runShape(mlir::Operation *op, Operands operands, bool &known);
  mlir::FailureOr<Values> runElementwise(mlir::Operation *op, Operands operands, bool &known);
  mlir::FailureOr<Values> runState(mlir::Operation *op, Operands operands, bool &known);

  /// y = alpha·op(a)·op(b) + beta·addend.
  template <typename Product>
  TensorValue matmul(Product op, const TensorValue &a, const TensorValue &b,
                     const TensorValue *addend) const;
  mlir::FailureOr<Values> exponentials(graph::ExpMatmulOp op, Operands operands);
  TensorValue groupedMatmul(graph::GroupedMatmulOp op, Operands operands);
  TensorValue groupedOuter(mlir::Operation *op, Operands operands);
  mlir::FailureOr<Values> attention(graph::AttentionOp op, Operands operands);
  mlir::FailureOr<Values> attentionGrad(graph::AttentionGradOp op, Operands operands);
  /// A score function on the scores of query `query` with keys first, first + 1, …; `gradients` for
  /// its derivative.
  mlir::FailureOr<std::vector<double>> applyScore(mlir::Region &region,
                                                  const std::vector<double> &scores, int64_t query,
                                                  int64_t first, int64_t head,
                                                  const std::vector<double> *gradients);

  TensorValue emptyResult(mlir::Operation *op, unsigned index = 0) const;
  /// A sum or product inside an op, as the arithmetic has it.
  double partial(double x) const { return isPlain() ? roundedPartial(x) : x; }
  /// sum += term, likewise; a term that is a product is rounded first.
  void add(double &sum, double term) const { sum = partial(sum + partial(term)); }
  bool isPlain() const { return options.arithmetic == Arithmetic::plain; }
  double roundedPartial(double x) const;
  /// An op's result, likewise.
  double narrowed(double x, mlir::Type type) const;

  StateMap &states;
  const Options &options;
  llvm::DenseMap<mlir::Value, TensorValue> values;
  int64_t lanes = 1;
  bool vectorized = false;
};

/// Sizes of a ranked tensor type.
std::vector<int64_t> shapeOf(mlir::Type type);
/// Distance between neighbours along each dimension of a row-major tensor.
std::vector<int64_t> stridesOf(llvm::ArrayRef<int64_t> shape);
/// The elements of a tensor with its last two dimensions exchanged.
std::vector<double> transposed(const TensorValue &x);
/// The integer that an i32 element holds after wrapping at 32 bits.
double wrapInteger(double value);

} // namespace nano::interpreter
