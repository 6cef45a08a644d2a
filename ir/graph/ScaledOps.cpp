// Quantised tensors: what must hold of their ops, and their derivatives, which are those of the
// equations without rounding.
#include "ir/graph/ScaledOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Shapes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace nano::graph;

namespace {

using Gradients = SmallVector<Value>;

ArrayRef<int64_t> shapeOf(Value value) { return tensorType(value).getShape(); }

/// The scale of a tensor of `shape`: one number, or one a block of equal blocks.
LogicalResult verifyScale(Operation *op, ArrayRef<int64_t> shape, Value scale) {
  ArrayRef<int64_t> scales = shapeOf(scale);
  bool fits = scales.empty() || scales.size() == shape.size();
  for (size_t dim = 0; fits && dim < scales.size(); ++dim)
    fits = scales[dim] > 0 && shape[dim] % scales[dim] == 0;
  if (fits)
    return success();
  return op->emitOpError("scale ")
         << shapeText(scales) << " is neither one number nor one a block of " << shapeText(shape)
         << ": its sizes must divide those";
}

LogicalResult verifyConversion(Operation *op, Value scale) {
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  if (from != to)
    return op->emitOpError("shapes of operand and result differ: ")
           << shapeText(from) << " and " << shapeText(to);
  return verifyScale(op, to, scale);
}

} // namespace

//===- Verifiers ---------------------------------------------------------------------------===//

LogicalResult QuantizeOp::verify() { return verifyConversion(*this, getScale()); }
LogicalResult DequantizeOp::verify() { return verifyConversion(*this, getScale()); }

LogicalResult ScaledMatmulOp::verify() {
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB()), c = shapeOf(getResult());
  auto product = [&] {
    return shapeText(a) + (getTransposeA() ? "ᵀ" : "") + " × " + shapeText(b) +
           (getTransposeB() ? "ᵀ" : "");
  };
  if (a.size() != 2 || b.size() != 2)
    return emitOpError("operands must be matrices: ") << product();
  int64_t m = a[getTransposeA() ? 1 : 0], k = a[getTransposeA() ? 0 : 1];
  int64_t n = b[getTransposeB() ? 0 : 1], inner = b[getTransposeB() ? 1 : 0];
  if (k != inner)
    return emitOpError("inner dimensions differ: ") << product();
  if (c != ArrayRef<int64_t>({m, n}))
    return emitOpError("the product's shape and the result's differ: ")
           << shapeText({m, n}) << " and " << shapeText(c);
  bool blocks = !shapeOf(getScaleA()).empty();
  if (blocks == shapeOf(getScaleB()).empty())
    return emitOpError("one scale is a number, the other is one a block: ")
           << shapeText(shapeOf(getScaleA())) << " and " << shapeText(shapeOf(getScaleB()));
  if (blocks)
    for (bool left : {true, false})
      if (std::string message =
              blockScaleError(left ? a : b, shapeOf(left ? getScaleA() : getScaleB()),
                              left ? !getTransposeA() : getTransposeB(), blockSize);
          !message.empty())
        return emitOpError(left ? "scale_a " : "scale_b ") << message;
  if (getAddend() && getAddend().getType() != getType())
    return emitOpError("types of addend and result differ: ")
           << getAddend().getType() << " and " << getType();
  return success();
}

void ScaledMatmulOp::build(OpBuilder &builder, OperationState &state, Type result, Value a, Value b,
                           Value scaleA, Value scaleB, bool transposeA, bool transposeB) {
  build(builder, state, result, a, b, scaleA, scaleB, Value(), transposeA, transposeB, APFloat(1.0),
        APFloat(1.0), /*layer=*/{});
}

