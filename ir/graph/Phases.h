// Steps that differ from each other in turn: which programs run in which of them.
#pragma once

#include "ir/graph/Program.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace nano::graph {

/// Attribute of a function or program that runs only in some phases: `array<i64: 0, 1>`. Step s is
/// of phase s mod the number of phases; without the attribute a program runs in all of them.
inline constexpr llvm::StringLiteral phasesAttrName = "nano.phases";

/// How many phases there are: one Adam step in so many, `adam_every` of `nano.training`.
inline int64_t phaseCount(mlir::ModuleOp module) {
  auto training = module->getAttrOfType<mlir::DictionaryAttr>(trainingAttrName);
  auto count = training ? training.getAs<mlir::IntegerAttr>("adam_every") : mlir::IntegerAttr();
  return count ? count.getInt() : 1;
}

/// True when the function or program runs in steps of that phase.
inline bool runsInPhase(mlir::Operation *program, int64_t phase) {
  auto phases = program->getAttrOfType<mlir::DenseI64ArrayAttr>(phasesAttrName);
  return !phases || llvm::is_contained(phases.asArrayRef(), phase);
}

} // namespace nano::graph
