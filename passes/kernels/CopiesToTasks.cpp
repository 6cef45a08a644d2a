// nano-copies-to-tasks: small copies become tasks, so that they can be kernels whose launch many of
// them share.
#include "passes/Passes.h"

#include "ir/graph/ShapeOps.h"
#include "ir/step/Step.h"

namespace nano {
#define GEN_PASS_DEF_COPIESTOTASKS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;

namespace {

struct CopiesToTasks : nano::impl::CopiesToTasksBase<CopiesToTasks> {
  using Base::Base;

  void runOnOperation() override {
    if (maxBytes < 0) {
      emitError(getOperation().getLoc())
          << "nano-copies-to-tasks: max-bytes=" << static_cast<int64_t>(maxBytes)
          << ": must not be negative";
      return signalPassFailure();
    }
    SmallVector<step::CopyOp> copies;
    getOperation().walk([&](step::CopyOp copy) {
      if (isSmall(copy))
        copies.push_back(copy);
    });
    for (step::CopyOp copy : copies)
      makeTask(copy);
  }

private:
  /// Of at most so many bytes, and of elements that kernels copy as they are.
  bool isSmall(step::CopyOp copy) const {
    auto type = cast<MemRefType>(copy.getSource().getType());
    return type.getElementTypeBitWidth() >= 16 && step::contiguousBytes(type) <= maxBytes;
  }

  static void makeTask(step::CopyOp copy) {
    OpBuilder builder(copy);
    const Location loc = copy.getLoc();
    auto task = step::TaskOp::create(builder, loc, ValueRange(copy.getSource()),
                                     ValueRange(copy.getTarget()));
    auto tensor = [](Value buffer) { return step::tensorOf(cast<MemRefType>(buffer.getType())); };
    builder.createBlock(&task.getBody(), {}, {tensor(copy.getSource())}, {loc});
    Value copied = graph::ReshapeOp::create(builder, loc, tensor(copy.getTarget()),
                                            task.getBody().front().getArgument(0));
    graph::YieldOp::create(builder, loc, copied);
    copy.erase();
  }
};

} // namespace
