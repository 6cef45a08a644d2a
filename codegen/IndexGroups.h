// Which kernels' operands and which buffers hold the same 32-bit integers, which plans say and
// their readers check.
#pragma once

#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"

#include <unordered_map>
#include <vector>

namespace nano::codegen {

struct IndexGroups {
  std::vector<plan::IndexGroup> groups;
  /// By kernel, what `plan::Kernel::indices` says.
  llvm::StringMap<std::vector<plan::Kernel::Indices>> kernels;
  /// By step::bufferKey, what `plan::Buffer::indices` says; i32 scalars are not among them.
  std::unordered_map<const void *, int64_t> buffers;
};

/// Of all launches in the modules, which are of one plan: an operand of a kernel and every buffer
/// that some launch or copy gives it are one group. What comes into a group from outside of the
/// programs lies in its interval: tokens below the vocabulary, the numbers of tables, and of
/// columns, positions, scalars and other states any.
IndexGroups indexGroups(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace nano::codegen
