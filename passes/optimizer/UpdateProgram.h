// The program that runs once a step, after all micro-batches.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/BuiltinOps.h"

namespace nano {

/// The function with role "update"; added, empty, where there is none.
graph::ProgramOp updateProgram(mlir::ModuleOp module);

/// Where `join_update` of the training is true and there are programs with role "last": appends
/// the programs with role "update" to those of the same phases and removes them. Fails, with an
/// error, when a program would end with an update in some of its phases only.
mlir::LogicalResult joinUpdates(mlir::ModuleOp module);

} // namespace nano
