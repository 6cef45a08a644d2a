// Which programs an optimizer step runs, and in which order.
#pragma once

#include "ir/step/Step.h"

namespace nano::step {

/// The programs of the steps of one stage of the run and one phase, in the order in which they run:
/// `first`, `next`, `last`, `update`, as far as there are such. `next` may run any number of times,
/// or not at all. Before, between and after steps other programs may run, never within.
struct StepOrder {
  int64_t stage = 0, phase = 0;
  llvm::SmallVector<ProgramOp, 4> programs;
};

/// The program of that role in a step of that stage and phase, or null.
ProgramOp programIn(mlir::ModuleOp module, llvm::StringRef role, int64_t stage, int64_t phase);

/// The steps of all stages and phases; a step of one phase is followed by one of the next, of its
/// own or of any other stage.
llvm::SmallVector<StepOrder> stepOrders(mlir::ModuleOp module);

} // namespace nano::step
