// One rank's part of a training run.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/Energy.h"
#include "runtime/Fp8Report.h"
#include "runtime/Job.h"
#include "runtime/Progress.h"
#include "runtime/Reports.h"
#include "runtime/StateRuns.h"
#include "runtime/comm/Communicator.h"
#include "runtime/data/Loader.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

/// Runs in a thread of its own. Rank.cpp has the steps, RankFiles.cpp what is written between and
/// after them, RankFailures.cpp what happens when a run cannot go on.
class Rank {
public:
  Rank(Job &job, Communicator &communicator)
      : job(job), plan(job.plan), stage(&plan::stageAt(job.plan, job.firstStep)),
        communicator(communicator), rank(communicator.rank()), world(communicator.world()),
        meter(job.plan), reports(*stage), progress(job.console, job.steps) {}

  /// The run from the first step to the last, with what comes between and after.
  Status run();

private:
  /// Makes the device and writes the states.
  Status prepare();
  /// Lets the device get ready for the programs of the stages that begin later in the run, and of
  /// events to come, before the first step.
  Status prepareAhead();
  /// Counts a part of the start, on rank 0.
  void endPart(const char *name);
  /// Announces the run to the log and the eye.
  Status announce();
  /// What the steps of a stage are, for the eye; how many of them this run has.
  std::string describeStage(const plan::Training &stage, int64_t steps) const;
  /// Steps, saves and validations, to the end or to a signal.
  Status loop();
  /// Steps of that stage follow.
  Status enterStage(const plan::Training &next);
  /// Optimizer step `step` (0-based).
  Status trainStep(int64_t step);
  /// Takes the batch of step `step`.
  Status takeBatch(int64_t step);
  /// Gives the device sequence `sequence` of the batch of step `step`, one of this rank's.
  Status writeBatch(int64_t step, size_t sequence);
  /// The losses of this rank's sequences of the batch, at their places among all.
  Status microBatches(int64_t step, std::vector<float> &losses);
  /// Runs a program of step `step`, and lets the other ranks know.
  Status runProgram(int64_t step, const std::string &program);
  /// Combines what the micro-batches of step `step` report, where all ranks do.
  Status combineReports(int64_t step);
  /// Reads what the update reports, to be there after the next wait.
  Status readStepReports();
  /// On rank 0 tells what the last step reported that has not been told, after a wait; without
  /// `updated` only what its micro-batches did.
  Status tellReports(bool updated = true);
  /// On rank 0 tells the joules of steps, where there are any to be told.
  Status tellEnergy(const std::optional<EnergyFacts> &facts);
  /// After the last step: waits for the counters, and tells what is left and what the run used.
  Status finishEnergy();
  /// Measures FP8 products on the micro-batch at hand, where step `step` is one to be measured.
  Status measure(int64_t step);
  /// After `steps` optimizer steps. True when a signal cut it short.
  Result<bool> validate(int64_t steps);
  /// The losses of this rank's validation sequences, at their places among all; a signal leaves the
  /// rest out.
  Status validationLosses(int64_t steps, std::vector<float> &losses);

  /// Saves a checkpoint after `steps` optimizer steps; all ranks do. `from`: where its data go on;
  /// null: behind the batch that was taken last.
  Status save(int64_t steps, const DataPosition *from = nullptr);
  /// On rank 0, publishes the file that an option names, where it was given, with what `fill`
  /// writes.
  Status writeFile(const char *option, const std::string &path,
                   const std::function<Status(FileWriter &)> &fill);
  /// The same with a text.
  Status writeText(const char *option, const std::string &path,
                   const std::function<Result<std::string>()> &make);
  Status logStart();
  Status writeTimes();
  Status writeTrace();
  Status writeScales();
  Status dumpParameters();
  Status exportParameters();

  /// The error that ends a run after a signal, with a checkpoint where one was asked for.
  Status interrupted(int64_t steps);
  /// The error for a loss that is not finite, that of sequence `sequence` of step `step` (0-based):
  /// saves the state before the step, and names the index out of range that made it so, or looks
  /// for the first buffer with such a value.
  Error notFinite(int64_t step, size_t sequence, float loss);
  /// Saves the state before step `step`, whose micro-batches have run; what became of it.
  std::string saveBefore(int64_t step);
  /// Runs the step's micro-batches again up to that of `sequence`; where the rank that has the
  /// sequence first sees a number that is not finite.
  std::string searchCause(int64_t step, size_t sequence);

  /// Sums `values` over ranks where only one rank has a value other than zero: then the sum is
  /// exact.
  Status share(std::vector<float> &values, const char *what) {
    return communicator.allReduce(values.data(), int64_t(values.size()), plan::DType::F32,
                                  Combine::Sum, plan::Ranks::All, what);
  }
  /// Makes room for what the programs of the sequences behind `losses` check of indices.
  void expectChecks(const plan::IndexChecks &checks, const std::vector<float> &losses);
  /// Reads what the program that ran last, of that sequence, has checked, as `readLater` does.
  Status readChecks(const plan::IndexChecks &checks, size_t sequence);
  /// After the wait: the loss of a sequence with an index out of range becomes a NaN, by which all
  /// ranks know, and `outOfRange` says which index.
  void applyChecks(const plan::IndexChecks &checks, std::vector<float> &losses);
  /// What a rank says of an index out of range, the same on all ranks; empty where none has one.
  /// Called by all ranks or none.
  std::string findOutOfRange(const plan::IndexChecks &checks);

  /// Whether any rank has received a signal; with it the ranks tell their joules. BadInput, the
  /// same on all, when the ranks have not read the same tokens for the batch that was taken last.
  Result<bool> anyInterrupted();
  /// The error of ranks whose batches differ.
  Error differentBatches();
  bool due(int64_t every, int64_t steps) const {
    return steps == job.steps || (every > 0 && steps % every == 0);
  }
  const plan::StepPrograms &phase(int64_t step) const {
    return stage->phases[size_t(step) % stage->phases.size()];
  }

  Job &job;
  const plan::Plan &plan;
  const plan::Training *stage; ///< of the step at hand; of a validation that of the next step
  Communicator &communicator;
  const int rank, world;
  Fp8Meter meter;
  ReportReader reports;
  /// The step, counted from 1, whose reports are still to be told, and those of its micro-batches.
  std::optional<std::pair<int64_t, std::vector<ReportFacts>>> untold;
  std::unique_ptr<Device> device;
  std::optional<RankEnergy> energy; ///< once there is a device, which it reads from
  EnergyFacts used;                 ///< of all steps so far whose joules were told
  Progress progress;
  std::unique_ptr<Loader> loader;             ///< of a run with steps
  std::shared_ptr<const LoadedBatch> current; ///< the batch that was taken last
  std::vector<int32_t> checked;               ///< of every sequence, what its program checked
  std::string outOfRange;                     ///< this rank's first index that is; empty: none
  int64_t savedStep = -1;
  DataPosition batchStart;        ///< where the reader was before the batch of the current step
  uint64_t batchHash = 0;         ///< of the batch's data; 0 for one rank
  std::vector<CommandSpan> spans; ///< of the last step, for --profile
  double meeting = 0;             ///< when the ranks last met in it, by the steady clock
};

} // namespace nano
