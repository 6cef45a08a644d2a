// rowsOfQueries: how many tokens the rows of a batch have, and which keys their queries see, as the
// ranges of attention's queries say.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/QueryRows.h"
#include "passes/cuda/CudaTemplateKernels.h"

using namespace mlir;

namespace nano::kernels {

/// What the last task before `task` that writes the operand which is its argument `argument`
/// computes as it, where that is known: of a buffer that tasks of the same block alone write. Null
/// else.
static Value computedBefore(step::TaskOp task, Value argument) {
  auto number = dyn_cast<BlockArgument>(argument);
  if (!number)
    return {};
  const Value operand = task.getIns()[number.getArgNumber()];
  if (!operand.getDefiningOp<step::BufferOp>())
    return {};
  step::TaskOp writer;
  for (Operation *user : operand.getUsers()) {
    auto other = dyn_cast<step::TaskOp>(user);
    if (!other)
      return {};
    if (!llvm::is_contained(other.getOuts(), operand))
      continue;
    if (other->getBlock() != task->getBlock())
      return {};
    if (other->isBeforeInBlock(task) && (!writer || writer->isBeforeInBlock(other)))
      writer = other;
  }
  if (!writer)
    return {};
  const size_t place = llvm::find(writer.getOuts(), operand) - writer.getOuts().begin();
  return writer.getBody().front().getTerminator()->getOperand(place);
}

RowsOfQueries rowsOfQueries(step::TaskOp task) {
  Operation &op = task.getBody().front().front();
  Value first, last;
  if (auto attention = dyn_cast<graph::AttentionOp>(op)) {
    first = computedBefore(task, attention.getFirst());
    last = computedBefore(task, attention.getLast());
  } else if (auto grad = dyn_cast<graph::AttentionGradOp>(op)) {
    first = computedBefore(task, grad.getFirst());
    last = computedBefore(task, grad.getLast());
  }
  return graph::rowsOfQueries(first, last);
}

} // namespace nano::kernels
