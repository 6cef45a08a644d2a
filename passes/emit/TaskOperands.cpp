// Operands and results of a task's op as kernel arguments.
#include "passes/emit/TaskOperands.h"

using namespace mlir;

namespace nano::kernels {

Value argumentOf(KernelFrame &frame, Value operand) {
  return frame.input(cast<BlockArgument>(operand).getArgNumber());
}

SmallVector<Value> argumentsOfResult(KernelFrame &frame, Value result) {
  SmallVector<Value> arguments;
  for (auto [i, yielded] :
       llvm::enumerate(frame.task.getBody().front().getTerminator()->getOperands()))
    if (yielded == result)
      arguments.push_back(frame.output(i));
  return arguments;
}

LogicalResult verifyNotInPlace(KernelFrame &frame) {
  for (Value out : frame.task.getOuts())
    for (Value in : frame.task.getIns())
      if (in == out ||
          (in.getType() == out.getType() && step::bufferKey(in) == step::bufferKey(out)))
        return frame.task.emitOpError("cannot write ")
               << step::nameOf(out) << " in place: other iterations read it";
  return success();
}

} // namespace nano::kernels
