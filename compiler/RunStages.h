// The program of a run of several stages, parted into one module a stage and put together again.
//
// All passes up to buffers, kernels and streams see one stage, as if it were a run of its own: one
// training program, one set of sizes. What stages share, above all the arena, is decided when they
// are one module again.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/LogicalResult.h"

#include <vector>

namespace nano {

/// Makes `module`, as the front end records it, that of the run's first stage and returns those of
/// the others, in order. Each has what all stages share, and of the programs its own, under the
/// names of their roles; what is recorded for all stages goes with the one of the longest
/// sequences, events with each. A run of one stage stays as it is.
std::vector<mlir::OwningOpRef<mlir::ModuleOp>> partRunStages(mlir::ModuleOp module);

/// Puts scheduled programs of all stages into the first one's module. Equal kernels, equal programs
/// and inputs of one type become one; of what is not the same in all stages the name gets the
/// stage's. The other modules are used up. Errors, at the op: a state, a scalar or a function that
/// kernels call differs between stages.
llvm::LogicalResult joinRunStages(llvm::ArrayRef<mlir::ModuleOp> stages);

} // namespace nano
