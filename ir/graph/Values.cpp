// What passes ask of values of graph programs.
#include "ir/graph/Values.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

using namespace mlir;

namespace nano::graph {

int64_t bytesOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getNumElements() * type.getElementTypeBitWidth() / 8 : 0;
}

bool isZero(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && constant.getValue().isZero();
}

/// What `value` is, before casts and reshapes.
static Value withoutCasts(Value value) {
  while (isa_and_present<CastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

LoadOp loadOf(Value value) { return withoutCasts(value).getDefiningOp<LoadOp>(); }

bool isOfParameters(Value value, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (auto load = dyn_cast_if_present<LoadOp>(op)) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(load, load.getSymbolAttr());
    if (!state || state.getRole() != Role::Parameter)
      return false;
  } else if (!isa_and_present<BroadcastOp, CastOp, ConstantOp, IotaOp, MulOp, ReshapeOp, SelectOp,
                              SliceOp>(op)) {
    return false;
  }
  if (ops.contains(op))
    return true;
  for (Value operand : op->getOperands())
    if (!isOfParameters(operand, ops))
      return false;
  ops.insert(op);
  return true;
}

Value multiplied(MulOp mul) {
  if (mul.getRhs().getDefiningOp<BroadcastOp>())
    return mul.getLhs();
  return mul.getLhs().getDefiningOp<BroadcastOp>() ? mul.getRhs() : Value();
}

MulOp scaledRows(Value value) {
  auto mul = withoutCasts(value).getDefiningOp<MulOp>();
  llvm::SetVector<Operation *> ops;
  return mul && multiplied(mul) && isOfParameters(mul, ops) ? mul : MulOp();
}

LoadOp weightOf(Value value) {
  MulOp scaled = scaledRows(value);
  return loadOf(scaled ? multiplied(scaled) : value);
}

} // namespace nano::graph
