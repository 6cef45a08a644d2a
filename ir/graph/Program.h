// What holds of all of a module, its programs by their roles, and the names of derived states.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace nano::graph {

/// The module's `nano.model`; null where it has none.
ModelOp modelOf(mlir::ModuleOp module);
/// The same; a module without one gets one, without a name.
ModelOp modelOrNew(mlir::ModuleOp module);
/// The sizes and conventions of training; null where nothing says them.
mlir::DictionaryAttr trainingOf(mlir::ModuleOp module);
/// The number of ranks, once distribution has set it.
std::optional<int64_t> worldOf(mlir::ModuleOp module);
/// The number of ranks of one group; 1 before distribution.
int64_t groupOf(mlir::ModuleOp module);

/// The scalar 1/(sequences in the global batch), by which summed gradients are averaged.
inline constexpr llvm::StringLiteral gradScaleSymbol = "grad_scale";

/// The state in which a parameter's gradient accumulates.
inline std::string gradientSymbol(llvm::StringRef parameter) { return ("grad." + parameter).str(); }

/// The program of that role, or null.
inline ProgramOp programWithRole(mlir::ModuleOp module, llvm::StringRef role) {
  for (auto program : module.getOps<ProgramOp>())
    if (program.hasRole(role))
      return program;
  return nullptr;
}

} // namespace nano::graph
