// Operands and results of a task's op as kernel arguments.
#include "passes/emit/TaskOperands.h"

#include "ir/step/VectorRows.h"

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

bool hasVectorRows(Value memref) { return step::hasVectorRows(cast<MemRefType>(memref.getType())); }
bool hasVectorColumns(Value memref) {
  return step::hasVectorColumns(cast<MemRefType>(memref.getType()));
}

int64_t commonVector(ArrayRef<Value> memrefs, int64_t dim) {
  int64_t bytes = 16;
  for (Value memref : memrefs) {
    auto type = cast<MemRefType>(memref.getType());
    const int64_t elementBytes = step::elementBytes(type.getElementType());
    const SmallVector<int64_t> strides = stridesOf(type);
    if (strides[dim] != 1)
      bytes = elementBytes;
    bytes = std::min(bytes, alignmentOf(memref));
    for (int64_t other = 0; other < type.getRank(); ++other)
      if (int64_t distance = other == dim ? type.getDimSize(dim) : strides[other];
          other == dim || type.getDimSize(other) > 1)
        while (bytes > elementBytes && distance * elementBytes % bytes != 0)
          bytes /= 2;
  }
  const int64_t elementBytes =
      step::elementBytes(cast<MemRefType>(memrefs[0].getType()).getElementType());
  return std::max<int64_t>(1, bytes / elementBytes);
}

} // namespace nano::kernels
