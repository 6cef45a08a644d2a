// --max-memory: how a step is cut, what is computed twice and what goes to the host's memory and
// back so that a rank holds no more.
//
// A choice is a number of tokens in a micro-batch, where the model says that it may be chosen,
// bytes that nano-recompute has to save, or may spend, and bytes that nano-offload has to take away
// as far as that can be hidden; chunks of the head follow by themselves (nano-chunk-rows). A trial
// takes a choice through all stages up to the plan of memory, without native code, and predicts its
// step with the simulator. Trials that do not depend on each other run side by side.
#pragma once

#include "compiler/StageRunner.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nano {

/// Bytes as people write them: "20GB", "512MB", "1.5GB", "12GiB" or a plain number. 0 where the
/// text is none of these, or no whole number of bytes between 1 and 2^60.
int64_t parseBytes(const std::string &text);

struct MemoryChoice {
  int64_t microBatch = 0;   ///< tokens; 0: as the model says
  int64_t saveBytes = 0;    ///< RecomputeOptions::saveBytes of the stage of the run that holds most
  int64_t spendBytes = 0;   ///< RecomputeOptions::spendBytes of that stage
  int64_t offloadBytes = 0; ///< OffloadOptions::bytes of that stage
  auto operator<=>(const MemoryChoice &other) const = default;
};

/// The sizes of a micro-batch that are worth a trial beside `tokens`, which stands first as 0: half
/// and a quarter of it, and what makes a step one micro-batch, as far as they are whole rows and
/// every number of ranks can share `globalBatch` in them.
std::vector<int64_t> microBatchesToTry(int64_t tokens, int64_t row, int64_t globalBatch,
                                       llvm::ArrayRef<int64_t> worlds);

struct MemoryRequest {
  std::string model;           ///< its name, for messages
  int64_t limit = 0;           ///< bytes a rank
  std::vector<int64_t> worlds; ///< numbers of ranks, for each of which it holds
  PipelineOptions pipeline;
  Watch watch = Watch::EveryPass;       ///< of the stages of a trial
  std::vector<int64_t> microBatches{0}; ///< tokens that may be tried; first 0
  /// The front end's program with so many tokens in a micro-batch.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(int64_t microBatch)> trace;
};

struct MemoryAnswer {
  MemoryChoice choice;
  /// RecomputeOptions::saveBytes by stage of the run: one that holds less need not save as much.
  std::vector<int64_t> saveBytes;
  std::vector<int64_t> spendBytes;   ///< likewise RecomputeOptions::spendBytes
  std::vector<int64_t> offloadBytes; ///< likewise OffloadOptions::bytes
  std::string frontier; ///< lines for people: memory against predicted time of what was tried
};

/// The fastest choice, as predicted, whose arena is within the limit on every number of ranks.
/// Throws ModelError, one line, where none is: what is held, by whom, and what to change; and
/// StageError as the stages do.
MemoryAnswer chooseMemory(const MemoryRequest &request);

} // namespace nano
