// A run as checked before its ranks start: options that fit together, files that open, places that
// can be written.
#pragma once

#include "base/Status.h"
#include "runtime/Log.h"
#include "runtime/Phases.h"
#include "runtime/Progress.h"
#include "runtime/Reports.h"
#include "runtime/Start.h"
#include "runtime/TensorBoard.h"
#include "runtime/Trainer.h"
#include "runtime/comm/Agreement.h"
#include "runtime/comm/Crew.h"
#include "runtime/data/BatchReader.h"
#include "runtime/files/FileWriter.h"
#include "runtime/files/RunFolder.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// What the ranks of one process share. Only rank 0 uses the log and the console.
struct Job {
  const plan::Plan &plan;
  const std::string &planHash;
  const TrainOptions &options;
  const MakeDevice &makeDevice;
  Console &console;
  Start start;
  std::optional<BatchReader> reader; ///< at the first batch; each rank copies it
  std::shared_ptr<const TokenShards> trainShards, valShards;
  std::vector<Piece> valSequences;
  uint64_t valHash = 0;            ///< of their tokens; 0 for one rank
  std::string shardsHash;          ///< of the training shards (fingerprint); empty without any
  std::string initHash;            ///< Start::initHash, where it is compared or saved
  RunIdentity run;                 ///< kept in checkpoints
  std::optional<RunFolder> folder; ///< --save, in the process of rank 0
  Log log;
  TensorBoard tensorBoard;
  ShownReports shown;
  std::vector<AtomicFile> openStreams;   ///< devices and pipes that are written to at the end
  std::vector<std::string> besideExport; ///< files that go into --export-hf
  Phases startTimes; ///< of the process; from where the ranks start on, of rank 0
  int world = 1;
  int localRanks = 1; ///< on this machine
  int64_t firstStep = 0;
  int64_t steps = 0;
  std::atomic<int64_t> done = 0; ///< steps that rank 0 has finished

  Job(const plan::Plan &plan, const std::string &planHash, const TrainOptions &options,
      const MakeDevice &makeDevice, Console &console)
      : plan(plan), planHash(planHash), options(options), makeDevice(makeDevice), console(console),
        startTimes(options.begin) {}

  /// BadInput: the option or the file, what is wrong with it and what to do.
  Status prepare(const Crew &crew);
  /// The number of steps after which no gradient is kept for the next: checkpoints, which hold
  /// none, are made after multiples of it.
  int64_t round() const { return std::max<int64_t>(1, int64_t(plan.training.phases.size())); }
  /// How the batch of a step is cut. BadInput where the model's longest document is below 1 there.
  Result<BatchShape> batchShape(int64_t step) const;
  /// What must be the same on all ranks, so that they make the same calls.
  Facts facts() const;

private:
  Status checkOptions() const;
  Status openFolder();
  Status openStart();
  Status openTraining();
  /// Where the first batch begins, once the training shards are open; says what changed where the
  /// data begin again.
  Result<DataPosition> firstPosition() const;
  Status openValidation();
  Status openExport();
  Status openOutputs();
};

} // namespace nano
