// What passes ask of values of graph programs.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/SetVector.h"

#include <cstdint>

namespace nano::graph {

class MulOp;

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

/// What `mul` multiplies by numbers that a broadcast repeats; null where it multiplies by none.
mlir::Value multiplied(MulOp mul);

/// The weight that `value` shows, multiplied by numbers made of parameters, as nano-scale-weights
/// leaves it; null where it shows none.
MulOp scaledRows(mlir::Value value);

/// What loads the weight that `value` shows whole, as it is or multiplied by such numbers; null
/// when it shows none.
LoadOp weightOf(mlir::Value value);

} // namespace nano::graph
