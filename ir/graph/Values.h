// What passes ask of values of graph programs.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/Value.h"

#include <cstdint>

namespace nano::graph {

/// Bytes of a tensor; 0 for other values.
int64_t bytesOf(mlir::Value value);

/// True for a constant all of whose elements are 0.
bool isZero(mlir::Value value);

/// What loads the state that `value` shows whole, through casts and reshapes alone; null when it
/// shows none.
LoadOp loadOf(mlir::Value value);

} // namespace nano::graph
