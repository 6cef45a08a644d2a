// Stretches of a block, and the tensors that live across them.
#include "passes/fuse/Holdings.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Traffic.h"
#include "ir/graph/Values.h"

#include <map>

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// The operand whose elements the op's result shows, or is made from anew in every kernel.
Value sourceOf(Operation *op) {
  if (isa<ReshapeOp, SliceOp, BroadcastOp>(op))
    return op->getOperand(0);
  if (auto cast = dyn_cast<CastOp>(op);
      cast && tensorType(cast.getX()).getElementTypeBitWidth() <
                  tensorType(cast.getResult()).getElementTypeBitWidth())
    return cast.getX();
  return {};
}

} // namespace

Holdings::Holdings(Block &block) {
  int64_t stretch = 0;
  isKernel.push_back(true);
  for (Operation &op : block) {
    if (isCall(&op)) {
      isKernel.push_back(false);
      isKernel.push_back(true);
      stretchOf[&op] = ++stretch;
      ++stretch;
    } else {
      stretchOf[&op] = stretch;
    }
  }
  // From the last op to the first: until when each tensor is read, and whether it needs a buffer.
  struct Use {
    int64_t last = -1;
    bool needsBuffer = false, isPlaced = false;
  };
  llvm::DenseMap<Value, Use> uses;
  for (Operation &op : llvm::reverse(block)) {
    int64_t at = stretchOf[&op];
    Value source = op.getNumResults() == 1 ? sourceOf(&op) : Value();
    for (Value operand : op.getOperands()) {
      Use &use = uses[operand];
      use.last = std::max(use.last, at);
      use.needsBuffer |= isCall(&op) || isa<ConcatOp>(op);
      use.isPlaced |= isa<StoreOp, AccumulateOp, ReturnOp>(op);
      if (operand == source) {
        Use shown = uses.lookup(op.getResult(0));
        use.last = std::max(use.last, shown.last);
        use.needsBuffer |= shown.needsBuffer;
        use.isPlaced |= shown.isPlaced && isa<ReshapeOp>(op);
      } else if (isa<ConcatOp>(op)) {
        // Parts are made where the whole lies.
        Use whole = uses.lookup(op.getResult(0));
        use.last = std::max(use.last, whole.last);
        use.isPlaced |= whole.isPlaced;
      }
    }
    if (source || isa<ConstantOp, IotaOp, LoadOp, ConcatOp>(op))
      continue;
    for (Value result : op.getResults()) {
      Use use = uses.lookup(result);
      if (use.last >= 0 && !use.isPlaced && (use.needsBuffer || isCall(&op) || use.last > at))
        holdings.push_back({result, at, use.last, bytesOf(result)});
    }
  }
}

Holdings::Span Holdings::spanOf(ArrayRef<Operation *> ops) const {
  Span span{std::numeric_limits<int64_t>::max(), -1};
  for (Operation *op : ops) {
    span.first = std::min(span.first, stretchOf.lookup(op));
    span.second = std::max(span.second, stretchOf.lookup(op));
  }
  return span;
}

/// A fused kernel may write over what it reads last, where the sizes are equal.
int64_t Holdings::most(Span span, Filter counts) const {
  std::vector<int64_t> changes(isKernel.size() + 1), overwritten(isKernel.size());
  std::map<std::pair<int64_t, int64_t>, int64_t> dying; // by stretch and bytes
  for (const Holding &held : holdings)
    if (counts(held.value)) {
      changes[held.begin] += held.bytes;
      changes[held.end + 1] -= held.bytes;
      if (held.begin < held.end && isKernel[held.end])
        ++dying[{held.end, held.bytes}];
    }
  for (const Holding &held : holdings)
    if (auto found = dying.find({held.begin, held.bytes});
        found != dying.end() && found->second > 0 && counts(held.value)) {
      --found->second;
      overwritten[held.begin] += held.bytes;
    }
  int64_t now = 0, most = 0;
  for (int64_t i = 0; i <= span.second; ++i) {
    now += changes[i];
    if (i >= span.first)
      most = std::max(most, now - overwritten[i]);
  }
  return most;
}

} // namespace nano
