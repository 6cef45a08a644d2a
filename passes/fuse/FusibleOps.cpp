// What a fused kernel can hold.
#include "passes/fuse/FusibleOps.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::fuse {
namespace {

/// A number is computed anew in every kernel that reads it when this many ops or fewer make it.
constexpr int64_t maxScalarCost = 8;
/// Elements of a vector that is one row of a kernel at most: one block computes it.
constexpr int64_t mostOfVector = 8192;

int64_t lastSize(RankedTensorType type) { return type.getRank() == 0 ? 1 : type.getShape().back(); }

/// Keeps the last dimension, so that rows × columns is the same space on both sides.
bool keepsColumns(ReshapeOp op) {
  RankedTensorType from = tensorType(op.getX()), to = tensorType(op);
  return from.getRank() >= 2 && to.getRank() >= 2 && lastSize(from) == lastSize(to);
}

/// Ops on single numbers that `op` and what it is computed from amount to; counting stops beyond
/// `limit`.
int64_t scalarCost(Operation *op, int64_t limit) {
  int64_t cost = 1;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (cost <= limit && producer && producer->hasTrait<ElementwiseOp>() &&
        tensorType(operand).getRank() == 0)
      cost += scalarCost(producer, limit - cost);
  }
  return cost;
}

} // namespace

bool isVectorAsRow(Operation *op) {
  auto reshape = dyn_cast<ReshapeOp>(op);
  if (!reshape)
    return false;
  RankedTensorType from = tensorType(reshape.getX()), to = tensorType(reshape);
  return from.getRank() == 1 && to.getRank() == 2 && lastSize(from) == lastSize(to) &&
         lastSize(from) <= mostOfVector && llvm::all_of(op->getUsers(), llvm::IsaPred<ReduceOp>);
}

bool isFusible(Operation *op) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return keepsColumns(reshape) || isVectorAsRow(reshape);
  return op->hasTrait<ElementwiseOp>() ||
         isa<BroadcastOp, RotateOp, ReduceOp, GatherOp, PermuteOp>(op);
}

bool isCheap(Operation *op) {
  if (isa<ConstantOp, IotaOp, BroadcastOp, PhiloxOp>(op))
    return true;
  if (op->getNumResults() != 1 || isa<LoadOp>(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (op->hasTrait<ElementwiseOp>() && type.getRank() == 0)
    return scalarCost(op, maxScalarCost) <= maxScalarCost;
  if (auto cast = dyn_cast<CastOp>(op))
    return tensorType(cast.getX()).getElementTypeBitWidth() < type.getElementTypeBitWidth();
  return false;
}

bool isColumnReduce(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getDims().back() != tensorType(reduce.getX()).getRank() - 1;
}

std::array<int64_t, 3> columnSizes(ReduceOp reduce) {
  ArrayRef<int64_t> shape = tensorType(reduce.getX()).getShape();
  std::array<int64_t, 3> sizes = {1, 1, 1};
  bool isBehind = false;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    const bool isReduced = llvm::is_contained(reduce.getDims(), int64_t(dim));
    isBehind |= isReduced && size > 1;
    sizes[isReduced ? 1 : isBehind ? 2 : 0] *= size;
  }
  return sizes;
}

Space spaceOf(Operation *op) {
  RankedTensorType type =
      isa<ReduceOp>(op) ? tensorType(op->getOperand(0)) : tensorType(op->getResult(0));
  int64_t columns = lastSize(type);
  return {columns ? type.getNumElements() / columns : 0, columns};
}

bool readsInPlace(OpOperand &use) {
  auto broadcast = dyn_cast<BroadcastOp>(use.getOwner());
  if (!broadcast) {
    // A column reduction's result is complete only after the group's last row: no op of the same
    // group may read it.
    Operation *producer = use.get().getDefiningOp();
    return !isa<GatherOp, PermuteOp>(use.getOwner()) && !(producer && isColumnReduce(producer));
  }
  RankedTensorType from = tensorType(broadcast.getX()), to = tensorType(broadcast);
  if (from.getRank() == 0)
    return false;
  return from.getShape() == to.getShape().drop_back() &&
         llvm::equal(broadcast.getDims(), llvm::seq<int64_t>(0, from.getRank()));
}

} // namespace nano::fuse
