// Names that the passes agree on: roles of functions, symbols of derived states, attributes of the
// module.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace nano::graph {

/// Function attribute that says what a function is for: "train", then "first" and "next"
/// micro-batch of a step and, after distribution, "last"; "update", "event", "validate",
/// "generate", "decode", "measure".
inline constexpr llvm::StringLiteral roleAttrName = "nano.role";
/// Module attribute: dictionary of the sizes and conventions of training.
inline constexpr llvm::StringLiteral trainingAttrName = "nano.training";
/// Module attribute: the model's name.
inline constexpr llvm::StringLiteral modelAttrName = "nano.model";
/// Module attributes that distribution sets: the number of ranks, and of those in one group.
inline constexpr llvm::StringLiteral worldAttrName = "nano.world", groupAttrName = "nano.group";
/// Attribute of a state that the training program writes: "equal", "mean", "max" or "each", what
/// the ranks have of it after a step (`nano.state` says more).
inline constexpr llvm::StringLiteral overRanksAttrName = "nano.over_ranks";
/// Attribute of a function or program of role "event": the step after whose update it runs, i64;
/// without it, after every one.
inline constexpr llvm::StringLiteral eventStepAttrName = "nano.event_step";
/// The scalar 1/(sequences in the global batch), by which summed gradients are averaged.
inline constexpr llvm::StringLiteral gradScaleSymbol = "grad_scale";

/// The state in which a parameter's gradient accumulates.
inline std::string gradientSymbol(llvm::StringRef parameter) { return ("grad." + parameter).str(); }

/// The function of that role, or null.
inline mlir::func::FuncOp functionWithRole(mlir::ModuleOp module, llvm::StringRef role) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    if (auto attribute = function->getAttrOfType<mlir::StringAttr>(roleAttrName);
        attribute && attribute == role)
      return function;
  return nullptr;
}

} // namespace nano::graph
