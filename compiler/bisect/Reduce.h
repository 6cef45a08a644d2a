// Makes a program smaller as long as it shows a fault.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace nano::bisect {

/// How many ops the programs and the optimizers' equations have that compute or move anything:
/// constants, views and buffers are not counted.
int64_t opsOf(mlir::ModuleOp module);

/// The smallest program found within `seconds` for which `shows` is true, as it is for `module`:
/// whole programs and equations go first, then ops, many at a time and one by one; what an op
/// computed becomes one of its operands or a constant. Then states, scalars, optimizers and inputs
/// that nothing names.
mlir::OwningOpRef<mlir::ModuleOp>
reduce(mlir::ModuleOp module, llvm::function_ref<bool(mlir::ModuleOp)> shows, double seconds);

} // namespace nano::bisect
