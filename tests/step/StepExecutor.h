// Executes step programs with tasks on a simulated arena, by the meaning that the interpreter gives
// to graph ops.
#pragma once

#include "ir/step/Step.h"
#include "tests/support/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <random>
#include <string>
#include <vector>

namespace nano::test {

/// What a collective or `nano.shard` of x gives the last of several ranks that all hold the same x:
/// its last elements, or x repeated; twice that for a sum.
TensorValue exchanged(const TensorValue &x, std::vector<int64_t> shape, bool sums);

/// An arena of one number for each 4 bytes; only for programs whose element types are f32 and i32.
/// Memory starts poisoned with NaN.
class StepExecutor {
public:
  /// `module` has a memory plan.
  explicit StepExecutor(mlir::ModuleOp module);

  /// The buffer of a state, scalar or input.
  void set(llvm::StringRef symbol, const TensorValue &value);
  TensorValue get(llvm::StringRef symbol) const;

  /// Runs a program's commands in order. A task computes its rows (all dimensions but the last of
  /// its largest output) one at a time in a random order, each from what memory holds then, as a
  /// kernel does that shares rows among threads: an update in place that reads another row's new
  /// values gives wrong numbers.
  void run(step::ProgramOp program, std::mt19937_64 &random);

private:
  std::vector<size_t> slotsOf(mlir::Value view) const;
  TensorValue read(mlir::Value view) const;
  void write(mlir::Value view, const TensorValue &value);
  void runTask(step::TaskOp task, std::mt19937_64 &random);
  void runMatmul(step::MatmulOp matmul);
  void exchange(mlir::Operation *op, mlir::Value source, mlir::Value target);

  std::vector<double> arena;
  std::map<std::string, std::pair<size_t, std::vector<int64_t>>> symbols; ///< slot and shape
};

} // namespace nano::test
