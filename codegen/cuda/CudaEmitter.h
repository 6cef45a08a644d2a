// Kernels of the kernel IR as CUDA C++: one source a kernel, and the device library that they
// include.
#pragma once

#include "ir/kernel/Kernel.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace nano::codegen {

/// The text of one kernel, for launches of up to `segments` sets of operands. Errors, at the op: an
/// operation without a form in CUDA C++; more operands than parameters have room for.
mlir::FailureOr<std::string> cudaKernelText(kernel::FuncOp kernel, int64_t segments);

/// The most sets of operands that a launch of each kernel has, by name; 1 for kernels that nothing
/// launches.
llvm::StringMap<int64_t> largestLaunches(mlir::ModuleOp module);

/// Sources of all functions of `kernels` that are kernels ("<kernel>.cu"), for launches of up to so
/// many sets of operands, then the device library.
mlir::FailureOr<std::vector<plan::Source>> cudaSources(mlir::ModuleOp kernels,
                                                       const llvm::StringMap<int64_t> &segments);
/// The same of all kernels of a module after scheduling.
mlir::FailureOr<std::vector<plan::Source>> cudaSources(mlir::ModuleOp module);

} // namespace nano::codegen
