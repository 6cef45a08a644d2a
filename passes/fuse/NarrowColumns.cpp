// Element-wise ops behind reshapes to columns of one element, in the order of the program.
#include "passes/fuse/NarrowColumns.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// `type` without its last dimension, if that is 1 and another is before it.
RankedTensorType narrowed(Type type) {
  auto wide = dyn_cast<RankedTensorType>(type);
  if (!wide || wide.getRank() < 2 || wide.getShape().back() != 1)
    return nullptr;
  return wide.clone(wide.getShape().drop_back());
}

/// What a column of one element is a view of; null if it is none.
Value numbersOf(Value column) {
  auto reshape = column.getDefiningOp<ReshapeOp>();
  return reshape && reshape.getX().getType() == narrowed(column.getType()) ? reshape.getX()
                                                                           : Value();
}

/// True for what is the same number in every row.
bool isNumber(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    return tensorType(broadcast.getX()).getRank() == 0;
  return value.getDefiningOp<ConstantOp>();
}

bool canNarrow(Operation *op) {
  return op->hasTrait<ElementwiseOp>() && op->getNumResults() == 1 &&
         narrowed(op->getResult(0).getType()) &&
         llvm::any_of(op->getOperands(), [](Value operand) { return bool(numbersOf(operand)); }) &&
         llvm::all_of(op->getOperands(),
                      [](Value operand) { return numbersOf(operand) || isNumber(operand); });
}

void narrow(Operation *op) {
  OpBuilder builder(op);
  IRMapping operands;
  for (Value operand : op->getOperands()) {
    if (Value numbers = numbersOf(operand)) {
      operands.map(operand, numbers);
    } else if (!operands.contains(operand)) {
      Operation *copy = builder.clone(*operand.getDefiningOp());
      copy->getResult(0).setType(narrowed(operand.getType()));
      operands.map(operand, copy->getResult(0));
    }
  }
  Operation *copy = builder.clone(*op, operands);
  Value column = op->getResult(0), made = copy->getResult(0);
  made.setType(narrowed(column.getType()));
  column.replaceAllUsesWith(
      ReshapeOp::create(builder, op->getLoc(), column.getType(), made).getResult());
  op->erase();
}

/// Of columns side by side that are columns of one element: their rows' numbers; else nothing.
SmallVector<Value> numbersOfAll(ConcatOp concat) {
  SmallVector<Value> all;
  if (int64_t(concat.getDim()) + 1 != tensorType(concat).getRank())
    return all;
  for (Value column : concat.getInputs()) {
    all.push_back(numbersOf(column));
    if (!all.back())
      return {};
  }
  return all;
}

/// The numbers that a row's column is of, where the rows are columns side by side or repeat one
/// number: what the derivatives of sums and the parts of chosen columns come to. Else null.
Value numbersOfPart(SliceOp slice) {
  const RankedTensorType wanted = narrowed(slice.getType());
  if (!wanted || int64_t(slice.getDim()) + 1 != tensorType(slice).getRank())
    return nullptr;
  Operation *source = slice.getX().getDefiningOp();
  if (auto concat = dyn_cast_if_present<ConcatOp>(source)) {
    const SmallVector<Value> all = numbersOfAll(concat);
    return all.empty() ? Value() : all[slice.getStart()];
  }
  auto broadcast = dyn_cast_if_present<BroadcastOp>(source);
  return broadcast && broadcast.getX().getType() == wanted &&
                 llvm::equal(broadcast.getDims(), llvm::seq<int64_t>(0, wanted.getRank()))
             ? broadcast.getX()
             : Value();
}

/// Most columns side by side that are added up as numbers: a kernel reads or makes each.
constexpr size_t mostColumns = 8;

/// The sum along rows that are columns side by side, in f32 and rounded once, as the reduction's.
Value sumOfColumns(ReduceOp reduce) {
  auto concat = reduce.getX().getDefiningOp<ConcatOp>();
  const RankedTensorType type = tensorType(reduce);
  if (!concat || reduce.getCombiner() != Combiner::sum || reduce.getDims().size() != 1 ||
      reduce.getDims().front() != type.getRank() || !isa<FloatType>(type.getElementType()))
    return nullptr;
  const SmallVector<Value> all = numbersOfAll(concat);
  if (all.empty() || all.size() > mostColumns)
    return nullptr;
  OpBuilder builder(reduce);
  GraphBuilder g(builder, reduce.getLoc());
  Value sum = g.toF32(all.front());
  for (Value numbers : ArrayRef(all).drop_front())
    sum = g.add(sum, g.toF32(numbers));
  return g.cast(sum, type.getElementType());
}

} // namespace

void narrowColumns(ProgramOp function) {
  for (Block &block : function.getBody())
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (canNarrow(&op)) {
        narrow(&op);
        continue;
      }
      Value numbers;
      if (auto reshape = dyn_cast<ReshapeOp>(op))
        numbers = numbersOf(reshape.getX());
      else if (auto slice = dyn_cast<SliceOp>(op))
        numbers = numbersOfPart(slice);
      else if (auto reduce = dyn_cast<ReduceOp>(op))
        numbers = sumOfColumns(reduce);
      if (!numbers)
        continue;
      const Type type = op.getResult(0).getType();
      if (isa<SliceOp>(op)) {
        OpBuilder builder(&op);
        numbers = ReshapeOp::create(builder, op.getLoc(), type, numbers);
      }
      if (numbers.getType() != type)
        continue;
      op.getResult(0).replaceAllUsesWith(numbers);
      op.erase();
    }
}

} // namespace nano
