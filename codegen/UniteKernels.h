// One table of kernels for the programs of several numbers of ranks.
#pragma once

#include "codegen/IndexGroups.h"
#include "codegen/KernelReaches.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

namespace nano::codegen {

struct KernelUnion {
  mlir::ModuleOp kernels; ///< the module of kernels of the first module; null when it has none
  llvm::StringMap<int64_t> segments; ///< by kernel: the most sets of operands of a launch
  KernelReaches reaches;
  IndexGroups indices;
};

/// Adds to the kernels of the first module those that only others have. Of kernels with the same
/// code there is one. A kernel whose name another one has gets a new name, also in the launches of
/// its own module. Errors, at the kernel: a function that kernels call differs between modules.
mlir::FailureOr<KernelUnion> uniteKernels(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace nano::codegen
