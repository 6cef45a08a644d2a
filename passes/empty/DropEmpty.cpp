// nano-drop-empty: takes tensors of no elements out of the programs.
//
//   %none = nano.slice %x dim 0 at 3 : tensor<8x4xf32> -> tensor<0x4xf32>
//   %y = nano.concat %none, %x dim 0           ⇒  %x
//   %s = nano.reduce sum %none dims [0]        ⇒  nano.constant 0.0
//
// Verifiers allow an empty dimension where the op's equation has a value for every element of its
// results. Of an op with an empty operand that is nothing, where all its results are empty, or a
// sum of nothing. So passes that follow, kernels and devices never meet one.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/Sequence.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

namespace nano {
#define GEN_PASS_DEF_DROPEMPTY
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

bool isEmpty(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getNumElements() == 0;
}

/// beta·addend, or 0 without one: what a product of type `result` is beside its sum of nothing.
template <typename Product> Value withoutSum(GraphBuilder &g, Product product) {
  if (!product.getAddend())
    return g.constant(0, product.getType());
  return g.mul(product.getAddend(), product.getBeta().convertToDouble());
}

/// The parts that have elements, one after the other.
Value withoutEmptyParts(OpBuilder &builder, ConcatOp concat) {
  SmallVector<Value> parts;
  llvm::copy_if(concat.getInputs(), std::back_inserter(parts),
                [](Value part) { return !isEmpty(part); });
  if (parts.size() == 1)
    return parts.front();
  return ConcatOp::create(builder, concat.getLoc(), concat.getType(), parts, concat.getDimAttr());
}

/// What the result of an op that has elements is without the op's empty operands.
Value withoutEmptyOperands(Operation *op) {
  OpBuilder builder(op);
  GraphBuilder g(builder, op->getLoc());
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ConcatOp concat) { return withoutEmptyParts(builder, concat); })
      .Case<MatmulOp, ScaledMatmulOp>([&](auto product) { return withoutSum(g, product); })
      .Case<ReduceOp, ScatterAddOp, BandScoresOp, GroupedMatmulOp, GroupedOuterOp>(
          [&](Operation *sum) { return g.constant(0, sum->getResult(0).getType()); })
      .Default([](Operation *) { return Value(); });
}

struct DropEmpty : public nano::impl::DropEmptyBase<DropEmpty> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<ProgramOp>())
      run(function);
  }

private:
  static void run(ProgramOp function) {
    function.walk([](Operation *op) {
      if (op->getNumResults() != 1 || isEmpty(op->getResult(0)) ||
          llvm::none_of(op->getOperands(), isEmpty))
        return;
      if (Value without = withoutEmptyOperands(op)) {
        op->getResult(0).replaceAllUsesWith(without);
        op->erase();
      }
    });
    // What made or moved them, users first.
    SmallVector<Operation *> dead;
    function.walk([&](Operation *op) {
      if (llvm::any_of(op->getResults(), isEmpty) || llvm::any_of(op->getOperands(), isEmpty))
        dead.push_back(op);
    });
    for (Operation *op : llvm::reverse(dead))
      if (isOpTriviallyDead(op))
        op->erase();
  }
};

} // namespace
