// Connected element-wise ops behind reshapes of gathered rows, by a walk over operands and users.
#include "passes/fuse/WidenRows.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

bool hasShape(Value value, ArrayRef<int64_t> shape) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getShape() == shape;
}

/// A reshape that cuts gathered rows [T, C] into [T, H, …].
bool cutsGatheredRows(ReshapeOp reshape) {
  RankedTensorType from = tensorType(reshape.getX()), to = tensorType(reshape);
  return reshape.getX().getDefiningOp<GatherOp>() && from.getRank() == 2 && to.getRank() > 2 &&
         to.getDimSize(0) == from.getDimSize(0) && to.getShape().back() != from.getDimSize(1);
}

/// True for what costs nothing to have once more, and connects nothing.
bool isNumber(Operation *op) { return isa<ConstantOp, BroadcastOp>(op); }

/// What is connected with one reshape, and how it becomes ops of whole rows.
class Widening {
public:
  explicit Widening(ReshapeOp seed)
      : heads(tensorType(seed).getShape()), rows(tensorType(seed.getX()).getShape()) {
    take(seed);
    while (!refused && !open.empty())
      look(open.pop_back_val());
  }

  /// False when an op that is connected needs heads.
  bool isPossible() const { return !refused; }
  const llvm::SetVector<Operation *> &ops() const { return found; }
  void run();

private:
  enum class Kind {
    Seed,    ///< a reshape of gathered rows
    Inside,  ///< becomes an op of whole rows
    Outside, ///< reads or makes heads in memory, where rows are the same
    Refusing ///< may be in one kernel with ops inside, and needs heads
  };
  Kind kindOf(Operation *op) const;
  void take(Operation *op);
  void look(Operation *op);
  Value widened(OpBuilder &builder, Value value);
  void widen(Operation *op);

  SmallVector<int64_t> heads, rows;
  llvm::SetVector<Operation *> found; ///< seeds and ops inside
  SmallVector<Operation *> open;
  bool refused = false;
  IRMapping wide; ///< from values of heads to values of rows
};

Widening::Kind Widening::kindOf(Operation *op) const {
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    if (hasShape(reshape.getResult(), heads) && cutsGatheredRows(reshape))
      return Kind::Seed;
    ArrayRef<int64_t> from = tensorType(reshape.getX()).getShape(),
                      to = tensorType(reshape).getShape();
    // Others that keep the columns may be part of kernels.
    return !from.empty() && !to.empty() && from.back() == to.back() ? Kind::Refusing
                                                                    : Kind::Outside;
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return tensorType(broadcast.getX()).getRank() == 0 ? Kind::Inside : Kind::Refusing;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getDims().size() == heads.size() ? Kind::Inside : Kind::Refusing;
  if (op->hasTrait<ElementwiseOp>() || isa<ConstantOp>(op))
    return Kind::Inside;
  return isa<RotateOp, GatherOp, PermuteOp, IotaOp>(op) ? Kind::Refusing : Kind::Outside;
}

void Widening::take(Operation *op) {
  const Kind kind = kindOf(op);
  refused |= kind == Kind::Refusing;
  if ((kind == Kind::Seed || kind == Kind::Inside) && found.insert(op))
    open.push_back(op);
}

/// Takes what is next to `op` through values of heads.
void Widening::look(Operation *op) {
  SmallVector<Value> around(op->getOperands());
  llvm::append_range(around, op->getResults());
  for (Value value : around) {
    if (!hasShape(value, heads))
      continue;
    Operation *producer = value.getDefiningOp();
    if (producer)
      take(producer);
    if (!producer || !isNumber(producer))
      for (Operation *user : value.getUsers())
        take(user);
  }
}

/// What `value` is as rows: a view of it, if nothing inside makes it.
Value Widening::widened(OpBuilder &builder, Value value) {
  if (!hasShape(value, heads))
    return value;
  if (Value known = wide.lookupOrNull(value))
    return known;
  // One view for all that read it: kernels that read the same tensor join.
  Value view =
      ReshapeOp::create(builder, value.getLoc(), tensorType(value).clone(rows), value).getResult();
  wide.map(value, view);
  return view;
}

void Widening::widen(Operation *op) {
  if (isa<ReshapeOp>(op)) {
    wide.map(op->getResult(0), op->getOperand(0));
    return;
  }
  OpBuilder builder(op);
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, widened(builder, operand));
  Operation *copy = builder.clone(*op, operands);
  Value result = op->getResult(0), made = copy->getResult(0);
  if (auto reduce = dyn_cast<ReduceOp>(copy)) {
    reduce.setDims(ArrayRef<int64_t>{0, 1});
    result.replaceAllUsesWith(made);
  } else {
    made.setType(tensorType(result).clone(rows));
    wide.map(result, made);
  }
}

void Widening::run() {
  SmallVector<Operation *> ops(found.begin(), found.end());
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : ops)
    widen(op);
  for (Operation *op : llvm::reverse(ops)) {
    Value value = op->getResult(0), made = wide.lookupOrNull(value);
    if (isNumber(op)) {
      if (value.use_empty())
        op->erase();
      continue;
    }
    for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
      auto reshape = dyn_cast<ReshapeOp>(user);
      if (made && reshape && reshape.getType() == made.getType()) {
        reshape.getResult().replaceAllUsesWith(made);
        reshape->erase();
      }
    }
    if (!value.use_empty()) {
      OpBuilder builder(op);
      builder.setInsertionPointAfter(op);
      value.replaceAllUsesWith(
          ReshapeOp::create(builder, op->getLoc(), value.getType(), made).getResult());
    }
    op->erase();
  }
}

} // namespace

void widenGatheredRows(ProgramOp function) {
  SmallVector<ReshapeOp> seeds;
  function.walk([&](ReshapeOp reshape) {
    if (cutsGatheredRows(reshape))
      seeds.push_back(reshape);
  });
  llvm::DenseSet<Operation *> done;
  for (ReshapeOp seed : seeds) {
    if (done.contains(seed))
      continue;
    Widening widening(seed);
    done.insert_range(widening.ops());
    if (widening.isPossible())
      widening.run();
  }
}

} // namespace nano
