// What is checked of a request to compile, so that a mistake is told in one line.
#pragma once

#include "compiler/Pipeline.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// Every number of ranks must divide the sequences of the global batch, in each stage of the run.
/// Throws ModelError.
void checkWorlds(mlir::ModuleOp module, const std::vector<int64_t> &worlds);

/// A plan that no machine can hold is not written; its model's sizes are a mistake. Throws
/// ModelError.
void checkArena(mlir::ModuleOp module, const std::string &model);

/// --target. Throws ModelError.
void checkTarget(const std::string &target);

/// What times are estimated by is read, so that a mistake is told before anything is done. Throws
/// ModelError.
void checkSchedule(const PipelineOptions &pipeline, const std::vector<int64_t> &worlds);

} // namespace nano
