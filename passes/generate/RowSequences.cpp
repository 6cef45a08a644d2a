// One row of recurrences, which go on from the row before, and of products with the tokens of a
// band, which need the rows of its tokens.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Sequence.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/generate/RowRules.h"

#include <numeric>

using namespace mlir;
using namespace nano::graph;

namespace nano::generate {

/// a·h + b, of those that there are.
static Value stepped(GraphBuilder &g, RecurrenceOp op, ArrayRef<Value> row, Value before) {
  Value h = before;
  if (op.getA())
    h = g.mul(g.toF32(row[0]), before);
  return op.getB() ? g.add(h, g.toF32(row.back())) : h;
}

std::optional<Rule> RowProgram::recurrenceRule(Operation *op, Part part) {
  auto recurrence = cast<RecurrenceOp>(op);
  SmallVector<std::pair<Value, Part>> operands;
  for (Value operand : op->getOperands())
    operands.push_back({operand, part});
  if (part.dim != 1) {
    SmallVector<int64_t> shape(tensorType(recurrence).getShape());
    shape[size_t(part.dim)] = 1;
    return cloned(op, std::move(operands), tensorType(recurrence).clone(shape));
  }
  if (recurrence.getReverse() || recurrence.getAdjoint())
    return refuse(op, "it runs from the last position");
  if (part.shift != 0)
    return refuse(op, "an earlier row of it is needed, before it is a row of its own");
  return Rule{std::move(operands), [this, op](ArrayRef<Value> row) { return recur(op, row); }};
}

Value RowProgram::recur(Operation *op, ArrayRef<Value> row) {
  auto recurrence = cast<RecurrenceOp>(op);
  const Location location = op->getLoc();
  const RankedTensorType type = tensorType(recurrence);
  const int64_t N = type.getDimSize(0), T = type.getDimSize(1), C = type.getDimSize(2);
  // It is carried on in f32, and so kept in f32: `all` computes it so and rounds it then.
  OpBuilder ofAll(op->getContext());
  ofAll.setInsertionPointAfter(op);
  GraphBuilder inAll(ofAll, location);
  const RankedTensorType wide = type.clone(type.getShape(), ofAll.getF32Type());
  auto inF32 = [&](Value x) { return x ? inAll.toF32(x) : x; };
  const Value a = inF32(recurrence.getA()), b = inF32(recurrence.getB());
  Value carried = recurrence;
  if (type != wide) {
    carried = RecurrenceOp::create(ofAll, location, wide, a, b, recurrence.getInitialAttr(),
                                   UnitAttr(), UnitAttr());
    replaced.push_back({recurrence, inAll.cast(carried, type.getElementType())});
  }
  const Value rows = N == 1 ? inAll.reshape(carried, {T, C})
                            : Value(PermuteOp::create(ofAll, location, wide.clone({T, N, C}),
                                                      carried, ArrayRef<int64_t>{1, 0, 2}));

  GraphBuilder g(builder, location);
  const Value last = rowAt(loadKept(rows), index(-1, location), location);
  const RankedTensorType ofRow = wide.clone({N, 1, C});
  const Value before = g.select(Predicate::gt, g.broadcast(position, ofRow.getShape(), {1}),
                                g.constant(0, ofRow.clone(ofRow.getShape(), builder.getI32Type())),
                                g.reshape(last, ofRow.getShape()),
                                g.constant(recurrence.getInitial().convertToDouble(), ofRow));
  const Value h = stepped(g, recurrence, row, before);
  SmallVector<int64_t> kept = {1, N, C};
  if (N == 1)
    kept = {1, C};
  (void)this->kept(rows, g.reshape(h, kept));
  return g.cast(h, type.getElementType());
}

/// The rows of the `width` tokens up to the position, [width, …], in f32; zeros for those before
/// the first.
Value RowProgram::bandRows(Value value, Value row, int64_t width) {
  const Location location = value.getLoc();
  GraphBuilder g(builder, location);
  const RankedTensorType type = tensorType(value);
  const int64_t T = type.getDimSize(0), size = type.getNumElements() / T;
  const auto numbers = RankedTensorType::get({width}, builder.getI32Type());
  const Value at = g.add(g.add(IotaOp::create(builder, location, numbers, 0).getResult(),
                               g.broadcast(position, {width}, {0})),
                         double(1 - width));
  const Value ids =
      MaxOp::create(builder, location, numbers, at, g.constant(0, numbers)).getResult();
  const Value table = g.reshape(kept(value, row), {T, size});
  const Value found = g.toF32(
      GatherOp::create(builder, location, type.clone({width, size}), table, ids).getResult());
  const RankedTensorType found32 = tensorType(found);
  const Value masked =
      g.select(Predicate::ge, g.broadcast(at, found32.getShape(), {0}),
               g.constant(0, found32.clone(found32.getShape(), builder.getI32Type())), found,
               g.constant(0, found32));
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = width;
  return g.reshape(masked, shape);
}

std::optional<Rule> RowProgram::bandRule(Operation *op, Part part) {
  auto product = dyn_cast<BandProductOp>(op);
  if (part.dim != 0)
    return refuse(op, "positions are heads or columns of it");
  if (product && product.getTranspose())
    return refuse(op, "the tokens of its band are later ones");
  SmallVector<std::pair<Value, Part>> operands;
  for (Value operand : op->getOperands())
    operands.push_back({operand, part});
  return Rule{std::move(operands), [this, op](ArrayRef<Value> row) {
                GraphBuilder g(builder, op->getLoc());
                const RankedTensorType type = tensorType(op->getResult(0)),
                                       first = tensorType(op->getOperand(0)),
                                       second = tensorType(op->getOperand(1));
                const bool isScores = isa<BandScoresOp>(op);
                const int64_t H = second.getDimSize(1), D = second.getDimSize(2),
                              W = isScores ? type.getDimSize(2) : first.getDimSize(2);
                const Value band = bandRows(op->getOperand(1), row[1], W); // [W, H, D]
                const Value factor = g.reshape(g.toF32(row[0]), {H, isScores ? D : W});
                const SmallVector<int64_t> order =
                    isScores ? SmallVector<int64_t>{1, 0, 2} : SmallVector<int64_t>{1, 2, 0};
                SmallVector<int64_t> shape = {H, W, D}, dims = {0, 2};
                if (!isScores)
                  shape = {H, D, W};
                const Value turned = PermuteOp::create(builder, op->getLoc(),
                                                       tensorType(band).clone(shape), band, order);
                const Value sums =
                    g.reduce(Combiner::sum, g.mul(turned, g.broadcast(factor, shape, dims)), {2});
                const SmallVector<int64_t> of = {1, H, isScores ? W : D};
                return g.cast(g.reshape(sums, of), type.getElementType());
              }};
}

} // namespace nano::generate
