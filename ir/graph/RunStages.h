// Stages of a run: steps with sizes of their own, and which programs run in which of them. (The
// compiler's own stages are parts of its pipeline, compiler/Stages.h.)
#pragma once

#include "ir/graph/Program.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace nano::graph {

/// Module attribute, where the run has several stages: an array of dictionaries of `name`; `until`,
/// the step that the stage ends before; `training`, its `nano.training`.
inline constexpr llvm::StringLiteral runStagesAttrName = "nano.run_stages";
/// Module attribute of a module that has the programs of one stage alone: its position.
inline constexpr llvm::StringLiteral runStageAttrName = "nano.run_stage";
/// Attribute of a function, program or check that belongs to some stages only: their positions,
/// `array<i64: 0, 2>`. Without it that belongs to all.
inline constexpr llvm::StringLiteral inStagesAttrName = "nano.in_stages";

struct RunStage {
  std::string name; ///< empty: the only one
  int64_t until = 0;
  mlir::DictionaryAttr training;
  mlir::ArrayAttr fp8Products; ///< `nano.fp8_products` of its programs; may be null
};

/// The module's stages; where it has one only, that has neither name nor end.
llvm::SmallVector<RunStage> runStagesOf(mlir::ModuleOp module);
void setRunStages(mlir::ModuleOp module, llvm::ArrayRef<RunStage> stages);

/// The name of an operation without that of the stage behind it, which one of some stages has.
std::string nameInStages(mlir::Operation *op, llvm::ArrayRef<RunStage> stages);
/// Makes an operation belong to these stages alone.
void setStages(mlir::Operation *op, llvm::ArrayRef<int64_t> stages);
/// True when the operation belongs to the stage at that position.
inline bool isInStage(mlir::Operation *op, int64_t stage) {
  auto stages = op->getAttrOfType<mlir::DenseI64ArrayAttr>(inStagesAttrName);
  return !stages || llvm::is_contained(stages.asArrayRef(), stage);
}

} // namespace nano::graph
