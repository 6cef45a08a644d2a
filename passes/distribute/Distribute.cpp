// nano-distribute: sums gradients over ranks before the optimizers read them.
//
// Data parallel: every rank walks over its own micro-batches with the same parameters, all-reduces
// each accumulated gradient, and applies the same update. The scalar `grad_scale` divides by the
// sequences of all ranks, so the update does not depend on their number. It runs after the
// optimizers are written out and before fusion, which must not look across a collective.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"

namespace nano {
#define GEN_PASS_DEF_DISTRIBUTE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

struct Distribute : public nano::impl::DistributeBase<Distribute> {
  using DistributeBase::DistributeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (int64_t world : worlds)
      if (world < 1) {
        module.emitError("a number of ranks must be at least 1, is ") << world;
        return signalPassFailure();
      }
    if (llvm::all_of(worlds, [](int64_t world) { return world == 1; }))
      return;
    func::FuncOp update = functionWithRole(module, "update");
    if (!update) {
      module.emitError("no function with role \"update\": run nano-expand-optimizers first");
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockBegin(&update.front());
    for (auto state : module.getOps<StateOp>()) {
      if (state.getRole() != Role::Gradient)
        continue;
      GraphBuilder g(builder, state.getLoc());
      Value local = g.load(state.getSymName(), state.getTensorType());
      g.store(AllReduceOp::create(builder, state.getLoc(), local.getType(), local),
              state.getSymName());
    }
  }
};

} // namespace
