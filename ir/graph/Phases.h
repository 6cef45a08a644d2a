// Steps that differ from each other in turn: which programs run in which of them.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/Program.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <numeric>

namespace nano::graph {

/// Attribute of a function or program that runs only in some phases: `array<i64: 0, 1>`. Step s is
/// of phase s mod the number of phases; without the attribute a program runs in all of them.
inline constexpr llvm::StringLiteral phasesAttrName = "nano.phases";

/// How many phases there are: the least number of steps after which all optimizers are where they
/// began.
inline int64_t phaseCount(mlir::ModuleOp module) {
  int64_t count = 1;
  for (auto optimizer : module.getOps<OptimizerOp>())
    count = std::lcm(count, static_cast<int64_t>(optimizer.getEvery()));
  return count;
}

/// Whether the optimizer takes a step in steps of that phase.
inline bool stepsIn(OptimizerOp optimizer, int64_t phase) {
  return (phase + 1) % static_cast<int64_t>(optimizer.getEvery()) == 0;
}

/// True when the function or program runs in steps of that phase.
inline bool runsInPhase(mlir::Operation *program, int64_t phase) {
  auto phases = program->getAttrOfType<mlir::DenseI64ArrayAttr>(phasesAttrName);
  return !phases || llvm::is_contained(phases.asArrayRef(), phase);
}

} // namespace nano::graph
