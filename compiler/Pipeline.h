// Every pass of the compiler, in order, with the reason for its place: see Pipeline.cpp.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace nano {

struct Stage;

/// What passes are told about the target and the run.
struct PipelineOptions {
  llvm::SmallVector<int64_t> worlds{1}; ///< the numbers of ranks that the plan must run on
  int64_t lanes = 16;                   ///< f32 lanes of the target's vectors
};

/// Adds the passes of all stages up to and including `last`.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options, const Stage &last);

/// Registers `nano-pipeline`, with the options `up-to=STAGE`, `worlds=…` and `lanes=…`, for
/// nano-opt.
void registerPipelines();

} // namespace nano
