// nano-split-accumulation: makes of `train` the programs of the first and of the further
// micro-batches of a step.
//
// `first` stores each gradient, `next` adds to what is there, so that nothing has to be zeroed and
// a step of one micro-batch pays nothing for accumulation. It runs after differentiation and
// recomputation, which see one training function, and before the passes that treat the
// micro-batches of a step differently: scaling of 8-bit products, distribution.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"

namespace nano {
#define GEN_PASS_DEF_SPLITACCUMULATION
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

/// A store is right for the first micro-batch only where a state is accumulated once.
LogicalResult verifyAccumulatedOnce(ProgramOp train) {
  DenseMap<StringAttr, AccumulateOp> accumulated;
  for (auto op : train.getOps<AccumulateOp>()) {
    auto [first, isNew] = accumulated.try_emplace(op.getSymbolAttr().getAttr(), op);
    if (isNew)
      continue;
    InFlightDiagnostic error = op.emitOpError("state ")
                               << op.getSymbolAttr() << " is accumulated more than once";
    error.attachNote(first->second.getLoc()) << "the first time here";
    return error;
  }
  return success();
}

/// Replaces every `accumulate` by state ← value, or by state ← state + value.
void expand(ProgramOp function, const SymbolTable &symbols, bool first) {
  for (AccumulateOp op : llvm::to_vector(function.getOps<AccumulateOp>())) {
    RankedTensorType type = symbols.lookup<StateOp>(op.getSymbol()).getTensorType();
    OpBuilder builder(op);
    GraphBuilder g(builder, op.getLoc());
    Value value = g.cast(op.getValue(), type.getElementType());
    if (!first)
      value = g.add(g.load(op.getSymbol(), type), value);
    g.store(value, op.getSymbol());
    op.erase();
  }
}

struct SplitAccumulation : public nano::impl::SplitAccumulationBase<SplitAccumulation> {
  void runOnOperation() override {
    ProgramOp first = programWithRole(getOperation(), "train");
    if (!first) {
      getOperation().emitError("no function with role \"train\"");
      return signalPassFailure();
    }
    if (failed(verifyAccumulatedOnce(first)))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    OpBuilder builder(first);
    builder.setInsertionPointAfter(first);
    auto next = cast<ProgramOp>(builder.clone(*first));
    for (auto [function, name] : {std::pair(first, "first"), std::pair(next, "next")}) {
      function.setSymName(name);
      function.setRole(name);
      expand(function, symbols, function == first);
    }
  }
};

} // namespace
