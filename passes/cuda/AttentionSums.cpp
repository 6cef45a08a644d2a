// separateSums: where attention's gradients do not come with the sums of their columns.
#include "ir/graph/GradientSums.h"
#include "ir/kernel/shapes/nano_attention_shape.h"
#include "passes/cuda/CudaTemplateKernels.h"
#include "passes/cuda/TemplateFunctions.h"
#include "passes/emit/TaskOperands.h"

using namespace mlir;

namespace nano::kernels {

/// True where the template sums the columns of what it computes: on tensor cores, and of rows that
/// begin at multiples of 16 bytes.
static bool sumsColumns(step::TaskOp task, graph::AttentionGradOp gradients) {
  auto sizeOf = [](Value heads) {
    return int(cast<RankedTensorType>(heads.getType()).getDimSize(2));
  };
  return getElementTypeOrSelf(gradients.getDq().getType()).isBF16() &&
         attentionFitsTensorCores(sizeOf(gradients.getQ())) &&
         attentionFitsTensorCores(sizeOf(gradients.getV())) &&
         llvm::all_of(task->getOperands(), [](Value operand) {
           return cast<MemRefType>(operand.getType()).getRank() != 3 || hasVectorRows(operand);
         });
}

SmallVector<step::TaskOp> separateSums(step::TaskOp task) {
  graph::AttentionGradOp gradients = nano::gradientsWithSums(task.getBody().front());
  if (!gradients || sumsColumns(task, gradients))
    return {task};
  OpBuilder b(task);
  const Location loc = task.getLoc();
  auto alone = step::TaskOp::create(b, loc, task.getIns(), task.getOuts(), task.getStream());
  alone.getBody().takeBody(task.getBody());
  task.erase();
  b.setInsertionPointAfter(alone);
  SmallVector<step::TaskOp> tasks{alone};
  Block &body = alone.getBody().front();
  Operation *yield = body.getTerminator();
  for (unsigned i = yield->getNumOperands(); i-- > 0;) {
    const Value gradient = nano::summedGradient(yield->getOperand(i));
    if (!gradient)
      continue;
    const Value from = memrefsOf(alone, gradient).front(), to = alone.getOuts()[i];
    auto sums = step::TaskOp::create(b, loc, from, to, alone.getStream());
    tasks.push_back(sums);
    OpBuilder::InsertionGuard guard(b);
    Block *summing = b.createBlock(&sums.getBody(), {}, gradient.getType(), loc);
    graph::YieldOp::create(b, loc, nano::sumsOfGradient(b, loc, summing->getArgument(0)));
    yield->eraseOperand(i);
    alone.getOutsMutable().erase(i);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (&op != yield && op.use_empty())
      op.erase();
  return tasks;
}

} // namespace nano::kernels
