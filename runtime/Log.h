// The machine-readable log: one JSON object a line, each written whole and at once.
//
//   {"event":"run", "plan_hash", "model", "target", "world", "device", "versions", "seed",
//    "first_step", "steps", "seq_len", "global_batch", "vocab_size", "parameters",
//    "hyperparameters": {name: number or text}, "device_facts": {name: number or text}, "stages":
//    [{"stage", "until", "seq_len", "global_batch"}], "energy": {"counter", "devices"} or
//    {"missing"}}
//   {"event":"step", "step", "train_loss", "step_ms", "tokens", "lr", "total_tokens", "stage"}
//   {"event":"reports", "step", "reports": {name: number, or of a histogram {"edges", "counts",
//    "min", "max", "mean", "norm"}}}
//   {"event":"energy", "first_step", "step", "joules", "seconds"}
//   {"event":"val", "step", "val_loss", "val_tokens"}
//   {"event":"fp8", "step", "products": [{"product", "recipe", and of "input", "weight" and
//    "gradient" each {"amax", "scale", "saturated", "flushed"}, "error": {"forward",
//    "input_gradient", "weight_gradient"}}]}
//   {"event":"checkpoint", "step", "path"}
//   {"event":"start", "ms": {name: number}}
//   {"event":"end", "step", "reason"}
//
// Steps count from 1. "stages" and "stage" are there where the run has several; "seq_len" and
// "global_batch" are the first one's, "until" is the number of its last step. "tokens" are those of
// the step; the reason is "done" or the error's message.
// That of event "energy" says what the devices of all ranks used from the beginning of "first_step"
// to the end of "step", as runtime/Energy.h reads it; it comes a few steps later. "missing" says
// why there are no such lines. That of event "reports" says what the step's programs report,
// combined as docs/reports.md says; null stands for what is no number. Where updates report
// something it follows when the next step's micro-batches are done, so that nothing waits for it.
// An entry of event "fp8" is about the first micro-batch of the step on every rank, combined as
// Fp8Meter says. That of event "start" follows the steps: on rank 0, the parts of the time from the
// command to the end of the first step, "total" in all; then, as "device_…", parts of "device" and
// "first_step", and what programs took once when they ran for the first time.
#pragma once

#include "base/OutputFile.h"
#include "base/Status.h"
#include "runtime/Energy.h"
#include "runtime/Fp8Report.h"
#include "runtime/Phases.h"
#include "runtime/Reports.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// What the line of event "run" says beside what the plan says.
struct RunFacts {
  std::string planHash;
  std::string device;                                           ///< Device::describe()
  std::vector<std::pair<std::string, std::string>> deviceFacts; ///< Device::facts()
  int world = 1;
  uint64_t seed = 0;
  int64_t firstStep = 0; ///< steps done before this run
  int64_t steps = 0;     ///< steps done at its end
  EnergySource energy = {};
};

/// One optimizer step, for the log and for the eye.
struct StepFacts {
  int64_t step = 0; ///< counted from 1
  double loss = 0;  ///< mean per token over the global batch, before the update
  double milliseconds = 0;
  int64_t tokens = 0; ///< of this step
  double learningRate = 0;
  int64_t totalTokens = 0; ///< of all steps up to this one
  int64_t tokensLeft = 0;  ///< of the steps that are still to come
  std::string stage = {};  ///< of the run; empty where it has one only
};

/// A JSONL file, or nothing when it was made without a path.
class Log {
public:
  /// Without effect: every call succeeds.
  Log() = default;
  /// Creates or empties the file, or appends to it. A device, or a pipe that somebody reads, is
  /// written to as it is. BadInput when it cannot be opened.
  static Result<Log> open(const std::string &path, bool append);

  Status run(const plan::Plan &plan, const RunFacts &facts);
  Status step(const StepFacts &facts);
  Status reports(int64_t step, const std::vector<ReportFacts> &facts);
  Status energy(const EnergyFacts &facts);
  Status validation(int64_t step, double loss, uint64_t tokens);
  /// What FP8 products saw in all ranks' first micro-batches of a step, counted from 1.
  Status fp8(int64_t step, const std::vector<ScaledWeightFacts> &facts);
  /// What the parts of the start took.
  Status start(const Phases::Times &times);
  Status checkpoint(int64_t step, const std::string &path);
  Status end(int64_t step, const std::string &reason);

private:
  Status write(const std::string &line);

  std::optional<OutputFile> file;
};

} // namespace nano
