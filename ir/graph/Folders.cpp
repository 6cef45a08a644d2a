// Folders of the `nano` dialect: what costs nothing to see and would otherwise cost a kernel.
#include "ir/graph/Nano.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace nano::graph;

namespace {

/// The value of every element, where `attribute` is a folded nano.constant.
std::optional<double> uniformValue(Attribute attribute) {
  if (auto value = dyn_cast_if_present<FloatAttr>(attribute))
    return value.getValueAsDouble();
  return std::nullopt;
}

bool isUniform(Attribute attribute, double value) { return uniformValue(attribute) == value; }

} // namespace

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

Operation *NanoDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto number = dyn_cast<FloatAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!number || !tensor)
    return nullptr;
  return ConstantOp::create(builder, loc, tensor, number);
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isUniform(adaptor.getRhs(), 0))
    return getLhs();
  return {};
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isUniform(adaptor.getRhs(), 0))
    return getLhs();
  return {};
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isUniform(adaptor.getRhs(), 1))
    return getLhs();
  return {};
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isUniform(adaptor.getRhs(), 1))
    return getLhs();
  return {};
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  // bf16 → f32 → bf16 changes nothing.
  if (auto inner = getX().getDefiningOp<CastOp>())
    if (inner.getX().getType() == getType() && cast<RankedTensorType>(getType()).getElementType().isBF16() &&
        cast<RankedTensorType>(inner.getType()).getElementType().isF32())
      return inner.getX();
  return {};
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

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs().front();
  return {};
}
