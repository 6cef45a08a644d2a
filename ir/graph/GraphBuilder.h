// A builder for chains of small graph ops: passes write `g.mul(a, b)` where the equation says a·b.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/Shapes.h"

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
  /// Sum, maximum or log-sum-exp over `dims`.
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
  Value abs(Value x);
  Value sqrt(Value x);
  /// predicate(a, b) ? x : y
  Value select(Predicate predicate, Value a, Value b, Value x, Value y);
  /// op(a)·op(b), batched over leading dimensions; the result has element type `elementType`.
  Value matmul(Value a, Value b, bool transposeA, bool transposeB, mlir::Type elementType);
  /// The last two dimensions exchanged.
  Value transpose(Value x);
  /// x of floats with `count` zeros more behind it along `dim`; x itself when that is 0.
  Value withZeros(Value x, int64_t dim, int64_t count);

  /// See nano.quantize and nano.dequantize; `scale` is rank 0 or has one number a block.
  Value quantize(Value x, Value scale, mlir::Type elementType);
  Value dequantize(Value q, Value scale, mlir::Type elementType);
  /// The scale of each element of a tensor of `shape`.
  Value expand(Value scale, llvm::ArrayRef<int64_t> shape);
  /// `shape` with each dimension of several blocks split in two, the number of blocks and their
  /// size; and where in it the dimensions of `blocks` (of the same rank) are.
  static void splitBlocks(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> blocks,
                          llvm::SmallVectorImpl<int64_t> &split,
                          llvm::SmallVectorImpl<int64_t> &dims);

private:
  template <typename OpTy> Value binary(Value a, Value b);

  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// The type that the gradient of a tensor has: its own, or f32 where its elements are f8.
inline mlir::RankedTensorType gradientType(mlir::Type type) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  return isFloat8(tensor.getElementType()) ? tensor.clone(mlir::Float32Type::get(type.getContext()))
                                           : tensor;
}

/// The ranked tensor type of a value.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace nano::graph
