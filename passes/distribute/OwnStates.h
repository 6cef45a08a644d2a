// What ranks have of the model's own states.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace nano::distribute {

/// Makes of `over_ranks` of states what it says, for `world` ranks: before a store of the programs
/// with role "last", the mean or maximum over all ranks; a state that each rank has for itself
/// becomes sharded, as one part a rank of a whole [world, …] that checkpoints hold.
void combineOwnStates(mlir::ModuleOp module, int64_t world);

} // namespace nano::distribute
