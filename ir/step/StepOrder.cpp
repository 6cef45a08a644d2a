// The order of a step's programs, by role, stage and phase.
#include "ir/step/StepOrder.h"

#include "ir/graph/Phases.h"
#include "ir/graph/RunStages.h"

using namespace mlir;

namespace nano::step {

ProgramOp programIn(ModuleOp module, StringRef role, int64_t stage, int64_t phase) {
  for (auto program : module.getOps<ProgramOp>())
    if (program.getRole() == role && graph::isInStage(program, stage) &&
        graph::runsInPhase(program, phase))
      return program;
  return {};
}

llvm::SmallVector<StepOrder> stepOrders(ModuleOp module) {
  SmallVector<StepOrder> orders;
  const auto stages = int64_t(graph::runStagesOf(module).size());
  for (int64_t stage = 0; stage < stages; ++stage)
    for (int64_t phase = 0, phases = graph::phaseCount(module); phase < phases; ++phase) {
      StepOrder order{stage, phase, {}};
      for (StringRef role : {"first", "next", "last", "update"})
        if (ProgramOp program = programIn(module, role, stage, phase))
          order.programs.push_back(program);
      orders.push_back(std::move(order));
    }
  return orders;
}

} // namespace nano::step
