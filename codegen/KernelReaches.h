// How far a kernel's launches reach into their operands, which plans say and their readers check.
#pragma once

#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

#include <vector>

namespace nano::codegen {

/// By kernel, what `plan::Kernel::reaches` says.
using KernelReaches = llvm::StringMap<std::vector<plan::Kernel::Reach>>;

/// Of all launches in the modules. A launch reaches no further than its operands' types; nor does
/// one of the same kernel with fewer iterations, whatever the types of its own operands.
KernelReaches kernelReaches(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace nano::codegen
