// A builder for chains of small graph ops.
#include "ir/graph/GraphBuilder.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"

using namespace mlir;

namespace nano::graph {

Value GraphBuilder::constant(double value, Type type) {
  return ConstantOp::create(builder, location, type, builder.getF64FloatAttr(value));
}

Value GraphBuilder::scalar(double value) {
  return constant(value, RankedTensorType::get({}, builder.getF32Type()));
}

Value GraphBuilder::load(StringRef symbol, Type type) {
  return LoadOp::create(builder, location, type, symbol);
}

void GraphBuilder::store(Value value, StringRef symbol) {
  StoreOp::create(builder, location, value, symbol);
}

Value GraphBuilder::cast(Value x, Type elementType) {
  RankedTensorType type = tensorType(x).clone(elementType);
  return type == x.getType() ? x : CastOp::create(builder, location, type, x).getResult();
}

Value GraphBuilder::toF32(Value x) { return cast(x, builder.getF32Type()); }

Value GraphBuilder::broadcast(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  RankedTensorType type = tensorType(x).clone(shape);
  return type == x.getType() ? x
                             : BroadcastOp::create(builder, location, type, x, dims).getResult();
}

Value GraphBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensorType(x).clone(shape);
  return type == x.getType() ? x : ReshapeOp::create(builder, location, type, x).getResult();
}

Value GraphBuilder::reduce(Combiner combiner, Value x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept;
  for (auto [index, size] : llvm::enumerate(tensorType(x).getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(index)))
      kept.push_back(size);
  return ReduceOp::create(builder, location, tensorType(x).clone(kept), combiner, x, dims);
}

Value GraphBuilder::sumAll(Value x) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(x).getRank()));
  return dims.empty() ? x : reduce(Combiner::sum, x, dims);
}

template <typename OpTy> Value GraphBuilder::binary(Value a, Value b) {
  if (tensorType(a).getRank() == 0)
    a = broadcast(a, tensorType(b).getShape());
  if (tensorType(b).getRank() == 0)
    b = broadcast(b, tensorType(a).getShape());
  return OpTy::create(builder, location, a.getType(), a, b);
}

Value GraphBuilder::add(Value a, Value b) { return binary<AddOp>(a, b); }
Value GraphBuilder::sub(Value a, Value b) { return binary<SubOp>(a, b); }
Value GraphBuilder::mul(Value a, Value b) { return binary<MulOp>(a, b); }
Value GraphBuilder::div(Value a, Value b) { return binary<DivOp>(a, b); }
Value GraphBuilder::mul(Value a, double b) { return mul(a, constant(b, a.getType())); }
Value GraphBuilder::add(Value a, double b) { return add(a, constant(b, a.getType())); }
Value GraphBuilder::neg(Value x) { return NegOp::create(builder, location, x.getType(), x); }
Value GraphBuilder::abs(Value x) { return AbsOp::create(builder, location, x.getType(), x); }
Value GraphBuilder::sqrt(Value x) { return SqrtOp::create(builder, location, x.getType(), x); }

Value GraphBuilder::select(Predicate predicate, Value a, Value b, Value x, Value y) {
  return SelectOp::create(builder, location, x.getType(), predicate, a, b, x, y);
}

Value GraphBuilder::matmul(Value a, Value b, bool transposeA, bool transposeB, Type elementType) {
  SmallVector<int64_t> shape(tensorType(a).getShape());
  ArrayRef<int64_t> sizesB = tensorType(b).getShape();
  size_t rank = shape.size();
  int64_t rows = shape[transposeA ? rank - 1 : rank - 2];
  shape[rank - 2] = rows;
  shape[rank - 1] = sizesB[transposeB ? rank - 2 : rank - 1];
  return MatmulOp::create(builder, location, RankedTensorType::get(shape, elementType), a, b,
                          transposeA, transposeB);
}

Value GraphBuilder::transpose(Value x) {
  SmallVector<int64_t> shape(tensorType(x).getShape());
  std::swap(shape.back(), shape[shape.size() - 2]);
  return TransposeOp::create(builder, location, tensorType(x).clone(shape), x);
}

Value GraphBuilder::withZeros(Value x, int64_t dim, int64_t count) {
  if (count == 0)
    return x;
  RankedTensorType type = tensorType(x);
  Type element = type.getElementType();
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = count;
  const bool isScaled = element.getIntOrFloatBitWidth() == 8; // constants are not
  Value zeros = constant(0, type.clone(shape, isScaled ? builder.getF32Type() : element));
  if (isScaled)
    zeros = quantize(zeros, scalar(1), element);
  shape[dim] = type.getDimSize(dim) + count;
  return ConcatOp::create(builder, location, type.clone(shape), ValueRange{x, zeros}, dim);
}

Value GraphBuilder::quantize(Value x, Value scale, Type elementType) {
  return QuantizeOp::create(builder, location, tensorType(x).clone(elementType), x, scale);
}

Value GraphBuilder::dequantize(Value q, Value scale, Type elementType) {
  return DequantizeOp::create(builder, location, tensorType(q).clone(elementType), q, scale);
}

void GraphBuilder::splitBlocks(ArrayRef<int64_t> shape, ArrayRef<int64_t> blocks,
                               SmallVectorImpl<int64_t> &split, SmallVectorImpl<int64_t> &dims) {
  for (auto [size, count] : llvm::zip_equal(shape, blocks)) {
    dims.push_back(static_cast<int64_t>(split.size()));
    split.push_back(count);
    if (count != size)
      split.push_back(size / count);
  }
}

Value GraphBuilder::expand(Value scale, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> blocks = tensorType(scale).getShape();
  if (blocks.empty())
    return broadcast(scale, shape);
  SmallVector<int64_t> split, dims;
  splitBlocks(shape, blocks, split, dims);
  return reshape(broadcast(scale, split, dims), shape);
}

} // namespace nano::graph
