// A kernel's result lies where a part of a larger tensor was that the kernel reads: queries and
// keys that are turned lie where the product made them, beside the values.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/Values.h"
#include "passes/memory/Placement.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::memory {

/// True when attention, or its gradient, reads the tensor, and beside them kernels alone, which
/// walk over rows that lie anywhere.
static bool isReadByAttention(Value tensor) {
  bool isRead = false;
  for (OpOperand &use : tensor.getUses()) {
    auto fused = dyn_cast<FusedOp>(use.getOwner());
    const bool isAttention = isa<AttentionOp, AttentionGradOp>(use.getOwner());
    if (!isAttention && (!fused || isFactorOfProduct(fused, use.getOperandNumber())))
      return false;
    isRead |= isAttention;
  }
  return isRead;
}

bool Placement::isFreeAt(OpResult value, const Place &place) const {
  Operation *op = value.getOwner();
  const int64_t at = position.lookup(op);
  const SmallVector<int64_t> shape(tensorType(value).getShape());
  const Written written{value, place, shape, at};
  return llvm::all_of(made.at(place.root), [&](Value other) {
    Operation *maker = other.getDefiningOp();
    const bool isEarlier = maker != op && position.lookup(maker) < at;
    return (isEarlier || areApart(of(other), tensorType(other).getShape(), place, shape)) &&
           isOverwrittenLate(other, of(other), ConcatOp(), written);
  });
}

Place Placement::partOfOperand(OpResult value) {
  auto fused = dyn_cast<FusedOp>(value.getOwner());
  if (!fused || nano::productOf(fused.getBody().front()) || !isReadByAttention(value))
    return {};
  const int64_t at = position.lookup(fused), last = lastRead.lookup(value);
  for (Value operand : llvm::SmallSetVector<Value, 8>(llvm::from_range, fused.getInputs())) {
    const Place place = of(operand);
    if (!place || operand.getType() != value.getType())
      continue;
    const Root &root = allRoots[place.root];
    const int64_t elements = root.type.getNumElements(),
                  ofValue = tensorType(value).getNumElements();
    if (root.symbol || elements <= ofValue)
      continue;
    // What is spared for so many ops, and what else is held for so many more.
    int64_t held = at;
    for (Value other : made.at(place.root))
      held = std::max(held, lastRead.lookup(other));
    const double spared = double(ofValue) * double(std::min(held, last) - at),
                 added = double(elements) * double(std::max(last - held, int64_t(0)));
    if (spared > added && isFreeAt(value, place))
      return place;
  }
  return {};
}

} // namespace nano::memory
