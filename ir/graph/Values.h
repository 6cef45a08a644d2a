// What passes ask of values of graph programs.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/SetVector.h"

#include <cstdint>

namespace nano::graph {

/// Bytes of a tensor; 0 for other values.
int64_t bytesOf(mlir::Value value);

/// True for a constant all of whose elements are 0.
bool isZero(mlir::Value value);

/// What loads the state that `value` shows whole, through casts and reshapes alone; null when it
/// shows none.
LoadOp loadOf(mlir::Value value);

/// True where `value` is made of parameters alone, by ops that a pass puts before a weight's
/// product; adds them to `ops`, each behind what it reads.
bool isOfParameters(mlir::Value value, llvm::SetVector<mlir::Operation *> &ops);

} // namespace nano::graph
