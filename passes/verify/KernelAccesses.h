// What nano-verify-kernels knows of where a kernel's body reads and writes.
#pragma once

#include "ir/kernel/Kernel.h"
#include "ir/kernel/Templates.h"

#include <optional>

namespace nano {

/// False when a load does not find what a store of the same iteration has left, as far as can be
/// seen: the store comes later, or only runs where a condition holds, or stores other elements by
/// the numbers in its indices. Of different loops those that run alike are compared, variable by
/// variable.
bool mayLeave(mlir::Operation *store, mlir::Operation *load);

/// True when a load, if it runs, reads an element that none of `stores`, which are all of its
/// memory, can have written, by numbers and by loops of known bounds: of the loops that unrolling
/// leaves, each of which stores a part, what they store together counts.
bool mayReadBeyond(mlir::Operation *load, llvm::ArrayRef<mlir::Operation *> stores);

/// The most iterations that the body can do inside its buffers, as far as its indices say so: those
/// that are the iteration itself. Nothing: none are.
std::optional<int64_t> mostIterations(kernel::FuncOp kernel);

/// Reports a load or store that certainly leaves its memory: by a number, or by the last value of a
/// loop of known bounds; and a view of scratch memory that reaches beyond it.
mlir::LogicalResult verifyBounds(kernel::FuncOp kernel);

} // namespace nano
