// What the texts of kernels of a model's own have in common on the CPU and the GPU.
#pragma once

#include "ir/kernel/Templates.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace nano::codegen {

/// Whether a kernel function is one of the model's own.
bool isCustomKernel(kernel::FuncOp kernel);
/// The name of the function that a kernel of the model's own calls.
llvm::StringRef customFunction(kernel::FuncOp kernel);

/// The text for a target, in which errors count lines from its beginning, under the function's
/// name. It begins behind `before`, and what follows it is counted as lines of `file` again. Fails,
/// with an error at the kernel, where there is no text.
mlir::FailureOr<std::string> customText(kernel::FuncOp kernel, mlir::StringAttr text,
                                        llvm::StringRef target, llvm::StringRef file,
                                        llvm::StringRef before);

/// "name(begin, end, nano::Array<const float, 4, 8>{x}, …)"; `pointerOf` gives the text of an
/// argument's pointer.
mlir::FailureOr<std::string>
customCall(kernel::FuncOp kernel, llvm::StringRef begin, llvm::StringRef end,
           llvm::function_ref<std::string(mlir::BlockArgument)> pointerOf);

} // namespace nano::codegen
