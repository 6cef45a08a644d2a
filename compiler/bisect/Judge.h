// Whether a pass has changed what a program computes, or what a check of the user's says of it.
#pragma once

#include "compiler/bisect/Evaluate.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace nano::bisect {

struct Settings {
  uint64_t seed = 0; ///< of states and batch
  /// Relative; none: 2^-9 against finite differences; where kernels take the place of tasks 2^-14
  /// for f32, 2^-6 where anything is bf16, 2^-2 where anything has 8 bits; else 2^-16.
  std::optional<double> tolerance;
  std::string check; ///< a command with {} for the IR's file, instead of values; empty: none
};

/// Of a program before a pass and after it.
struct Verdict {
  bool isWrong = false;
  std::string why;       ///< where it is wrong
  std::string how;       ///< how the program behind the pass was run
  Comparison comparison; ///< of values
};

/// Judges one pass after the other, and runs each program once.
class Judge {
public:
  explicit Judge(const Settings &settings) : settings(settings) {}

  /// What is to be known of the program before the first pass. Failed: it cannot be run; a check
  /// that it does not pass already.
  Status begin(mlir::ModuleOp before);
  /// What the pass behind `before`, the program of the call before, has made of it. Values that
  /// both leave are compared; gradients that are new with finite differences, an update that is new
  /// with the optimizers' equations. Failed: a check that cannot be run.
  Result<Verdict> judge(mlir::ModuleOp before, mlir::ModuleOp after);

private:
  Result<bool> passesCheck(mlir::ModuleOp module) const;

  const Settings settings;
  std::optional<StepInputs> inputs;
  Observations known;                  ///< of the program before the next pass
  std::map<std::string, double> noise; ///< what rounding does to it, once numbers are rounded
  KernelCode code;
  bool hadTasks = false; ///< its tasks were run by the interpreter
};

/// Runs the pass that `text` names, with its options, on the module, and no other. Failed: no such
/// pass; its first error.
Status runPass(mlir::ModuleOp module, const std::string &text);

} // namespace nano::bisect
