// From kernel functions in upstream dialects to functions in the LLVM dialect with the plan's C
// signature.
#pragma once

#include "codegen/cpu/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"

namespace nano::codegen {

/// Replaces every kernel.func of `kernels` by an llvm.func
///   void name(void *const *args, void *scratch, int64_t begin, int64_t end)
/// in the LLVM dialect, several functions at a time. bf16 is held as i16 (converted in hardware,
/// where the target can: there subnormal numbers become 0). Errors: an op that has no lowering.
mlir::LogicalResult lowerKernelsToLlvm(mlir::ModuleOp kernels, const CpuTarget &target);

/// Makes the lowering's dialects and translations known to the context.
void loadNativeDialects(mlir::MLIRContext &context);

} // namespace nano::codegen
