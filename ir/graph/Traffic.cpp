// How many bytes cross memory in a graph program, before and after fusion, and the floor.
#include "ir/graph/Traffic.h"

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"

using namespace mlir;
using namespace nano;
using namespace nano::graph;

/// True when the op needs only one column of what it reads there.
static bool isUseOfOneColumn(OpOperand &use, const llvm::DenseSet<Operation *> &ofOneColumn) {
  if (ofOneColumn.contains(use.getOwner()))
    return true;
  auto select = dyn_cast<SelectOp>(use.getOwner());
  return select && select.getOnTrue() == use.get() && select.getOnFalse() != use.get() &&
         tensorType(select).getRank() > 0 &&
         columnChoice(select, tensorType(select).getShape().back());
}

llvm::DenseSet<Operation *> nano::opsOfOneColumn(Block &body) {
  llvm::DenseSet<Operation *> found;
  for (Operation &op : llvm::reverse(body)) {
    auto reduce = dyn_cast<ReduceOp>(op);
    const bool isOfOne = reduce
                             ? bool(pickedBy(reduce))
                             : !op.use_empty() && llvm::all_of(op.getUses(), [&](OpOperand &use) {
                                 return isUseOfOneColumn(use, found);
                               });
    if (isOfOne)
      found.insert(&op);
  }
  return found;
}

bool nano::readsOneColumn(FusedOp fused, unsigned operand) {
  Block &body = fused.getBody().front();
  const Value argument = body.getArgument(operand);
  if (argument.use_empty() || tensorType(argument).getRank() < 2)
    return false;
  const llvm::DenseSet<Operation *> ofOneColumn = opsOfOneColumn(body);
  return llvm::all_of(argument.getUses(),
                      [&](OpOperand &use) { return isUseOfOneColumn(use, ofOneColumn); });
}

bool nano::isCall(Operation *op) {
  return op->hasTrait<WholeKernelOp>() ||
         isa<MatmulOp, ScaledMatmulOp, AllReduceOp, ReduceScatterOp, AllGatherOp, ShardOp>(op);
}

namespace {

bool isView(Operation *op) { return isa<ReshapeOp, SliceOp, ConcatOp, TransposeOp>(op); }
bool isFree(Operation *op) {
  return isView(op) || isa<ConstantOp, IotaOp, LoadOp, StoreOp, ReturnOp>(op);
}

/// Ops whose operands and results cross memory however kernels are formed.
bool crossesMemory(Operation *op) {
  return isCall(op) || isa<LoadOp, StoreOp, AccumulateOp, ReturnOp>(op);
}

/// The tensor that a chain of views shows.
Value withoutViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, SliceOp, TransposeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

int64_t bytesRead(Operation *op) {
  auto gatherOf = [](GatherOp gather) {
    return bytesOf(gather.getResult()) + bytesOf(gather.getIds());
  };
  if (auto gather = dyn_cast<GatherOp>(op))
    return gatherOf(gather);
  int64_t bytes = 0;
  auto fused = dyn_cast<FusedOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (fused) {
      // A table that is only gathered from counts by the rows taken.
      Value argument = fused.getBody().getArgument(operand.getOperandNumber());
      if (!argument.use_empty() && llvm::all_of(argument.getUses(), [](OpOperand &use) {
            auto gather = dyn_cast<GatherOp>(use.getOwner());
            return gather && use.getOperandNumber() == 0;
          })) {
        bytes += bytesOf(cast<GatherOp>(*argument.user_begin()).getResult());
        continue;
      }
      // So does a matrix of which a row's one element is needed.
      if (readsOneColumn(fused, operand.getOperandNumber())) {
        bytes += bytesOf(operand.get()) / tensorType(operand.get()).getShape().back();
        continue;
      }
    }
    if (!operand.get().getDefiningOp<ConstantOp>())
      bytes += bytesOf(operand.get());
  }
  return bytes;
}

} // namespace

nano::Traffic nano::measureTraffic(ProgramOp function) {
  Traffic traffic;
  for (Operation &op : function.getBody().front()) {
    if (isFree(&op))
      continue;
    ++traffic.kernels;
    traffic.bytes += bytesRead(&op);
    for (Value result : op.getResults())
      traffic.bytes += bytesOf(result);
  }
  return traffic;
}

int64_t nano::trafficFloor(ProgramOp function) {
  llvm::DenseSet<Value> written, read;
  int64_t bytes = 0;
  auto visit = [&](llvm::DenseSet<Value> &seen, Value value) {
    value = withoutViews(value);
    if (auto concat = value.getDefiningOp<ConcatOp>()) {
      for (Value part : concat.getInputs())
        if (seen.insert(withoutViews(part)).second)
          bytes += bytesOf(part);
    } else if (!value.getDefiningOp<ConstantOp>() && seen.insert(value).second) {
      bytes += bytesOf(value);
    }
  };
  for (Operation &op : function.getBody().front()) {
    // Of a kernel that begins with products, their factors.
    SmallVector<Product, 2> products;
    if (auto fused = dyn_cast<FusedOp>(op))
      products = productsOf(fused.getBody().front());
    for (const Product &product : products)
      for (Value factor : {product.a, product.b}) {
        Value operand = op.getOperand(cast<BlockArgument>(factor).getArgNumber());
        visit(read, operand);
        if (!isa<BlockArgument>(withoutViews(operand)) &&
            !withoutViews(operand).getDefiningOp<LoadOp>())
          visit(written, operand);
      }
    if (!crossesMemory(&op))
      continue;
    for (Value operand : op.getOperands()) {
      if (!isa<StoreOp, AccumulateOp, ReturnOp>(op))
        visit(read, operand);
      if (!isa<BlockArgument>(withoutViews(operand)) &&
          !withoutViews(operand).getDefiningOp<LoadOp>())
        visit(written, operand);
    }
    if (isa<LoadOp>(op)) {
      // A table that is only gathered from counts by the rows taken.
      auto onlyGathered = [](OpOperand &use) {
        return isa<GatherOp>(use.getOwner()) && use.getOperandNumber() == 0;
      };
      if (llvm::all_of(op.getResult(0).getUses(), onlyGathered)) {
        for (Operation *user : op.getResult(0).getUsers())
          bytes += bytesOf(user->getResult(0));
        read.insert(op.getResult(0));
      }
      visit(read, op.getResult(0));
      continue;
    }
    for (Value result : op.getResults())
      visit(written, result);
  }
  return bytes;
}

void nano::countTrafficAgain(ProgramOp function) {
  const DictionaryAttr counted = function.getTrafficAttr();
  if (!counted)
    return;
  Builder b(function.getContext());
  const Traffic now = measureTraffic(function);
  NamedAttrList entries(counted);
  entries.set("kernels", b.getI64IntegerAttr(now.kernels));
  entries.set("bytes", b.getI64IntegerAttr(now.bytes));
  entries.set("bytes_floor", b.getI64IntegerAttr(trafficFloor(function)));
  function.setTrafficAttr(entries.getDictionary(function.getContext()));
}
