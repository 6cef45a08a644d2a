// Every pass of the compiler, in order, with the reason for its place: see Pipeline.cpp.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>

namespace nano {

struct Stage;

/// What passes are told about the target and the run.
struct PipelineOptions {
  llvm::SmallVector<int64_t> worlds{1}; ///< the numbers of ranks that the plan must run on
  std::string target = "cpu";           ///< "cpu" or "cuda"
  int64_t chunkBytes = 0; ///< largest tensor of the head in a chunk of rows; 0: by the plan's peak
  int64_t lanes = 16;     ///< CPU: f32 lanes of its vectors
  bool kMajor = false;    ///< its 8-bit products take only operands with the inner dimension last
  bool reportFp8 = false; ///< a remark on every 8-bit conversion that is a kernel of its own
};

/// Adds the passes of all stages up to and including `last`.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options, const Stage &last);

/// Registers `nano-pipeline`, with the options `up-to=STAGE`, `worlds=…` and `lanes=…`, for
/// nano-opt.
void registerPipelines();

} // namespace nano
