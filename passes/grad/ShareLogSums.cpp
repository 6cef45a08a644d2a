// nano-share-log-sums: a log-sum-exp of rows whose cross-entropy has it already is the
// cross-entropy's own.
//
//   %s = nano.reduce logsumexp %x dims [1]        %loss, %s = nano.cross_entropy %x, %t
//   %loss, %lse = nano.cross_entropy %x, %t   ⇒
//
// A z-loss asks for it, before its model's loss or behind it. Two ops would be two sums of
// exponentials of the largest tensor of a step, and two gradients with exponentials of their own.
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/TableOps.h"
#include "passes/Passes.h"

#include "mlir/IR/Dominance.h"

namespace nano {
#define GEN_PASS_DEF_SHARELOGSUMS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

/// The first cross-entropy of the same logits whose targets are known where `sum` stands, or null.
CrossEntropyOp lossBeside(ReduceOp sum, const DominanceInfo &order) {
  CrossEntropyOp first;
  for (Operation *user : sum.getX().getUsers())
    if (auto loss = dyn_cast<CrossEntropyOp>(user);
        loss && loss->getBlock() == sum->getBlock() &&
        order.properlyDominates(loss.getTargets(), sum) && (!first || loss->isBeforeInBlock(first)))
      first = loss;
  return first;
}

void share(ReduceOp sum, const DominanceInfo &order) {
  CrossEntropyOp loss = lossBeside(sum, order);
  if (!loss)
    return;
  if (sum->isBeforeInBlock(loss))
    loss->moveBefore(sum);
  sum.replaceAllUsesWith(loss.getLse());
  sum.erase();
}

struct ShareLogSums : public nano::impl::ShareLogSumsBase<ShareLogSums> {
  void runOnOperation() override {
    SmallVector<ReduceOp> sums;
    getOperation().walk([&](ReduceOp op) {
      if (op.getCombiner() == Combiner::logsumexp && op.getDims() == ArrayRef<int64_t>{1})
        sums.push_back(op);
    });
    const DominanceInfo order(getOperation());
    for (ReduceOp sum : sums)
      share(sum, order);
  }
};

} // namespace
