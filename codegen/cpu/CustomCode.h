// Kernels of a model's own for the CPU: C++ that the host's compiler makes an object file of.
#pragma once

#include "codegen/cpu/CpuTarget.h"
#include "ir/kernel/Kernel.h"

#include <string>

namespace nano::codegen {

/// The C++ of a kernel: the model's text, and a function of the kernel's name with the signature of
/// runtime/plan/Plan.h that calls it. Errors, at the kernel: attributes that are missing.
mlir::FailureOr<std::string> customCpuText(kernel::FuncOp kernel);

/// Its object file, from $CXX or c++, written to `folder`/NAME.o; returns that path. Arithmetic is
/// neither reassociated nor contracted. Errors: an error of the model where the text does not
/// compile, with the compiler's first message; a compiler that cannot be run.
mlir::FailureOr<std::string> compileCustomKernel(kernel::FuncOp kernel, const CpuTarget &target,
                                                 const std::string &folder);

} // namespace nano::codegen
