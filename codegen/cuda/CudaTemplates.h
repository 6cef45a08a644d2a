// Kernels that are templates of the device library: attention, scatter, scan, products.
#pragma once

#include "codegen/cuda/CudaPrinter.h"
#include "ir/kernel/Kernel.h"

namespace nano::codegen {

/// True for arguments that the kernel's text has a pointer for; factors of a product are known by
/// their tensor maps alone.
bool needsPointer(kernel::FuncOp kernel, unsigned argument);

/// What stands before the kernel: the struct that describes its op to the template. Adds the
/// includes to `includes`.
mlir::FailureOr<std::string> templateDefinitions(kernel::FuncOp kernel, std::string &includes);

/// The kernel's statements. The printer knows the operands' names.
mlir::FailureOr<std::string> templateCall(kernel::FuncOp kernel, CudaPrinter &printer);

} // namespace nano::codegen
