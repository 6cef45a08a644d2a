// Kernels that are templates of the device library: attention, scatter, scan.
#pragma once

#include "codegen/cuda/CudaPrinter.h"

namespace nano::codegen {

/// The discardable attribute that names a kernel's template; its parameters are beside it.
inline constexpr llvm::StringLiteral templateAttrName = "nano.template";

/// What stands before the kernel: the struct that describes its op to the template. Adds the
/// includes to `includes`.
mlir::FailureOr<std::string> templateDefinitions(mlir::func::FuncOp kernel, std::string &includes);

/// The kernel's statements. The printer knows the operands' names.
mlir::FailureOr<std::string> templateCall(mlir::func::FuncOp kernel, CudaPrinter &printer);

} // namespace nano::codegen
