// Rows of queries: a match of t / row · row.
#include "ir/graph/QueryRows.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"

#include <algorithm>

using namespace mlir;

namespace nano::graph {

RowsOfQueries rowsOfQueries(Value first, Value last) {
  auto begin = first ? first.getDefiningOp<MulOp>() : MulOp();
  auto number = begin ? begin->getOperand(0).getDefiningOp<DivOp>() : DivOp();
  if (!number || !number->getOperand(0).getDefiningOp<IotaOp>())
    return {};
  auto row = begin->getOperand(1).getDefiningOp<ConstantOp>(),
       divisor = number->getOperand(1).getDefiningOp<ConstantOp>();
  if (!row || !divisor || row.getValue() != divisor.getValue())
    return {};
  const int64_t tokens = cast<ShapedType>(first.getType()).getDimSize(0);
  return {std::min(int64_t(row.getValue().convertToDouble()), tokens),
          last && last.getDefiningOp<IotaOp>()};
}

} // namespace nano::graph
