// Labels of commands.
#include "ir/step/Labels.h"

#include "ir/step/Step.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nano::step {

/// "all_reduce x", "all_reduce x and 2 more"
static std::string overBuffers(Operation *command, ValueRange buffers) {
  std::string text = command->getName().stripDialect().str();
  if (buffers.empty())
    return text;
  text += " " + nameOf(buffers.back());
  if (buffers.size() > 1)
    text += " and " + std::to_string(buffers.size() - 1) + " more";
  return text;
}

std::string labelOf(Operation *command) {
  return llvm::TypeSwitch<Operation *, std::string>(command)
      .Case<LaunchOp>([](auto op) { return op.getKernel().str(); })
      .Case<MatmulOp>([](auto op) { return "matmul " + nameOf(op.getC()); })
      .Case<AllReduceOp>([](auto op) { return overBuffers(op, op.getBuffers()); })
      .Case<ReduceScatterOp, AllGatherOp, ShardOp>(
          [](auto op) { return overBuffers(op, op.getOuts()); })
      .Case<FillOp>([](auto op) { return "fill " + nameOf(op.getBuffer()); })
      .Case<CopyOp>([](auto op) { return "copy " + nameOf(op.getTarget()); })
      .Case<RecordOp>([](auto op) { return "record " + std::to_string(op.getEvent()); })
      .Case<WaitOp>([](auto op) { return "wait " + std::to_string(op.getEvent()); })
      .Default([](Operation *op) { return op->getName().stripDialect().str(); });
}

} // namespace nano::step
