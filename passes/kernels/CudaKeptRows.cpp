// Chooses between the values that passes over a long row keep and the operands that these come
// from.
#include "passes/kernels/CudaKeptRows.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

bool isMoved(Value value) { return llvm::any_of(value.getUsers(), llvm::IsaPred<graph::RotateOp>); }

int64_t keptRowBytes(Value value, const RowForm &form) {
  return form.columns * step::elementBytes(getElementTypeOrSelf(value.getType()));
}

static bool isLong(const CudaRowLayout &layout) {
  return !layout.resident && layout.group == layout.threads;
}

int64_t keptLongRowBytes(const RowPlan &plan, const RowForm &form, const CudaRowLayout &layout) {
  int64_t bytes = 0;
  for (const RowPass &pass : plan.passes)
    for (Value value : pass.kept) {
      if (isMoved(value))
        return 0;
      bytes += keptRowBytes(value, form);
    }
  return isLong(layout) && bytes <= maxKeptBytes ? bytes : 0;
}

void keepOperandsOfLongRow(RowPlan &plan, const RowForm &form, const CudaRowLayout &layout) {
  int64_t bytes = keptLongRowBytes(plan, form, layout);
  if (!isLong(layout) || (bytes && bytes <= halfKeptBytes))
    return;
  llvm::SetVector<Value> operands;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> pending;
  for (const RowPass &pass : plan.passes) {
    if (llvm::any_of(pass.kept, isMoved))
      return;
    llvm::append_range(pending, pass.kept);
  }
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (elementsOf(value) != form.elements() || !seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op)
      operands.insert(value);
    else if (isa<graph::RotateOp, graph::GatherOp, graph::PermuteOp>(op))
      return;
    else
      llvm::append_range(pending, op->getOperands());
  }
  int64_t instead = 0;
  for (Value operand : operands)
    instead += keptRowBytes(operand, form);
  if (instead == 0 || instead > halfKeptBytes)
    return;
  for (RowPass &pass : plan.passes)
    pass.kept.clear();
  plan.passes.front().kept.append(operands.begin(), operands.end());
}

} // namespace nano::kernels
