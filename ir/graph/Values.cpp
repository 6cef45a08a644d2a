// What passes ask of values of graph programs.
#include "ir/graph/Values.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Nano.h"

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

} // namespace nano::graph
