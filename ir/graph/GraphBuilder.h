// A builder for chains of small graph ops: passes write `g.mul(a, b)` where the equation says a·b.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/Builders.h"

namespace nano::graph {

/// Builds graph ops at the insertion point of `builder`, with one location. Binary methods
/// broadcast a rank-0 operand to the other's shape; element types of operands must agree.
class GraphBuilder {
public:
  GraphBuilder(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  using Value = mlir::Value;

  /// A tensor of `type` filled with `value`.
  Value constant(double value, mlir::Type type);
  /// A rank-0 f32 tensor.
  Value scalar(double value);
  /// The value of a state or scalar of that type.
  Value load(llvm::StringRef symbol, mlir::Type type);
  void store(Value value, llvm::StringRef symbol);

  /// x with another element type; x itself when it has it already.
  Value cast(Value x, mlir::Type elementType);
  Value toF32(Value x);
  /// x repeated to `shape`; x's dimension k becomes dimension dims[k]. Rank 0 needs no dims.
  Value broadcast(Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims = {});
  Value reshape(Value x, llvm::ArrayRef<int64_t> shape);
  /// Sum or maximum over `dims`.
  Value reduce(Combiner combiner, Value x, llvm::ArrayRef<int64_t> dims);
  /// Sum of all elements, rank 0.
  Value sumAll(Value x);

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  Value mul(Value a, double b);
  Value add(Value a, double b);
  Value neg(Value x);
  Value sqrt(Value x);
  /// predicate(a, b) ? x : y
  Value select(Predicate predicate, Value a, Value b, Value x, Value y);
  /// op(a)·op(b), batched over leading dimensions; the result has element type `elementType`.
  Value matmul(Value a, Value b, bool transposeA, bool transposeB, mlir::Type elementType);

private:
  template <typename OpTy> Value binary(Value a, Value b);

  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// The ranked tensor type of a value.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace nano::graph
