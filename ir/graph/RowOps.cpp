// What ops cost that are computed row by row, and which choices need one element of a row alone.
#include "ir/graph/RowOps.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nano {

int64_t elementsOf(Value value) {
  return ShapedType::getNumElements(cast<ShapedType>(value.getType()).getShape());
}

int64_t elementsOfEach(graph::ReduceOp reduce) {
  return elementsOf(reduce.getX()) / elementsOf(reduce.getResult());
}

int64_t costOf(Operation *op) {
  if (const std::optional<graph::FunctionTraits> function = graph::traitsOf(op))
    return function->cost;
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<graph::DivOp>([](graph::DivOp div) {
        if (div.getRhs().getDefiningOp<graph::ConstantOp>())
          return 1;
        return cast<ShapedType>(div.getType()).getElementType().isInteger(32) ? 40 : 8;
      })
      .Case<graph::RemOp>([](graph::RemOp rem) {
        return rem.getRhs().getDefiningOp<graph::ConstantOp>() ? 10 : 42;
      })
      .Case<graph::PhiloxOp>([](auto) { return 120; })
      .Case<graph::NormalOp>([](auto) { return 75; })
      .Case<graph::ReduceOp>([](graph::ReduceOp reduce) {
        return reduce.getCombiner() == graph::Combiner::logsumexp ? 23 : 1;
      })
      .Case<graph::ConstantOp, graph::ReshapeOp, graph::BroadcastOp>([](auto) { return 0; })
      .Default([](Operation *) { return 1; });
}

/// True for select(eq, column, a number a row, …) over rows of so many columns.
static bool choosesOneColumn(graph::SelectOp select, int64_t columns) {
  auto column = select.getLhs().getDefiningOp<graph::IotaOp>();
  auto target = select.getRhs().getDefiningOp<graph::BroadcastOp>();
  if (select.getPredicate() != graph::Predicate::eq || !column || !target)
    return false;
  RankedTensorType type = column.getType();
  int64_t last = type.getRank() - 1;
  return type.getElementType().isInteger(32) && int64_t(column.getDim()) == last &&
         type.getDimSize(last) == columns && columns > 1 &&
         !llvm::is_contained(target.getDims(), last);
}

graph::SelectOp columnChoice(Value output, int64_t columns) {
  if (auto cast = output.getDefiningOp<graph::CastOp>())
    output = cast.getX();
  auto select = output.getDefiningOp<graph::SelectOp>();
  return select && choosesOneColumn(select, columns) ? select : graph::SelectOp();
}

graph::SelectOp pickedBy(graph::ReduceOp reduce) {
  auto select = reduce.getX().getDefiningOp<graph::SelectOp>();
  auto zero = select ? select.getOnFalse().getDefiningOp<graph::ConstantOp>() : graph::ConstantOp();
  bool isPicked = zero && zero.getValue().isZero() &&
                  reduce.getCombiner() == graph::Combiner::sum &&
                  choosesOneColumn(select, elementsOfEach(reduce));
  return isPicked ? select : graph::SelectOp();
}

} // namespace nano
