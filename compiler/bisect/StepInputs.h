// What a step is given when a program is run to see what it computes: states, scalars and a batch,
// the same ones whatever the passes have made of the program.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/interpreter/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <random>
#include <string>

namespace nano::bisect {

using interpreter::StateMap;
using interpreter::TensorValue;

/// Values by a seed and by names, none by an order in which they are asked for.
class StepInputs {
public:
  /// For the programs of `module`, whose `nano.model` has a training. The step is in the middle of
  /// the run, where no schedule is at its beginning, and one in which every optimizer updates.
  StepInputs(mlir::ModuleOp module, uint64_t seed);

  int64_t microBatches() const { return sequences; }
  /// Of the step among those that differ in turn (ir/graph/Phases.h).
  int64_t phase() const { return stepNumber % phases; }
  int64_t step() const { return stepNumber; }

  /// What a state holds before the step: as declared, but parameters that start as one number are
  /// moved off it, so that nothing is zero because of them, and optimizers' states are positive.
  TensorValue state(graph::StateOp op) const;
  /// The same for a state of an optimizer that no `nano.state` declares yet; `start` is its
  /// `inits`.
  TensorValue optimizerState(llvm::StringRef name, mlir::RankedTensorType type, double start) const;
  /// The `index`-th argument of the programs `kind` ("train", "validate", "generate"): tokens and
  /// targets, then columns.
  TensorValue argument(llvm::StringRef kind, unsigned index, mlir::ShapedType type,
                       int64_t sequence) const;
  /// Sets the values of all `nano.scalar` for a sequence of the batch. Errors, at the op: one that
  /// plans cannot evaluate.
  llvm::LogicalResult setScalars(mlir::ModuleOp module, int64_t sequence, StateMap &states) const;

private:
  std::mt19937_64 randomOf(llvm::StringRef name) const;

  uint64_t seed;
  int64_t sequences = 1, vocabulary = 2, iterations = 1, phases = 1, stepNumber = 0;
};

} // namespace nano::bisect
