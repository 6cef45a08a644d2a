// The stages of the compiler (those of a run are ir/graph/RunStages.h), in order: one table for
// --stop-after, --dump-ir, `nanoc stages`, nano-opt and the tests.
#pragma once

#include "compiler/Pipeline.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace nano {

struct Stage {
  llvm::StringLiteral name;
  llvm::StringLiteral summary; ///< what the program is after this stage
  /// Adds the stage's passes; null for `plan`, which leaves the IR.
  void (*addPasses)(mlir::OpPassManager &passes, const PipelineOptions &options);
  /// Which programs its passes run on. Never less of the run than in the stage before.
  enum class Scope : uint8_t {
    RunStage,  ///< of each stage of the run, for all numbers of ranks
    WorldPart, ///< of each stage of the run, for each number of ranks
    World,     ///< of the whole run, for each number of ranks
  };
  Scope scope = Scope::RunStage;
  bool isForEachWorld() const { return scope != Scope::RunStage; }
  /// Tensors have become buffers, and functions programs; true of all stages behind one of which it
  /// is true.
  bool hasBuffers = false;
  /// Adds the passes that prove what holds after it, for IR that others have written; may be null.
  void (*addGate)(mlir::OpPassManager &passes, const PipelineOptions &options) = nullptr;
};

/// All stages, from `model` to `plan`.
llvm::ArrayRef<Stage> stages();

/// The stage of that name, or null.
const Stage *findStage(llvm::StringRef name);

/// "model, differentiate, …", for messages.
std::string stageNames();

} // namespace nano
