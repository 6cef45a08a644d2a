// Finds what is wide before an op that mixes rows and read behind it, and makes it again there.
#include "passes/fuse/RowHalves.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace nano {

std::optional<RowHalves> RowHalves::cut(const RowChain &chain) {
  const int64_t wide = tensorType(chain.root->getResult(0)).getNumElements();
  auto isWide = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getNumElements() >= wide;
  };
  if (llvm::any_of(chain.obstacle->getOperands(), isWide) ||
      llvm::any_of(chain.obstacle->getResults(), isWide))
    return std::nullopt;

  // What depends on the obstacle, and what on the root.
  llvm::DenseSet<Operation *> behind{chain.obstacle}, made{chain.root};
  for (Operation *op = chain.root->getNextNode(); op; op = op->getNextNode())
    for (llvm::DenseSet<Operation *> *set : {&behind, &made})
      if (llvm::any_of(op->getOperands(),
                       [&](Value operand) { return set->contains(operand.getDefiningOp()); }))
        set->insert(op);
  // Of what is wide and does not wait: what nothing but the second half reads is of that, what both
  // read is made in both. Users come first.
  llvm::SetVector<Operation *> both;
  auto isBehind = [&](Operation *user) { return behind.contains(user); };
  auto isAlone = [&](Operation *user) { return isBehind(user) && !both.contains(user); };
  for (Operation &op : llvm::reverse(chain.root->getBlock()->without_terminator())) {
    if (isBehind(&op) || llvm::none_of(op.getResults(), isWide) ||
        llvm::none_of(op.getUsers(), isBehind) ||
        !(made.contains(&op) || op.hasTrait<ElementwiseOp>() || isa<BroadcastOp>(op)))
      continue;
    if (!llvm::all_of(op.getUsers(), isAlone))
      both.insert(&op);
    behind.insert(&op);
  }
  if (!both.contains(chain.root) || !llvm::all_of(both, RowChain::mayKeepRows))
    return std::nullopt;

  RowHalves halves;
  halves.between = chain.obstacle;
  IRMapping mapping;
  for (Operation *op : llvm::reverse(both)) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Operation *copy = builder.clone(*op, mapping);
    // What is narrow need not be made again: it is there whole.
    for (auto [result, again] : llvm::zip(op->getResults(), copy->getResults()))
      if (isWide(result))
        result.replaceUsesWithIf(again, [&](OpOperand &use) { return isAlone(use.getOwner()); });
    halves.copies.emplace_back(op, copy);
  }
  // The root's first.
  llvm::stable_sort(halves.copies, [&](const auto &a, const auto &b) {
    return a.first == chain.root && b.first != chain.root;
  });
  return halves;
}

Operation *RowHalves::nextProduct(const RowChain &second) const {
  llvm::DenseSet<Operation *> behind{between};
  for (Operation *op = between->getNextNode(); op; op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(),
                      [&](Value operand) { return behind.contains(operand.getDefiningOp()); }))
      continue;
    behind.insert(op);
    if (isa<MatmulOp, ScaledMatmulOp>(op) && !second.contains(op) &&
        second.ops.back().first->isBeforeInBlock(op))
      return op;
  }
  return nullptr;
}

void RowHalves::join() {
  for (auto [op, copy] : copies)
    copy->replaceAllUsesWith(op);
  for (auto [op, copy] : copies)
    copy->erase();
}

} // namespace nano
