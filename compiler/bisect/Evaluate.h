// Runs the step of a program, at whatever stage of the pipeline, and returns what it leaves.
#pragma once

#include "compiler/bisect/KernelCode.h"
#include "compiler/bisect/Observations.h"
#include "compiler/bisect/StepInputs.h"
#include "ir/graph/Nano.h"
#include "runtime/plan/LoadedCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

#include <string>

namespace nano::bisect {

/// Keeps the first error that a context reports, and no remark or warning.
class FirstError {
public:
  explicit FirstError(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) { note(diagnostic); }) {}
  /// "models/x.cpp:41: …"; empty: none.
  const std::string &text() const { return first; }
  Error error() const { return failed(first.empty() ? "it fails without a message" : first); }

private:
  void note(mlir::Diagnostic &diagnostic);
  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

/// Whether tensors have become buffers.
bool hasBuffers(mlir::ModuleOp module);
/// Whether the programs change parameters: not before the optimizers are written out.
bool hasUpdate(mlir::ModuleOp module);
/// The program of a role that runs in the step: a nano.program or a step.program; null: none.
mlir::Operation *programOf(mlir::ModuleOp module, llvm::StringRef role, int64_t phase);
/// The program of a micro-batch: `train`, or what it has become.
mlir::Operation *programOfMicroBatch(mlir::ModuleOp module, const StepInputs &inputs,
                                     int64_t sequence);

/// "loss of micro-batch 2", "validation loss", "logits": a result of the programs `kind` ("train",
/// "validate", "generate").
std::string nameOfResult(llvm::StringRef kind, unsigned result, int64_t sequence);
std::string nameOfGradient(llvm::StringRef parameter);
std::string nameOfState(llvm::StringRef state);

/// The initial value of every state, by its name.
StateMap initialStates(mlir::ModuleOp module, const StepInputs &inputs);

/// Validates, generates, and runs the micro-batches and the update of one step on one rank: of the
/// programs what there is. Ops and tasks are run by the interpreter, launches of kernels as native
/// code. With buffers the programs run in a process of their own, in memory that is not a number
/// until it is written; where they have several streams, once in the order of the program and once
/// for each stream with that one as far ahead as its events allow, and these must agree.
/// Without buffers `arithmetic` says whether numbers are rounded, with buffers they always are.
/// Failed: what there is no meaning for, ids out of range, a deadlock, orders that disagree, a
/// crash.
Result<Observations> evaluate(mlir::ModuleOp module, const StepInputs &inputs,
                              interpreter::Arithmetic arithmetic, KernelCode &code);

/// The part of `evaluate` for programs with buffers, in this process, with stream `first` as far
/// ahead as it can be; −1: in the order of the programs. `image` may be null where nothing is
/// launched.
Result<Observations> evaluateStep(mlir::ModuleOp module, const StepInputs &inputs, int64_t first,
                                  const plan::LoadedCode *image);
/// What a level of the IR needs so that a step of its programs can be run.
class StepRunner {
public:
  virtual ~StepRunner() = default;
  /// Validates, generates, and runs the micro-batches and the update.
  llvm::LogicalResult run();

  Observations found;

protected:
  StepRunner(mlir::ModuleOp module, const StepInputs &inputs)
      : module(module), inputs(inputs), initial(initialStates(module, inputs)) {}

  /// All states are as before the step.
  virtual void writeStates() = 0;
  /// Runs a program; its results are observed.
  virtual llvm::LogicalResult runProgram(mlir::Operation *program, llvm::StringRef kind,
                                         int64_t sequence) = 0;
  virtual TensorValue valueOf(graph::StateOp state) const = 0;

  /// A result of a program of that kind.
  void observe(llvm::StringRef kind, unsigned result, int64_t sequence, TensorValue value,
               mlir::Type element);

  mlir::ModuleOp module;
  const StepInputs &inputs;
  const StateMap initial;

private:
  void observeGradients();
  void observeStates();
};

/// How many streams the programs use.
int64_t streamsOf(mlir::ModuleOp module);

} // namespace nano::bisect
