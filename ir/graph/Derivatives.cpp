// Derivatives of the element-wise ops but functions of one number (ElementwiseOps.td), and of the
// shape ops: vector-Jacobian products as graph ops that fuse well. With dy the gradient of the loss
// with respect to the result, each line gives the gradient of the operand.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/Builders.h"

#include <numeric>

using namespace mlir;
using namespace nano::graph;

namespace {

using Gradients = SmallVector<Value>;

bool isFloat(Value value) {
  return tensorType(value).getElementType().isF32() || tensorType(value).getElementType().isBF16();
}

} // namespace

//===- Binary and choice -------------------------------------------------------------------===//

Gradients AddOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  return {resultGrads[0], resultGrads[0]};
}

Gradients SubOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  return {resultGrads[0], g.neg(resultGrads[0])};
}

/// da = dy·b, db = dy·a; where dy = p/(a·b), da = p/a, db = p/b: fewer roundings.
Gradients MulOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getResult()))
    return {Value(), Value()};
  GraphBuilder g(builder, getLoc());
  if (auto dy = resultGrads[0].getDefiningOp<DivOp>(); dy && dy.getRhs() == getResult())
    return {g.div(dy.getLhs(), getLhs()), g.div(dy.getLhs(), getRhs())};
  return {g.mul(resultGrads[0], getRhs()), g.mul(resultGrads[0], getLhs())};
}

/// da = dy/b, db = −da·y
Gradients DivOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getResult()))
    return {Value(), Value()};
  GraphBuilder g(builder, getLoc());
  Value da = g.div(resultGrads[0], getRhs());
  return {da, g.neg(g.mul(da, getResult()))};
}

namespace {

/// The gradient goes to the operand that was chosen; where both are equal, to b (so that max(x, 0)
/// has slope 0 at 0).
Gradients chooseDerivative(OpBuilder &builder, Operation *op, Predicate predicate, Value a, Value b,
                           Value dy) {
  GraphBuilder g(builder, op->getLoc());
  Value zero = g.constant(0, dy.getType());
  return {g.select(predicate, a, b, dy, zero), g.select(predicate, a, b, zero, dy)};
}

} // namespace

Gradients MaxOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getResult()))
    return {Value(), Value()};
  return chooseDerivative(builder, *this, Predicate::gt, getLhs(), getRhs(), resultGrads[0]);
}

Gradients MinOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getResult()))
    return {Value(), Value()};
  return chooseDerivative(builder, *this, Predicate::lt, getLhs(), getRhs(), resultGrads[0]);
}

Gradients SelectOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getResult()))
    return {Value(), Value(), Value(), Value()};
  Gradients chosen =
      chooseDerivative(builder, *this, getPredicate(), getLhs(), getRhs(), resultGrads[0]);
  return {Value(), Value(), chosen[0], chosen[1]};
}

/// The gradient is cast back. Integers have none, and neither has f8: whoever quantises states what
/// flows through.
Gradients CastOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getX()) || !isFloat(getResult()))
    return {Value()};
  GraphBuilder g(builder, getLoc());
  return {g.cast(resultGrads[0], tensorType(getX()).getElementType())};
}

/// Bits have no derivative.
Gradients BitcastOp::buildDerivative(OpBuilder &, ValueRange) { return {Value()}; }

//===- Shape -------------------------------------------------------------------------------===//

/// dx = the sum of dy over what was repeated.
Gradients BroadcastOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getX()))
    return {Value()};
  GraphBuilder g(builder, getLoc());
  ArrayRef<int64_t> from = tensorType(getX()).getShape(), to = tensorType(getResult()).getShape();
  SmallVector<bool> repeated(to.size(), true);
  for (auto [size, dim] : llvm::zip_equal(from, getDims()))
    repeated[dim] = size != to[dim];
  SmallVector<int64_t> dims;
  for (auto [dim, isRepeated] : llvm::enumerate(repeated))
    if (isRepeated)
      dims.push_back(static_cast<int64_t>(dim));
  Value dx = resultGrads[0];
  if (!dims.empty())
    dx = g.reduce(Combiner::sum, dx, dims);
  return {dx.getType() == getX().getType() ? dx : g.reshape(dx, from)};
}

Gradients ReshapeOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getX()))
    return {Value()};
  GraphBuilder g(builder, getLoc());
  return {g.reshape(resultGrads[0], tensorType(getX()).getShape())};
}

/// dx = zeros, with dy in the slice's place.
Gradients SliceOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (!isFloat(getX()))
    return {Value()};
  GraphBuilder g(builder, getLoc());
  RankedTensorType whole = tensorType(getX());
  auto dim = static_cast<int64_t>(getDim()), start = static_cast<int64_t>(getStart());
  int64_t size = tensorType(getResult()).getDimSize(dim), end = start + size;
  auto zeros = [&](int64_t extent) {
    SmallVector<int64_t> shape(whole.getShape());
    shape[dim] = extent;
    return g.constant(0, whole.clone(shape));
  };
  SmallVector<Value> parts;
  if (start > 0)
    parts.push_back(zeros(start));
  parts.push_back(resultGrads[0]);
  if (end < whole.getDimSize(dim))
    parts.push_back(zeros(whole.getDimSize(dim) - end));
  if (parts.size() == 1)
    return {parts[0]};
  return {ConcatOp::create(builder, getLoc(), whole, parts, dim)};
}

Gradients ConcatOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  Gradients gradients;
  auto dim = static_cast<int64_t>(getDim());
  int64_t start = 0;
  for (Value input : getInputs()) {
    gradients.push_back(isFloat(input) ? SliceOp::create(builder, getLoc(), input.getType(),
                                                         resultGrads[0], dim, start)
                                       : Value());
    start += tensorType(input).getDimSize(dim);
  }
  return gradients;
}

/// dx[c] = dy[(c − shift) mod C]
Gradients RotateOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  int64_t columns = tensorType(getX()).getShape().back(), shift = getShift();
  return {RotateOp::create(builder, getLoc(), getX().getType(), resultGrads[0],
                           (columns - shift) % columns)};
}

Gradients TransposeOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (tensorType(getX()).getElementType().isInteger())
    return {Value()};
  return {GraphBuilder(builder, getLoc()).transpose(resultGrads[0])};
}

Gradients PermuteOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  if (tensorType(getX()).getElementType().isInteger())
    return {Value()};
  SmallVector<int64_t> back(getOrder().size());
  for (auto [place, dim] : llvm::enumerate(getOrder()))
    back[dim] = static_cast<int64_t>(place);
  return {
      PermuteOp::create(builder, getLoc(), gradientType(getX().getType()), resultGrads[0], back)};
}

/// Of a sum: dy, repeated. Of a maximum: dy, repeated, where x equals it. Of a log-sum-exp:
/// dy·e^(x − y).
Gradients ReduceOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  ArrayRef<int64_t> shape = tensorType(getX()).getShape();
  SmallVector<int64_t> kept;
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
    if (!llvm::is_contained(getDims(), dim))
      kept.push_back(dim);
  Value dy = g.broadcast(resultGrads[0], shape, kept);
  if (getCombiner() == Combiner::sum)
    return {dy};
  Value y = g.broadcast(getResult(), shape, kept);
  if (getCombiner() == Combiner::logsumexp)
    return {g.mul(dy, ExpOp::create(builder, getLoc(), y.getType(), g.sub(getX(), y)).getResult())};
  return {g.select(Predicate::eq, getX(), y, dy, g.constant(0, dy.getType()))};
}
