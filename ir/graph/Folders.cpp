// Folders of the `nano` dialect: what costs nothing to see and would otherwise cost a kernel.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace nano::graph;

namespace {

bool isInteger(Type type) { return cast<RankedTensorType>(type).getElementType().isInteger(); }

/// Whether `attribute` is a folded nano.constant of that very value. The sign of zero counts: a
/// constant is stored as f64, and ±0, 1 and −1 are what they are in every element type.
bool isConstant(Attribute attribute, double value) {
  auto constant = dyn_cast_if_present<FloatAttr>(attribute);
  return constant && constant.getValue().bitwiseIsEqual(APFloat(value));
}

/// Whether adding `attribute` to any number of `type` gives that number. −0 does so for floats; +0
/// does not, because −0 + 0 = +0.
bool isNeutralOfSum(Attribute attribute, Type type) {
  return isConstant(attribute, -0.0) || (isConstant(attribute, 0) && isInteger(type));
}

} // namespace

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

Operation *NanoDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  auto number = dyn_cast<FloatAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!number || !tensor)
    return nullptr;
  return ConstantOp::create(builder, loc, tensor, number);
}

/// x + (−0) → x, of integers also x + 0 → x. Commutative ops have their constants on the right.
OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isNeutralOfSum(adaptor.getRhs(), getType()))
    return getLhs();
  return {};
}

/// x − 0 → x; not x − (−0), which makes +0 of −0, unless of integers.
OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isConstant(adaptor.getRhs(), 0) ||
      (isConstant(adaptor.getRhs(), -0.0) && isInteger(getType())))
    return getLhs();
  return {};
}

/// x·1 → x
OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isConstant(adaptor.getRhs(), 1))
    return getLhs();
  return {};
}

/// x/1 → x
OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isConstant(adaptor.getRhs(), 1))
    return getLhs();
  return {};
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  // bf16 → f32 → bf16 and i16 → i32 → i16 change nothing.
  if (auto inner = getX().getDefiningOp<CastOp>(); inner && inner.getX().getType() == getType()) {
    const Type type = cast<RankedTensorType>(getType()).getElementType();
    const Type between = cast<RankedTensorType>(inner.getType()).getElementType();
    if ((type.isBF16() && between.isF32()) || (type.isInteger(16) && between.isInteger(32)))
      return inner.getX();
  }
  return {};
}

/// There and back.
OpFoldResult BitcastOp::fold(FoldAdaptor) {
  auto inner = getX().getDefiningOp<BitcastOp>();
  return inner && inner.getX().getType() == getType() ? OpFoldResult(inner.getX()) : OpFoldResult();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  return adaptor.getX();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto inner = getX().getDefiningOp<ReshapeOp>()) {
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return adaptor.getX();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  return adaptor.getX();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (auto inner = getX().getDefiningOp<TransposeOp>())
    return inner.getX();
  return adaptor.getX();
}

OpFoldResult PermuteOp::fold(FoldAdaptor adaptor) {
  if (llvm::is_sorted(getOrder()))
    return getX();
  if (auto inner = getX().getDefiningOp<PermuteOp>()) {
    SmallVector<int64_t> order;
    for (int64_t dim : getOrder())
      order.push_back(inner.getOrder()[dim]);
    setOrder(order);
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return adaptor.getX();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs().front();
  return {};
}
