// What an optimizer step moves, before and after fusion.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>

namespace nano {

/// Kernels, calls and bytes of an optimizer step on one rank.
struct StepTraffic {
  int64_t kernels = 0, bytes = 0, floor = 0;
};

/// A number of the module's training: "global_batch", "seq_len", … in tokens.
int64_t trainingSize(mlir::ModuleOp module, llvm::StringRef name);

/// Of the step that each of `world` ranks runs: see plan::StepPrograms.
StepTraffic measureStep(mlir::ModuleOp module, int64_t world);

} // namespace nano
