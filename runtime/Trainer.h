// The training loop: ranks as threads of this process, or of one process each, with their own
// devices, over the same shards.
//
// A step s of a rank: write the scalars of s; for each micro-batch m, write sequence m·world + rank
// of the batch and run the phase's `first` (m = 0), `next`, or `last` (the last one); make the
// losses known to all ranks; run `update`, where it is not part of `last`.
// A loss is looked at before an update apart, so that a step whose loss is not finite leaves the
// states of the last good one. The mean loss is summed in f64 in the order of the sequences, so it
// depends neither on timing nor on which rank had which sequence. FP8 products are measured on rank
// 0's first micro-batch of a step, before it is trained on; a run is the same with it and without.
// When one rank fails, all end, with the first one's error.
#pragma once

#include "base/Status.h"
#include "runtime/Progress.h"
#include "runtime/Start.h"
#include "runtime/comm/Crew.h"
#include "runtime/plan/Plan.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// What the user asks of a run; empty text means that the option was not given.
struct TrainOptions {
  /// Where the start begins, whose parts the log names.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::string train, val;       ///< patterns of shards
  int world = 1;                ///< ranks, where train() is given no crew
  std::optional<int64_t> steps; ///< optimizer steps at the end; default: the plan's numIterations
  StartOptions start;
  bool dataFromStart = false; ///< with --resume: the data begin again, whatever they are
  std::string save;
  bool setAside = false; ///< move what other runs have saved there into a folder of its own
  int64_t saveEvery = 0; ///< 0: at the end only
  int64_t valEvery = 0;  ///< 0: at the end only
  int64_t valTokens = 10485760;
  std::string log;
  std::string tensorBoard;       ///< folder for an event file
  std::vector<std::string> show; ///< reports on the progress line, see ShownReports
  std::string dumpParams;
  std::string exportFolder; ///< a HuggingFace folder to make after the last step
  std::string tokenizer;    ///< file or folder whose tokenizer goes into it; default: --init's
  std::string times;        ///< file for the times of commands
  std::string profile;      ///< file for the trace of the last step
  bool joules = false;      ///< the trace has joules of commands, which are measured at the end
  std::string tuneFile;     ///< as DeviceOptions
  bool tune = false, checkCommands = false; ///< as DeviceOptions::tune, waitForEach
  bool fp8Report = false; ///< measure FP8 products at the first step, the last, and with validation
  std::string calibrate;  ///< file for the scales that FP8 products need, measured at every step
  int threads = 0;        ///< as DeviceOptions
  bool shareGpus = false; ///< as DeviceOptions
};

/// Trains, validates and saves as the options say; everything that they name is checked before the
/// first step. `planHash`: plan::planHash(plan). BadInput: bad options, files or shards; Failed:
/// the run failed, a loss was not finite (nothing of that step is kept; the state before it is
/// saved where there is `save`, and the message names the first buffer with such a value), or
/// SIGINT or SIGTERM came (the step was finished and, with `save`, saved; the message says so).
/// `crew`: the ranks; null: `world` threads of this process. Only rank 0 writes the log, the files
/// that options name, and to the console; before the ranks start every process writes to the
/// console that it is given.
Status train(const plan::Plan &plan, const std::string &planHash, const TrainOptions &options,
             const MakeDevice &makeDevice, Console &console, Crew *crew = nullptr);

} // namespace nano
