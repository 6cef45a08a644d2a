// Which memrefs are read and written by 16 bytes.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

namespace nano::step {

/// True when the rows of the last dimension are contiguous and begin at multiples of 16 bytes; of
/// one number too, wherever it lies.
bool hasVectorRows(mlir::MemRefType type);
/// Likewise of the columns of a matrix whose rows lie as columns.
bool hasVectorColumns(mlir::MemRefType type);

} // namespace nano::step
