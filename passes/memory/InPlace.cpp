// When a kernel may write a result over one of its operands: phases of a fused kernel's rows.
#include "passes/memory/InPlace.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::memory {

/// Columns of a row that is kept while it is rotated, at most: it is in memory that threads share.
static constexpr int64_t mostRotated = 1024;

/// True for a reduction over the last dimensions, whose result is one value a row.
static bool reducesRows(ReduceOp reduce) {
  int64_t rank = tensorType(reduce.getX()).getRank();
  auto dims = reduce.getDims();
  return dims.front() == rank - int64_t(dims.size());
}

/// True for a reshape that keeps the last dimension, so that rows and columns are the same on both
/// sides.
static bool keepsColumns(ReshapeOp reshape) {
  RankedTensorType from = tensorType(reshape.getX()), to = tensorType(reshape);
  return from.getRank() > 0 && to.getRank() > 0 && from.getShape().back() == to.getShape().back();
}

InPlace::InPlace(Operation *op) : op(op) {
  auto fused = dyn_cast<FusedOp>(op);
  if (!fused)
    return;
  for (Operation &inner : fused.getBody().front()) {
    int phase = 0;
    for (Value operand : inner.getOperands())
      if (auto found = phases.find(operand); found != phases.end())
        phase = std::max(phase, found->second);
    if (auto reduce = dyn_cast<ReduceOp>(inner)) {
      if (!reducesRows(reduce))
        return; // a reduction over rows: its kernel walks otherwise
      ++phase;
    }
    if (phase > 0)
      for (Value result : inner.getResults())
        phases[result] = phase;
  }
  yield = fused.getBody().front().getTerminator();
}

/// True when all that is computed from a row's reduction stays with its row.
static bool staysInRow(Value reduced) {
  SmallVector<Value> pending = {reduced};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (isa<YieldOp>(user) || !seen.insert(user).second)
        continue;
      bool stays = user->hasTrait<ElementwiseOp>() || isa<RotateOp>(user);
      if (auto broadcast = dyn_cast<BroadcastOp>(user))
        stays = llvm::all_of(llvm::enumerate(broadcast.getDims()),
                             [](auto dim) { return int64_t(dim.index()) == dim.value(); });
      else if (auto reduce = dyn_cast<ReduceOp>(user))
        stays = reducesRows(reduce);
      else if (auto reshape = dyn_cast<ReshapeOp>(user))
        stays = keepsColumns(reshape);
      if (!stays)
        return false;
      pending.push_back(user->getResult(0));
    }
  }
  return true;
}

bool InPlace::mayOverwrite(unsigned operand, unsigned result, bool rotated) {
  if (op->hasTrait<ElementwiseOp>())
    return tensorType(op->getOperand(operand)).getShape() ==
           tensorType(op->getResult(result)).getShape();
  if (!yield)
    return false;
  int written = phases.lookup(yield->getOperand(result));
  Value argument = cast<FusedOp>(op).getBody().front().getArgument(operand);
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> pending = {argument};
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    for (Operation *user : value.getUsers()) {
      int phase = phases.lookup(value); // in which the operand is read for this use
      if (!isa<YieldOp>(user) && !seen.insert(user).second)
        continue;
      if (isa<YieldOp>(user)) {
        if (phase > written)
          return false;
      } else if (user->hasTrait<ElementwiseOp>() ||
                 (isa<ReshapeOp>(user) && keepsColumns(cast<ReshapeOp>(user)))) {
        pending.push_back(user->getResult(0));
      } else if (auto rotate = dyn_cast<RotateOp>(user);
                 rotate && rotated && rotate.getType().getShape().back() <= mostRotated) {
        pending.push_back(rotate);
      } else if (auto reduce = dyn_cast<ReduceOp>(user)) {
        // Read in the phase before the reduction's own.
        if (phase > written || !staysInRow(reduce))
          return false;
      } else {
        return false;
      }
    }
  }
  return true;
}

} // namespace nano::memory
