// Pairs of neighbouring columns, from what is put side by side back to what was cut apart.
#include "passes/fuse/PairedColumns.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// Makes one tensor [..., 2] of two [..., 1] that are computed alike.
class Joiner {
public:
  explicit Joiner(ConcatOp concat)
      : concat(concat), shape(tensorType(concat).getShape()), builder(concat),
        g(builder, concat.getLoc()) {}

  /// The columns that `concat` puts side by side as one tensor; null, and nothing changed, where
  /// they are no columns of tensors of pairs.
  Value run() {
    if (concat.getInputs().size() != 2 || int64_t(concat.getDim()) + 1 != int64_t(shape.size()) ||
        shape.size() < 2 || shape.back() != 2 ||
        tensorType(concat.getInputs()[0]).getShape().back() != 1)
      return nullptr;
    const Value all = joined(concat.getInputs()[0], concat.getInputs()[1]);
    if (all && all != concat.getResult() && isOfPairs && areReadHereAlone())
      return all;
    for (Operation *op : llvm::reverse(made))
      if (op->use_empty())
        op->erase();
    return nullptr;
  }

private:
  Value own(Value value) {
    made.push_back(value.getDefiningOp());
    return value;
  }
  RankedTensorType pairsOf(Value column) const { return tensorType(column).clone(shape); }

  /// The pairs whose first columns are `first` and whose second ones are `second`.
  Value joined(Value first, Value second) {
    if (auto it = known.find({first, second}); it != known.end())
      return it->second;
    Value pairs = first == second ? repeated(first) : ofSlices(first, second);
    if (!pairs && first != second)
      pairs = ofOps(first, second);
    return known[{first, second}] = pairs;
  }

  /// A column that stands in both places and is none of a pair.
  Value repeated(Value column) {
    Operation *op = column.getDefiningOp();
    const RankedTensorType type = pairsOf(column);
    if (auto constant = dyn_cast_if_present<ConstantOp>(op))
      return own(g.constant(constant.getValue().convertToDouble(), type));
    if (auto broadcast = dyn_cast_if_present<BroadcastOp>(op))
      return own(
          BroadcastOp::create(builder, op->getLoc(), type, broadcast.getX(), broadcast.getDims()));
    if (auto reshape = dyn_cast_if_present<ReshapeOp>(op);
        reshape && tensorType(reshape.getX()).getShape() == shape.drop_back())
      return own(g.broadcast(reshape.getX(), shape,
                             llvm::to_vector(llvm::seq<int64_t>(0, shape.size() - 1))));
    return op && op->hasTrait<ElementwiseOp>() ? ofSameOp(op, op, op->getOperands()) : Value();
  }

  /// Both columns of one tensor.
  Value ofSlices(Value first, Value second) {
    auto a = first.getDefiningOp<SliceOp>(), b = second.getDefiningOp<SliceOp>();
    if (!a || !b || a.getX() != b.getX() || int64_t(a.getDim()) + 1 != int64_t(shape.size()) ||
        a.getDim() != b.getDim() || tensorType(a.getX()).getShape() != shape ||
        !isa<FloatType>(tensorType(first).getElementType()) ||
        isFloat8(tensorType(first).getElementType()))
      return nullptr;
    isOfPairs = true;
    return a.getStart() < b.getStart()
               ? a.getX()
               : own(RotateOp::create(builder, concat.getLoc(), a.getX(), 1));
  }

  Value ofOps(Value first, Value second) {
    Operation *a = first.getDefiningOp(), *b = second.getDefiningOp();
    if (!a || !b || first.getType() != second.getType())
      return nullptr;
    if (a->hasTrait<ElementwiseOp>() && a->getNumResults() == 1 && a->getName() == b->getName() &&
        a->getAttrDictionary() == b->getAttrDictionary())
      if (Value pairs = ofSameOp(a, b, b->getOperands()))
        return pairs;
    if (isa<AddOp, MulOp>(a) && a->getName() == b->getName())
      if (Value pairs = ofSameOp(a, b, {b->getOperand(1), b->getOperand(0)}))
        return pairs;
    if (isa<SubOp>(a) && isa<AddOp>(b))
      for (bool turned : {false, true})
        if (Value pairs = ofSigns(a, b, {b->getOperand(turned), b->getOperand(!turned)}, true))
          return pairs;
    if (isa<AddOp>(a) && isa<SubOp>(b))
      for (bool turned : {false, true})
        if (Value pairs = ofSigns(b, a, {a->getOperand(turned), a->getOperand(!turned)}, false))
          return pairs;
    if (isa<NegOp>(a) || isa<NegOp>(b)) {
      const bool isFirst = isa<NegOp>(a);
      Operation *negated = isFirst ? a : b;
      inside.insert(negated);
      const Value x = negated->getOperand(0);
      if (Value pairs = isFirst ? joined(x, second) : joined(first, x))
        return withSign(pairs, isFirst);
    }
    return nullptr;
  }

