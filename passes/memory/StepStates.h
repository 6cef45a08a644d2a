// States whose bytes are in use in a part of each step only.
#pragma once

#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace nano::memory {

/// How a program uses such a state: what was there when it started is read, and what is there when
/// it ends is read by a later program of the step.
struct StepUse {
  bool fromBefore = false, untilAfter = false;
};

/// Gradients that no step takes over from the one before: a program writes them whole before it
/// reads them, and another one, or the same, reads them last.
///
///   last      … writes @grad.w …            free until then
///   update    … reads @grad.w …             free from then on
///
/// Their bytes are free for transient buffers elsewhere. Left out are those that a program must
/// keep from its start to its end, as where several micro-batches add up in them, those of fewer
/// than `leastBytes`, and those that a program outside of steps touches.
struct StepState {
  graph::StateOp state;
  llvm::SmallMapVector<mlir::Operation *, StepUse, 2> programs; ///< that touch it
};
llvm::SmallVector<StepState> stepStates(mlir::ModuleOp module, const step::KernelTable &kernels,
                                        int64_t leastBytes = 0);

} // namespace nano::memory
