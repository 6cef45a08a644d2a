// Stages of a run: steps with sizes of their own, and which programs run in which of them. (The
// compiler's own stages are parts of its pipeline, compiler/Stages.h.)
#pragma once

#include "ir/graph/Program.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace nano::graph {

struct RunStage {
  std::string name; ///< empty: the only one
  int64_t until = 0;
  mlir::DictionaryAttr training;
  mlir::ArrayAttr fp8Products; ///< of its programs, as `nano.model` has them; may be null
};

/// The module's stages; where it has one only, that has neither name nor end.
llvm::SmallVector<RunStage> runStagesOf(mlir::ModuleOp module);
void setRunStages(mlir::ModuleOp module, llvm::ArrayRef<RunStage> stages);

/// The name of an op without that of the stage behind it, which one of some stages has.
std::string nameInStages(StagedOpInterface op, llvm::ArrayRef<RunStage> stages);
/// Makes an op belong to these stages alone.
void setStages(StagedOpInterface op, llvm::ArrayRef<int64_t> stages);
/// True when the op belongs to the stage at that position.
inline bool isInStage(StagedOpInterface op, int64_t stage) {
  const mlir::DenseI64ArrayAttr stages = op.getStagesAttr();
  return !stages || llvm::is_contained(stages.asArrayRef(), stage);
}

} // namespace nano::graph