std::string nano::graph::blockScaleError(ArrayRef<int64_t> shape, ArrayRef<int64_t> scales,
                                         bool innerIsLast, int64_t block) {
  int64_t inner = innerIsLast ? 1 : 0, outer = 1 - inner;
  if (shape[inner] % block != 0)
    return "has blocks of " + std::to_string(block) + " along the inner dimension, which is " +
           std::to_string(shape[inner]);
  bool fits = scales.size() == 2 && scales[inner] == shape[inner] / block &&
              (scales[outer] == shape[outer] ||
               (shape[outer] % block == 0 && scales[outer] == shape[outer] / block));
  if (fits)
    return "";
  auto text = [&](int64_t outerSize) {
    SmallVector<int64_t, 2> sizes(2);
    sizes[inner] = shape[inner] / block;
    sizes[outer] = outerSize;
    return shapeText(sizes);
  };
  std::string message = "is " + shapeText(scales) + ", must be " + text(shape[outer]);
  if (shape[outer] % block == 0)
    message += " or " + text(shape[outer] / block);
  return message + " for an operand of " + shapeText(shape);
}

//===- Derivatives -------------------------------------------------------------------------===//

namespace {

/// The gradient of a scale: the sum of `x` over what each scale belongs to.
Value sumOverBlocks(GraphBuilder &g, Value x, Value scale) {
  if (shapeOf(scale).empty())
    return g.sumAll(x);
  SmallVector<int64_t> split, kept, dims;
  GraphBuilder::splitBlocks(shapeOf(x), shapeOf(scale), split, kept);
  for (int64_t dim = 0; dim < static_cast<int64_t>(split.size()); ++dim)
    if (!llvm::is_contained(kept, dim))
      dims.push_back(dim);
  Value blocks = g.reshape(x, split);
  return dims.empty() ? blocks : g.reduce(Combiner::sum, blocks, dims);
}

} // namespace

/// q = x/scale: dx = dq/scale, dscale = −Σ dx·q.
Gradients QuantizeOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  Value dx = g.div(g.toF32(resultGrads[0]), g.expand(getScale(), shapeOf(getX())));
  Value dscale = g.neg(sumOverBlocks(g, g.mul(dx, g.toF32(getResult())), getScale()));
  return {g.cast(dx, tensorType(getX()).getElementType()), dscale};
}

/// x = q·scale: dq = dx·scale, dscale = Σ dx·q.
Gradients DequantizeOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  Value dx = g.toF32(resultGrads[0]);
  return {g.mul(dx, g.expand(getScale(), shapeOf(getQ()))),
          sumOverBlocks(g, g.mul(dx, g.toF32(getQ())), getScale())};
}

/// With A = a·scale_a, B = b·scale_b: dA and dB are those of the product of A and B in f32, and
/// what flows on is what flows through A = a·scale_a.
Gradients ScaledMatmulOp::buildDerivative(OpBuilder &builder, ValueRange resultGrads) {
  GraphBuilder g(builder, getLoc());
  Value dy = g.toF32(resultGrads[0]);
  Type f32 = builder.getF32Type();
  Value a = g.dequantize(getA(), getScaleA(), f32), b = g.dequantize(getB(), getScaleB(), f32);
  bool ta = getTransposeA(), tb = getTransposeB();
  double alpha = getAlpha().convertToDouble();
  auto product = [&](Value left, bool transposeLeft, Value right, bool transposeRight) {
    return g.mul(g.matmul(left, right, transposeLeft, transposeRight, f32), alpha);
  };
  Value db = tb ? product(dy, true, a, ta) : product(a, !ta, dy, false);
  Value da = ta ? product(b, tb, dy, true) : product(dy, false, b, !tb);
  auto through = [&](Value d, Value q, Value scale) {
    return std::pair(g.mul(d, g.expand(scale, shapeOf(q))),
                     sumOverBlocks(g, g.mul(d, g.toF32(q)), scale));
  };
  auto [dqa, dsa] = through(da, getA(), getScaleA());
  auto [dqb, dsb] = through(db, getB(), getScaleB());
  Gradients gradients{dqa, dqb, dsa, dsb};
  if (getAddend())
    gradients.push_back(g.mul(resultGrads[0], getBeta().convertToDouble()));
  return gradients;
}
