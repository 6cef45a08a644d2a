// Steps that differ from each other in turn: which programs run in which of them.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/Program.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <numeric>

namespace nano::graph {

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

/// True when the program runs in steps of that phase.
inline bool runsInPhase(ProgramOpInterface program, int64_t phase) {
  const mlir::DenseI64ArrayAttr phases = program.getPhasesAttr();
  return !phases || llvm::is_contained(phases.asArrayRef(), phase);
}

} // namespace nano::graph
