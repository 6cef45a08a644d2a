// Records what the passes of a stage do to a program: seconds, ops, changed IR, remarks.
#pragma once

#include "compiler/Stages.h"
#include "compiler/explore/PassRecords.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>
#include <vector>

namespace nano {

/// Of one program and stage. The instrumentation that it makes must not outlive it.
class PassRecorder {
public:
  /// `blank`: stage, stage of the run and number of ranks of the records. With `compares` they have
  /// what each pass has changed, else its figures only.
  PassRecorder(mlir::ModuleOp module, explore::PassRecord blank, bool compares);
  ~PassRecorder();

  std::unique_ptr<mlir::PassInstrumentation> instrumentation();
  /// A remark of the pass that runs.
  void remark(const std::string &text);
  /// The passes that have run, in order.
  std::vector<explore::PassRecord> take();

private:
  class State;
  std::unique_ptr<State> state;
};

/// The ops of the program by model line.
explore::LineOps lineOpsOf(mlir::ModuleOp module);

/// Adds the text of the program's kernels that the records do not have.
void addKernels(explore::PassRecords &records, mlir::ModuleOp module);

/// An error as users see it, "models/x.cpp:41: …", by its parts; of one without a place all of it
/// is the message.
explore::Failure failureOf(const std::string &error);

/// Adds the passes of a stage to the records: of each pass all programs, in their order. All have
/// run the same passes.
void addRecords(explore::PassRecords &records, std::vector<std::vector<explore::PassRecord>> runs);

} // namespace nano
