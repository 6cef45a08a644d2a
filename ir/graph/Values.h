// What passes ask of values of graph programs.
#pragma once

#include "mlir/IR/Value.h"

#include <cstdint>

namespace nano::graph {

/// Bytes of a tensor; 0 for other values.
int64_t bytesOf(mlir::Value value);

/// True for a constant all of whose elements are 0.
bool isZero(mlir::Value value);

} // namespace nano::graph
