// What passes ask of values of graph programs.
#include "ir/graph/Values.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ShapeOps.h"

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

LoadOp loadOf(Value value) {
  while (isa_and_present<CastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<LoadOp>();
}

} // namespace nano::graph
