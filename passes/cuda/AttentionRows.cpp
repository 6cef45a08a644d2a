// rowOfQueries: how many tokens the rows of a batch have, as the ranges of attention's queries say.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/AttentionOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "passes/cuda/CudaTemplateKernels.h"

using namespace mlir;

namespace nano::kernels {

int64_t rowOfQueries(step::TaskOp task) {
  auto grad = dyn_cast<graph::AttentionGradOp>(task.getBody().front().front());
  auto argument = grad ? dyn_cast<BlockArgument>(grad.getFirst()) : BlockArgument();
  if (!argument)
    return 0;
  const Value first = task.getIns()[argument.getArgNumber()];
  for (Operation *user : first.getUsers()) {
    auto writer = dyn_cast<step::TaskOp>(user);
    if (!writer || writer->getBlock() != task->getBlock() || !writer->isBeforeInBlock(task) ||
        !llvm::is_contained(writer.getOuts(), first))
      continue;
    const size_t place = llvm::find(writer.getOuts(), first) - writer.getOuts().begin();
    auto begin =
        writer.getBody().front().getTerminator()->getOperand(place).getDefiningOp<graph::MulOp>();
    auto number = begin ? begin->getOperand(0).getDefiningOp<graph::DivOp>() : graph::DivOp();
    if (!number || !number->getOperand(0).getDefiningOp<graph::IotaOp>())
      return 0;
    auto row = begin->getOperand(1).getDefiningOp<graph::ConstantOp>(),
         divisor = number->getOperand(1).getDefiningOp<graph::ConstantOp>();
    const int64_t tokens = cast<ShapedType>(first.getType()).getDimSize(0);
    return row && divisor && row.getValue() == divisor.getValue()
               ? std::min(int64_t(row.getValue().convertToDouble()), tokens)
               : 0;
  }
  return 0;
}

} // namespace nano::kernels
