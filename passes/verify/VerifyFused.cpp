// nano-verify-fused: what remains outside kernels is a library call, a collective, a view, or a
// read or write of state.
//
// It closes the fuse stage: bufferization makes a command of every op that is left in a function,
// so an element-wise op outside of `nano.fused` would be a kernel that moves bytes for nothing.
// Within `nano.fused` there is nothing that must be a kernel of its own, but for a product that it
// begins with, if all else is element-wise over that, or attention's gradients, if all else sums
// their columns.
#include "ir/graph/GradientSums.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Traffic.h"
#include "passes/Passes.h"

namespace nano {
#define GEN_PASS_DEF_VERIFYFUSED
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

struct VerifyFused : public nano::impl::VerifyFusedBase<VerifyFused> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<ProgramOp>())
      for (Operation &op : function.getOps())
        if (failed(check(op)))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  static bool isKernelOfItsOwn(Operation *op) {
    return nano::isCall(op) ||
           isa<LoadOp, StoreOp, AccumulateOp, TransposeOp, CrossEntropyOp, ConcatOp, FusedOp>(op);
  }

  LogicalResult check(Operation &op) {
    for (Value value : llvm::concat<Value>(SmallVector<Value>(op.getOperands()),
                                           SmallVector<Value>(op.getResults())))
      if (auto type = dyn_cast<RankedTensorType>(value.getType());
          type && type.getNumElements() == 0)
        return op.emitOpError("has no elements: nano-drop-empty takes such tensors away");
    if (auto fused = dyn_cast<FusedOp>(op)) {
      Block &body = fused.getBody().front();
      const SmallVector<nano::Product, 2> products = nano::productsOf(body);
      if (!products.empty())
        if (const std::string obstacle = nano::productsObstacle(body); !obstacle.empty())
          return body.front().emitOpError("inside nano.fused: it must stand by itself: ")
                 << obstacle;
      const bool sumsGradients = bool(nano::gradientsWithSums(body));
      if (sumsGradients)
        if (const std::string obstacle = nano::gradientSumsObstacle(body); !obstacle.empty())
          return body.front().emitOpError("inside nano.fused: it must stand by itself: ")
                 << obstacle;
      for (Operation &inner : llvm::drop_begin(body, products.size() + (sumsGradients ? 1 : 0)))
        if (isKernelOfItsOwn(&inner))
          return inner.emitOpError("inside nano.fused: it must stand by itself");
      for (BlockArgument argument : body.getArguments())
        if (argument.use_empty())
          return fused.emitOpError("reads operand ")
                 << argument.getArgNumber() << ", which none of its ops does";
      return success();
    }
    if (nano::isCall(&op) ||
        isa<LoadOp, StoreOp, ReshapeOp, SliceOp, TransposeOp, ConcatOp, ReturnOp>(op))
      return success();
    return op.emitOpError("outside of kernels: nano-fuse puts it into a nano.fused");
  }
};

} // namespace