  /// a's op of the operands' pairs, those of b in this order.
  Value ofSameOp(Operation *a, Operation *b, ValueRange operandsOfB) {
    SmallVector<Value> operands;
    for (auto [x, y] : llvm::zip(a->getOperands(), operandsOfB)) {
      operands.push_back(joined(x, y));
      if (!operands.back())
        return nullptr;
    }
    inside.insert(a);
    inside.insert(b);
    OperationState state(a->getLoc(), a->getName().getStringRef(), operands,
                         {pairsOf(a->getResult(0))}, a->getAttrs());
    return own(builder.create(state)->getResult(0));
  }

  /// difference's x − y in one column and a sum of two others in the other.
  Value ofSigns(Operation *difference, Operation *sum, std::array<Value, 2> parts,
                bool isDifferenceFirst) {
    const auto both = [&](Value ofDifference, Value ofSum) {
      return isDifferenceFirst ? joined(ofDifference, ofSum) : joined(ofSum, ofDifference);
    };
    const Value x = both(difference->getOperand(0), parts[0]);
    const Value y = x ? both(difference->getOperand(1), parts[1]) : Value();
    if (!y)
      return nullptr;
    inside.insert(difference);
    inside.insert(sum);
    return own(g.add(x, withSign(y, isDifferenceFirst)));
  }

  /// The pairs with a minus before their first or second column.
  Value withSign(Value pairs, bool isFirst) {
    if (!column) {
      const auto integers = RankedTensorType::get(shape, builder.getI32Type());
      column = own(IotaOp::create(builder, concat.getLoc(), integers, shape.size() - 1));
      one = own(g.constant(1, integers));
    }
    const Value minus = own(g.neg(pairs));
    return own(
        g.select(Predicate::lt, column, one, isFirst ? minus : pairs, isFirst ? pairs : minus));
  }

  /// True when nothing else needs a column by itself.
  bool areReadHereAlone() const {
    return llvm::all_of(inside, [&](Operation *op) {
      return llvm::all_of(op->getUsers(), [&](Operation *user) {
        return user == concat || inside.contains(user) || isRepeated(op);
      });
    });
  }
  bool isRepeated(Operation *op) const {
    return known.contains({op->getResult(0), op->getResult(0)});
  }

  ConcatOp concat;
  ArrayRef<int64_t> shape;
  OpBuilder builder;
  GraphBuilder g;
  llvm::DenseMap<std::pair<Value, Value>, Value> known;
  llvm::DenseSet<Operation *> inside; ///< ops of which both columns are computed by one
  SmallVector<Operation *> made;
  bool isOfPairs = false;
  Value column, one;
};

/// Erases ops that nothing reads, and what was made for them alone.
void eraseUnread(Operation *op) {
  SmallVector<Operation *> unread = {op};
  while (!unread.empty()) {
    Operation *each = unread.pop_back_val();
    if (!isOpTriviallyDead(each))
      continue;
    llvm::SmallSetVector<Operation *, 4> makers;
    for (Value operand : each->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        makers.insert(maker);
    each->erase();
    llvm::append_range(unread, makers);
  }
}

} // namespace

void joinPairedColumns(ProgramOp function) {
  SmallVector<ConcatOp> all;
  function.walk([&](ConcatOp op) { all.push_back(op); });
  for (ConcatOp concat : all)
    if (Value pairs = Joiner(concat).run()) {
      concat.getResult().replaceAllUsesWith(pairs);
      eraseUnread(concat);
    }
}

} // namespace nano
