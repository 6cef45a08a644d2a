// Kernel functions to an ELF shared object for the CPU.
#pragma once

#include "codegen/cpu/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace nano::codegen {

/// A shared object and what it needs from the processor.
struct NativeCode {
  std::string code; ///< ELF bytes; one exported symbol a kernel, signature as in
                    ///< runtime/plan/Plan.h; no undefined symbols
                    ///< but those of the C library that the model's own kernels call
  std::vector<std::string> cpuFeatures; ///< as /proc/cpuinfo spells them
};

/// How kernels are compiled.
struct NativeOptions {
  unsigned threads = 2;
  /// Without, LLVM translates what there is and does not look for better: in a third of the time,
  /// to code of the same results, for what runs once.
  bool isOptimized = true;
};

/// Where the time of a compilation went, in milliseconds.
struct NativeTimes {
  double lowering = 0, objects = 0, linking = 0;
};

/// Compiles every kernel.func of the module `kernels`, which stays as it is.
/// Floating-point arithmetic is neither reassociated nor contracted here: fused multiply-adds are
/// those that the kernels spell out, so the bits of a result do not depend on how a loop was split.
/// Equal modules give equal bytes. Errors, at the kernel or at the module:
/// an op that has no lowering, LLVM's diagnostics, a linker that is missing or fails.
mlir::FailureOr<NativeCode> compileKernels(mlir::ModuleOp kernels, const CpuTarget &target,
                                           const NativeOptions &options = {},
                                           NativeTimes *times = nullptr);

/// A kernel as text for people: its summary and model lines, then its function.
std::string kernelText(mlir::Operation *function);

} // namespace nano::codegen
