// What the model's own states, and what its events set, keep to.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace nano {

/// Checks every `nano.store` of a model's programs; each error names the model's line.
///
/// - The training program sets states of the model's own (`over_ranks`), events also
///   parameters; no other program sets anything, and nothing sets a table or a gradient.
/// - A program sets a state once, and so do the events of one step together.
/// - What is to be equal on all ranks does not depend on what differs between them: tokens, states
///   that each rank keeps for itself, and, before the step's last micro-batch, those that ranks
///   combine.
mlir::LogicalResult verifyOwnStates(mlir::ModuleOp module);

} // namespace nano
