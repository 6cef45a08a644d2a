// Every pass of the compiler, in order, with the reason for its place: see Pipeline.cpp.
#pragma once

#include "compiler/PipelineOptions.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace nano {

struct Stage;

/// The options with what follows from `target`: `kMajor`, and on this machine's processor `lanes`.
PipelineOptions forTarget(PipelineOptions options);

/// The machine by whose rates times are estimated: `machine`, or the one of the target.
std::string machineOf(const PipelineOptions &options);

/// Adds the passes of all stages up to and including `last`.
void buildPipeline(mlir::OpPassManager &passes, const PipelineOptions &options, const Stage &last);

/// Registers `nano-pipeline`, with the options `up-to=STAGE`, `world`, `target`, `lanes` and
/// `k-major`, for nano-opt.
void registerPipelines();

} // namespace nano
