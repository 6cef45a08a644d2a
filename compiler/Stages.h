// The stages of the compiler (those of a run are ir/graph/RunStages.h), in order: one table for
// --stop-after, --dump-ir, `nanoc stages`, nano-opt and the tests.
#pragma once

#include "compiler/Pipeline.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace nano {

/// What whoever runs the stages does around some of them. The table says around which, so that
/// nobody asks for a stage by its name.
class StageHooks {
public:
  virtual ~StageHooks() = default;
  virtual void beforeFusion() {} ///< one op is one kernel or library call
  virtual void afterFusion() {}  ///< a task is
  virtual void kernelsStand() {} ///< in loops and vectors, to be read
  virtual void arenaIsKnown() {} ///< how large it is
};

struct Stage {
  using Hook = void (StageHooks::*)();
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
  /// What its programs compute on. Never less than in the stage before.
  enum class Storage : uint8_t {
    Tensors,
    Buffers, ///< and functions have become programs
    Arena,   ///< buffers with a place in it
  };
  Storage storage = Storage::Tensors;
  /// Adds the passes that prove what holds after it, for IR that others have written; may be null.
  void (*addGate)(mlir::OpPassManager &passes, const PipelineOptions &options) = nullptr;
  Hook before = nullptr, after = nullptr; ///< may be null
};

/// All stages, from `model` to `plan`.
llvm::ArrayRef<Stage> stages();

/// The stage of that name, or null.
const Stage *findStage(llvm::StringRef name);

/// "model, differentiate, …", for messages.
std::string stageNames();

} // namespace nano
