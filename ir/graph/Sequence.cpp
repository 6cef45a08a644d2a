// What must hold of the ops along a sequence, and their derivatives.
#include "ir/graph/Sequence.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Families.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Shapes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace nano::graph;

#define GET_OP_CLASSES
#include "ir/graph/SequenceOps.cpp.inc"

void nano::graph::addSequenceOps(NanoDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/graph/SequenceOps.cpp.inc"
      >(dialect);
}

using Gradients = SmallVector<Value>;

//===- Recurrences ---------------------------------------------------------------------------===//

LogicalResult RecurrenceOp::verify() {
  if (tensorType(getResult()).getRank() != 3)
    return emitOpError("runs along the middle one of three dimensions, not of ")
           << shapeText(getResult().getType());
  if (getAdjoint() && (!getB() || !getInitial().isZero()))
    return emitOpError("is an adjoint, which maps a term b and starts from 0");
  return success();
}

namespace {

/// x[n, t, c]·y[n, t−1, c], with `first` in place of the y before the first; `reverse`: of the y
/// behind, and the last.
Value timesNeighbour(GraphBuilder &g, OpBuilder &builder, Location loc, Value x, Value y,
                     double first, bool reverse) {
  RankedTensorType type = tensorType(x);
  if (type.getNumElements() == 0)
    return x;
  const int64_t length = type.getDimSize(1);
  if (type.getDimSize(2) == 1) {
    // Along rows: in one kernel with what else is done with them, where parts of rows would begin
    // at any place in memory.
    RankedTensorType rows = type.clone(type.getShape().drop_back());
    const int64_t shift = length == 1 ? 0 : reverse ? 1 : length - 1;
    Value rotated = RotateOp::create(builder, loc, g.reshape(y, rows.getShape()), shift);
    const RankedTensorType numbers = rows.clone(builder.getI32Type());
    Value column = IotaOp::create(builder, loc, numbers, 1);
    Value neighbour =
        g.select(Predicate::eq, column, g.constant(reverse ? double(length - 1) : 0, numbers),
                 g.constant(first, rows), rotated);
    return g.reshape(g.mul(g.reshape(x, rows.getShape()), neighbour), type.getShape());
  }
  auto part = [&](Value whole, int64_t start, int64_t size) -> Value {
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = size;
    return SliceOp::create(builder, loc, type.clone(shape), whole, 1, start);
  };
  Value end = g.mul(part(x, reverse ? length - 1 : 0, 1), first);
  if (length == 1)
    return end;
  Value others = g.mul(part(x, reverse ? 0 : 1, length - 1), part(y, reverse ? 1 : 0, length - 1));
  SmallVector<Value> parts = {end, others};
  if (reverse)
    std::swap(parts[0], parts[1]);
  return ConcatOp::create(builder, loc, type, parts, 1);
}

} // namespace

/// The transposed map of the gradient, u, is b's; a's is u[t]·h[t−1]. Of the adjoint, whose
/// gradient's map is the recurrence itself, a's is h[t]·u[t−1].
Gradients RecurrenceOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  const bool reverse = getReverse();
  Value u = RecurrenceOp::create(builder, getLoc(), getType(), getA(), resultGrads[0],
                                 builder.getF64FloatAttr(0), getReverseAttr(),
                                 getAdjoint() ? UnitAttr() : builder.getUnitAttr());
  Gradients gradients;
  if (getA())
    gradients.push_back(getAdjoint()
                            ? timesNeighbour(g, builder, getLoc(), getResult(), u, 0, reverse)
                            : timesNeighbour(g, builder, getLoc(), u, getResult(),
                                             getInitial().convertToDouble(), reverse));
  if (getB())
    gradients.push_back(u);
  return gradients;
}

//===- Bands ---------------------------------------------------------------------------------===//

namespace {

/// `scores` [T, H, W], the others [T, H, D].
LogicalResult verifyBand(Operation *op, Value scores, Value rows, Value others) {
  ArrayRef<int64_t> s = tensorType(scores).getShape(), x = tensorType(rows).getShape();
  if (s.size() != 3 || x.size() != 3 || tensorType(others).getShape() != x ||
      s.drop_back() != x.drop_back())
    return op->emitOpError("needs a band of [T, H, W] and rows of [T, H, D], has ")
           << shapeText(s) << ", " << shapeText(x) << " and " << shapeText(others.getType());
  if (s[2] < 1 || s[2] > s[0])
    return op->emitOpError("has a band of ") << s[2] << " tokens in a sequence of " << s[0];
  return success();
}

} // namespace

LogicalResult BandScoresOp::verify() { return verifyBand(*this, getResult(), getQ(), getK()); }

Gradients BandScoresOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  Value dq = BandProductOp::create(builder, getLoc(), getQ().getType(), resultGrads[0], getK(),
                                   UnitAttr());
  Value dk = BandProductOp::create(builder, getLoc(), getK().getType(), resultGrads[0], getQ(),
                                   builder.getUnitAttr());
  return {dq, dk};
}

LogicalResult BandProductOp::verify() { return verifyBand(*this, getP(), getV(), getResult()); }

Gradients BandProductOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  Value dy = resultGrads[0];
  const bool transposed = getTranspose();
  Value dp = BandScoresOp::create(builder, getLoc(), getP().getType(), transposed ? getV() : dy,
                                  transposed ? dy : getV());
  Value dv = BandProductOp::create(builder, getLoc(), getV().getType(), getP(), dy,
                                   transposed ? UnitAttr() : builder.getUnitAttr());
  return {dp, dv};
}
