// The order of ops in a block of graph IR: dependences that SSA does not show, and a topological
// sort that moves no more than it must.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace nano {

/// For a load or store of a state, the ops that must stay behind it: reads and writes of one state
/// keep their order.
using StateOrder = llvm::DenseMap<mlir::Operation *, mlir::SmallVector<mlir::Operation *>>;
StateOrder stateOrder(mlir::Block &block);

/// Brings `block` into an order in which values are made before they are read and `after` holds.
/// Among ops that are ready, the one with the smallest key goes first; `key` has an entry an op.
/// Fails, with an error at an op, when there is no such order.
mlir::LogicalResult sortBlock(mlir::Block &block, const StateOrder &after,
                              const llvm::DenseMap<mlir::Operation *, int64_t> &key);

} // namespace nano
