// Chooses between the values that passes over a row keep and the operands that these come from.
#include "passes/cuda/CudaKeptRows.h"

#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

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

/// The operands of the row's size that the roots are computed from without what is in `known`, and
/// whether none is read at other columns than its own.
struct Operands {
  llvm::SetVector<Value> values;
  bool areInPlace = true;
};

static Operands operandsOf(ArrayRef<Value> roots, const RowForm &form,
                           const llvm::DenseSet<Value> &known) {
  Operands found;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> pending(roots);
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (elementsOf(value) != form.elements() || known.contains(value) || !seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op)
      found.values.insert(value);
    else if (isa<graph::RotateOp, graph::GatherOp, graph::PermuteOp>(op))
      found.areInPlace = false;
    else
      llvm::append_range(pending, op->getOperands());
  }
  return found;
}

/// Those that more than one pass reads.
static Operands operandsOfPasses(const RowPlan &plan, const RowForm &form, ValueRange yielded) {
  Operands found;
  llvm::DenseSet<Value> once;
  for (const RowPass &pass : plan.passes) {
    const Operands ofPass = operandsOf(pass.roots(yielded), form, {});
    found.areInPlace &= ofPass.areInPlace;
    for (Value operand : ofPass.values)
      if (!once.insert(operand).second)
        found.values.insert(operand);
  }
  return found;
}

void keepOperandsOfLongRow(RowPlan &plan, const RowForm &form, const CudaRowLayout &layout,
                           ValueRange yielded) {
  int64_t bytes = keptLongRowBytes(plan, form, layout);
  if (!isLong(layout) || (bytes && bytes <= halfKeptBytes))
    return;
  SmallVector<Value> kept;
  for (const RowPass &pass : plan.passes) {
    if (llvm::any_of(pass.kept, isMoved))
      return;
    llvm::append_range(kept, pass.kept);
  }
  const Operands operands =
      kept.empty() ? operandsOfPasses(plan, form, yielded) : operandsOf(kept, form, {});
  int64_t instead = 0;
  for (Value operand : operands.values)
    instead += keptRowBytes(operand, form);
  if (!operands.areInPlace || instead == 0 || instead > (bytes ? halfKeptBytes : maxKeptBytes))
    return;
  for (RowPass &pass : plan.passes)
    pass.kept.clear();
  plan.passes.front().kept.append(operands.values.begin(), operands.values.end());
}

void keepStored(RowPlan &plan, const RowForm &form, const CudaRowLayout &layout,
                ValueRange yielded) {
  if (!layout.resident)
    return;
  auto bytesOf = [&](const llvm::SetVector<Value> &values) {
    int64_t bytes = 0;
    for (Value value : values)
      bytes += keptRowBytes(value, form);
    return bytes;
  };
  llvm::DenseSet<Value> known;
  for (auto [i, pass] : llvm::enumerate(plan.passes)) {
    known.insert(pass.kept.begin(), pass.kept.end());
    SmallVector<Value> later;
    for (const RowPass &after : ArrayRef<RowPass>(plan.passes).drop_front(i + 1))
      llvm::append_range(later, after.roots(yielded));
    for (unsigned output : pass.outputs) {
      Value value = yielded[output];
      if (!value.getDefiningOp() || known.contains(value) || isMoved(value))
        continue;
      llvm::DenseSet<Value> with = known;
      with.insert(value);
      const int64_t now = bytesOf(operandsOf(later, form, known).values),
                    then = bytesOf(operandsOf(later, form, with).values);
      if (now - then < keptRowBytes(value, form))
        continue;
      pass.kept.push_back(value);
      known.insert(value);
    }
  }
}

} // namespace nano::kernels
