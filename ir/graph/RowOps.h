// What ops cost that are computed row by row, and which choices need one element of a row alone.
#pragma once

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Nano.h"
#include "ir/graph/ReduceOps.h"

namespace nano {

/// Number of elements of a tensor or memref value.
int64_t elementsOf(mlir::Value value);
/// Number of elements that become one.
int64_t elementsOfEach(graph::ReduceOp reduce);

/// The choice under an output, or under its conversion, that takes its first value in at most one
/// column of each row: select(eq, column, a number a row, …). Null if it is not one.
graph::SelectOp columnChoice(mlir::Value output, int64_t columns);

/// The choice that a row reduction adds up, when its sum is one element of the row: its first
/// value, in the column that a number of the row says, and zeros elsewhere. Null if it is not one.
graph::SelectOp pickedBy(graph::ReduceOp reduce);

/// Rough cost of computing one vector of the op's result, in simple vector instructions.
int64_t costOf(mlir::Operation *op);

/// True when a value is worth keeping in memory rather than computing again.
inline bool isExpensive(mlir::Operation *op) { return costOf(op) >= 8; }

} // namespace nano
