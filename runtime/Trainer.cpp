// The training loop.
#include "runtime/Trainer.h"

#include "runtime/Fp8Report.h"
#include "runtime/Interrupt.h"
#include "runtime/Log.h"
#include "runtime/NonFinite.h"
#include "runtime/Times.h"
#include "runtime/Trace.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/data/TokenShards.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/FileWriter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace nano {

namespace {

/// How long a rank waits for the others before the run counts as hung; one rank may be writing a
/// checkpoint.
constexpr std::chrono::minutes rankTimeout(30);

/// What was checked before the ranks start, and what they share. Only rank 0 uses the log and the
/// console.
struct Job {
  const plan::Plan &plan;
  const std::string &planHash;
  const TrainOptions &options;
  const MakeDevice &makeDevice;
  Console &console;
  Start start;
  std::optional<BatchReader> reader; ///< at the first batch; each rank copies it
  std::shared_ptr<const TokenShards> trainShards, valShards;
  std::vector<std::pair<size_t, uint64_t>> valSequences;
  Log log;
  int64_t firstStep = 0;
  int64_t steps = 0;
  std::atomic<int64_t> done = 0; ///< steps that rank 0 has finished

  Job(const plan::Plan &plan, const std::string &planHash, const TrainOptions &options,
      const MakeDevice &makeDevice, Console &console)
      : plan(plan), planHash(planHash), options(options), makeDevice(makeDevice), console(console) {
  }

  Status prepare();
  Status openTraining();
  Status openValidation();
  Status openOutputs();
};

Status Job::prepare() {
  const plan::Training &training = plan.training;
  if (std::find(plan.worlds.begin(), plan.worlds.end(), options.world) == plan.worlds.end())
    return badInput(fmt::format(
        "--gpus {}: the plan was compiled for {} ranks; choose one of them or compile with "
        "--world",
        options.world, fmt::join(plan.worlds, ", ")));
  if (options.saveEvery > 0 && options.save.empty())
    return badInput("--save-every: needs --save DIR");
  if (options.fp8Report)
    if (Status status = Fp8Meter::check(plan, "--fp8-report"); !status)
      return status;
  if (!options.calibrate.empty())
    if (Status status = Fp8Meter::check(plan, "--calibrate"); !status)
      return status;
  if (options.valEvery > 0 && options.val.empty())
    return badInput("--val-every: needs --val 'GLOB'");

  Result<Start> opened = Start::open(plan, planHash, options.start,
                                     [&](const std::string &line) { console.say(line); });
  if (!opened)
    return opened.error();
  start = std::move(*opened);
  firstStep = start.manifest() ? start.manifest()->step : 0;
  done = firstStep;
  steps = options.steps.value_or(training.numIterations);
  if (firstStep > 0)
    console.say(fmt::format("resuming {} after step {}", options.start.resume, firstStep));
  if (start.manifest() && start.manifest()->world != options.world)
    console.say(fmt::format("the checkpoint was made with --gpus {}, this is --gpus {}: losses "
                            "agree, but not to the bit",
                            start.manifest()->world, options.world));
  if (steps <= firstStep && firstStep > 0)
    console.say(
        fmt::format("nothing to train: {} steps are done, {} are asked for", firstStep, steps));
  if (steps > training.numIterations && options.steps)
    console.say(
        fmt::format("--steps {}: the model's schedules end at step {}; they are followed beyond",
                    steps, training.numIterations));
  steps = std::max(steps, firstStep);
  if (steps == firstStep && (options.fp8Report || !options.calibrate.empty()))
    return badInput(fmt::format("{}: there is no step to measure; ask for more --steps",
                                options.fp8Report ? "--fp8-report" : "--calibrate"));

  if (steps > firstStep)
    if (Status status = openTraining(); !status)
      return status;
  if (!options.val.empty())
    if (Status status = openValidation(); !status)
      return status;
  return openOutputs();
}

Status Job::openTraining() {
  const plan::Training &training = plan.training;
  if (training.first.empty())
    return badInput(
        "the plan has no training programs; compile a model with a loss and optimizers");
  if (options.train.empty())
    return badInput("--train is missing: give the pattern of the token shards to train on");
  Result<std::shared_ptr<const TokenShards>> shards =
      TokenShards::open(options.train, training.vocabSize, "--train");
  if (!shards)
    return shards.error();
  trainShards = *shards;

  DataPosition position;
  if (const Manifest *manifest = start.manifest()) {
    position = {manifest->shard, manifest->position, manifest->epoch};
    if (!manifest->shardFile.empty() && (position.shard >= trainShards->count() ||
                                         trainShards->name(position.shard) != manifest->shardFile))
      return badInput(fmt::format(
          "--train '{}': the checkpoint goes on in shard {} with the name {}, which is not "
          "there; give the shards that it was trained on",
          options.train, position.shard, manifest->shardFile));
  }
  Result<BatchReader> created = BatchReader::create(trainShards, uint64_t(training.globalBatch),
                                                    uint64_t(training.seqLen), "--train", position);
  if (!created)
    return created.error();
  reader = std::move(*created);
  return ok();
}

Status Job::openValidation() {
  const plan::Training &training = plan.training;
  if (training.validate.empty())
    return badInput("--val: the plan has no validation program");
  Result<std::shared_ptr<const TokenShards>> shards =
      TokenShards::open(options.val, training.vocabSize, "--val");
  if (!shards)
    return shards.error();
  valShards = *shards;
  auto sequence = uint64_t(training.valSeqLen), wanted = uint64_t(options.valTokens);
  if (wanted < sequence)
    return badInput(fmt::format("--val-tokens {}: less than one validation sequence of {} tokens",
                                wanted, sequence));
  valSequences = validationSequences(*valShards, sequence, wanted);
  if (valSequences.empty())
    return badInput(
        fmt::format("--val '{}': fewer tokens than one validation sequence: no shard has {}",
                    options.val, sequence + 1));
  if (uint64_t used = valSequences.size() * sequence; used != wanted)
    console.say(fmt::format(
        "validation: {} sequences of {} = {} tokens ({} were asked for, the shards hold {})",
        valSequences.size(), sequence, used, wanted, valShards->totalTokens()));
  return ok();
}

Status Job::openOutputs() {
  if (!options.save.empty())
    if (Status status = makeWritableDirectory(options.save); !status)
      return badInput("--save " + status.error().message);
  // Created and dropped at once: a place that cannot be written shows before hours of training,
  // not after.
  for (auto [name, path] :
       {std::pair("--dump-params", &options.dumpParams), std::pair("--times", &options.times),
        std::pair("--calibrate", &options.calibrate), std::pair("--profile", &options.profile)})
    if (!path->empty())
      if (Result<AtomicFile> probe = AtomicFile::create(*path); !probe)
        return badInput(fmt::format("{} {}", name, probe.error().message));
  if (!options.log.empty()) {
    Result<Log> opened = Log::open(options.log, /*append=*/start.manifest() != nullptr);
    if (!opened)
      return opened.error();
    log = std::move(*opened);
  }
  return ok();
}

/// One rank's part of the run, in its own thread.
class Rank {
public:
  Rank(Job &job, Communicator &communicator)
      : job(job), plan(job.plan), training(job.plan.training), communicator(communicator),
        rank(communicator.rank()), world(communicator.world()), meter(job.plan), reader(job.reader),
        progress(job.console, job.steps) {}

  /// The run from the first step to the last, with what comes between and after.
  Status run();

private:
  /// Optimizer step `step` (0-based).
  Status trainStep(int64_t step);
  /// Gives the device inputs and targets of sequence `sequence` of the batch.
  Status writeBatch(size_t sequence);
  /// The losses of this rank's sequences of the batch, at their places among all.
  Status microBatches(int64_t step, std::vector<float> &losses);
  /// After `steps` optimizer steps. True when a signal cut it short.
  Result<bool> validate(int64_t steps);
  /// Rank 0 saves a checkpoint after `steps` optimizer steps. `from`: where its data go on; null:
  /// behind the batch that was taken last.
  Status save(int64_t steps, const DataPosition *from = nullptr);
  Status dumpParameters();
  Status writeTimes();
  /// Measures FP8 products on the micro-batch at hand, where step `step` is one to be measured.
  Status measure(int64_t step);
  Status writeScales();
  /// Announces the run to the log and the eye.
  Status announce();
  /// The error that ends a run after a signal, with a checkpoint where one was asked for.
  Status interrupted(int64_t steps);

  /// Sums `values` over ranks where only one rank has a value other than zero: then the sum is
  /// exact.
  Status share(std::vector<float> &values, const char *what) {
    return communicator.allReduce(values.data(), int64_t(values.size()), plan::DType::F32, what);
  }
  /// Whether any rank has received a signal.
  Result<bool> anyInterrupted() {
    std::vector<float> flag = {InterruptGuard::signal() != 0 ? 1.0F : 0.0F};
    if (Status status = share(flag, "interrupt flag"); !status)
      return status.error();
    return flag[0] > 0;
  }
  bool due(int64_t every, int64_t steps) const {
    return steps == job.steps || (every > 0 && steps % every == 0);
  }

  /// The error for a loss that is not finite, that of sequence `sequence` of step `step` (0-based):
  /// saves the state before the step, and looks for the first buffer with such a value.
  Error notFinite(int64_t step, size_t sequence, float loss);
  Status writeTrace();

  Job &job;
  const plan::Plan &plan;
  const plan::Training &training;
  Communicator &communicator;
  const int rank, world;
  Fp8Meter meter;
  std::unique_ptr<Device> device;
  std::optional<BatchReader> reader;
  Progress progress;
  std::vector<int32_t> tokens, targets;
  int64_t savedStep = -1;
  DataPosition batchStart;        ///< where the batch of the current step begins
  std::vector<CommandSpan> spans; ///< of the last step, for --profile
};

Status Rank::run() {
  DeviceOptions deviceOptions;
  deviceOptions.threads = job.options.threads;
  deviceOptions.profile = rank == 0 && !job.options.times.empty();
  deviceOptions.trace = rank == 0 && !job.options.profile.empty();
  deviceOptions.waitForEach = job.options.checkCommands;
  deviceOptions.tune = job.options.tune;
  deviceOptions.tuneFile = job.options.tuneFile;
  if (rank == 0)
    deviceOptions.report = [this](const std::string &line) { job.console.say(line); };
  Result<std::unique_ptr<Device>> made = job.makeDevice(plan, communicator, deviceOptions);
  if (!made)
    return made.error();
  device = std::move(*made);
  if (Status status = job.start.write(plan, *device, threadsPerRank(job.options.threads, world));
      !status)
    return status;
  // What reading the plan, making the device and initial values took for a moment goes back to the
  // system before the step touches all of the arena.
  malloc_trim(0);
  if (Status status = announce(); !status)
    return status;

  int64_t steps = job.firstStep;
  bool resumedAtEnd = job.start.manifest() && steps == job.steps;
  do {
    bool last = steps + 1 >= job.steps;
    if (steps < job.steps) {
      if (Status status = trainStep(steps); !status)
        return status;
      ++steps;
      Result<bool> stop = anyInterrupted();
      if (!stop)
        return stop.error();
      if (*stop && !last)
        return interrupted(steps);
    }
    if (!job.options.save.empty() && due(job.options.saveEvery, steps) && !resumedAtEnd)
      if (Status status = save(steps); !status)
        return status;
    if (!job.valSequences.empty() && due(job.options.valEvery, steps)) {
      Result<bool> cut = validate(steps);
      if (!cut)
        return cut.error();
      if (*cut)
        return interrupted(steps);
    }
  } while (steps < job.steps);
  if (Status status = device->wait(); !status)
    return status;
  if (Status status = writeTimes(); !status)
    return status;
  if (Status status = writeTrace(); !status)
    return status;
  if (Status status = writeScales(); !status)
    return status;
  return dumpParameters();
}

Status Rank::announce() {
  if (rank != 0)
    return ok();
  RunFacts facts;
  facts.planHash = job.planHash;
  facts.device = device->describe();
  facts.deviceFacts = device->facts();
  facts.world = world;
  facts.seed = job.start.seed();
  facts.firstStep = job.firstStep;
  facts.steps = job.steps;
  job.console.say(fmt::format("{} on {}", plan.model, facts.device));
  auto counted = [](int64_t count, const char *one, const char *many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
  };
  if (int64_t steps = job.steps - job.firstStep; steps > 0)
    job.console.say(fmt::format(
        "{} of {} tokens: {} with {} of {} tokens", counted(steps, "step", "steps"),
        training.globalBatch, counted(world, "rank", "ranks"),
        counted(training.globalBatch / (training.seqLen * world), "micro-batch", "micro-batches"),
        training.seqLen));
  return job.log.run(plan, facts);
}

Status Rank::writeBatch(size_t sequence) {
  tokens.resize(size_t(training.seqLen));
  targets.resize(size_t(training.seqLen));
  uint64_t bytes = tokens.size() * sizeof(int32_t);
  if (Status status = reader->read(sequence, tokens.data(), targets.data()); !status)
    return status;
  if (Status status = device->write(training.tokensBuffer, 0, tokens.data(), bytes); !status)
    return status;
  return device->write(training.targetsBuffer, 0, targets.data(), bytes);
}

Status Rank::microBatches(int64_t step, std::vector<float> &losses) {
  for (size_t sequence = size_t(rank); sequence < losses.size(); sequence += size_t(world)) {
    if (Status status = writeBatch(sequence); !status)
      return status;
    bool isFirst = sequence < size_t(world);
    if (isFirst)
      if (Status status = measure(step); !status)
        return status;
    if (Status status = device->run(isFirst ? training.first : training.next); !status)
      return status;
    if (Status status = device->readLater(training.lossBuffer, 0, &losses[sequence], sizeof(float));
        !status)
      return status;
  }
  return device->wait();
}

Status Rank::trainStep(int64_t step) {
  auto begin = std::chrono::steady_clock::now();
  batchStart = reader->position();
  if (reader->next() && rank == 0)
    job.console.say(
        fmt::format("step {}: past the last shard, reading starts again at the first", step + 1));
  if (Status status = writeScalars(plan, step, world, *device); !status)
    return status;
  std::vector<float> losses(size_t(training.globalBatch / training.seqLen));
  auto inStep = [&](const Status &status) {
    return Error{status.error().kind, fmt::format("step {}: {}", step + 1, status.error().message)};
  };
  if (Status status = microBatches(step, losses); !status)
    return inStep(status);
  if (Status status = share(losses, "losses of the micro-batches"); !status)
    return status;

  double sum = 0;
  for (size_t sequence = 0; sequence < losses.size(); ++sequence) {
    if (!std::isfinite(losses[sequence]))
      return notFinite(step, sequence, losses[sequence]);
    sum += losses[sequence];
  }
  if (Status status = device->run(training.update); !status)
    return inStep(status);
  if (rank != 0)
    return ok();
  if (std::vector<CommandSpan> taken = device->takeSpans(); !taken.empty())
    spans = std::move(taken);

  StepFacts facts;
  facts.step = step + 1;
  facts.loss =
      sum / double(training.trainLossIsSum ? training.globalBatch : int64_t(losses.size()));
  facts.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  facts.tokens = training.globalBatch;
  facts.learningRate = logScalar(plan, step, world);
  progress.step(facts);
  job.done = step + 1;
  return job.log.step(facts);
}

Result<bool> Rank::validate(int64_t steps) {
  if (Status status = writeScalars(plan, steps, world, *device); !status)
    return status.error();
  tokens.resize(size_t(training.valSeqLen));
  targets.resize(size_t(training.valSeqLen));
  uint64_t bytes = tokens.size() * sizeof(int32_t);
  std::vector<float> losses(job.valSequences.size());
  for (size_t i = size_t(rank); i < losses.size() && InterruptGuard::signal() == 0;
       i += size_t(world)) {
    auto [shard, position] = job.valSequences[i];
    if (Status status = job.valShards->read(shard, position, uint64_t(training.valSeqLen),
                                            tokens.data(), targets.data());
        !status)
      return status.error();
    if (Status status = device->write(training.valTokensBuffer, 0, tokens.data(), bytes); !status)
      return status.error();
    if (Status status = device->write(training.valTargetsBuffer, 0, targets.data(), bytes); !status)
      return status.error();
    if (Status status = device->run(training.validate); !status)
      return status.error();
    if (Status status = device->readLater(training.valLossBuffer, 0, &losses[i], sizeof(float));
        !status)
      return status.error();
  }
  if (Status status = device->wait(); !status)
    return status.error();
  Result<bool> cut = anyInterrupted();
  if (!cut || *cut)
    return cut;
  if (Status status = share(losses, "losses of the validation"); !status)
    return status.error();
  double sum = 0;
  for (float loss : losses)
    sum += loss;
  uint64_t count = losses.size() * uint64_t(training.valSeqLen);
  double mean = sum / double(training.valLossIsSum ? count : losses.size());
  if (!std::isfinite(mean))
    return failed(fmt::format("the validation loss is {} after step {}", mean, steps));
  if (rank != 0)
    return false;
  job.console.say(fmt::format("step {}/{}  validation loss {:.4f} over {} tokens", steps, job.steps,
                              mean, count));
  if (Status status = job.log.validation(steps, mean, count); !status)
    return status.error();
  return false;
}

Status Rank::save(int64_t steps, const DataPosition *from) {
  if (rank == 0) {
    Manifest manifest = manifestOf(plan, job.planHash);
    manifest.step = steps;
    manifest.seed = job.start.seed();
    manifest.world = world;
    if (reader) {
      const DataPosition &position = from ? *from : reader->position();
      manifest.shard = position.shard;
      manifest.shardFile = job.trainShards->name(position.shard);
      manifest.position = position.position;
      manifest.epoch = position.epoch;
    }
    Result<std::string> path = saveCheckpoint(job.options.save, manifest, plan, readerOf(*device));
    if (!path)
      return Error{
          path.error().kind,
          fmt::format("saving after step {} failed: {}; earlier checkpoints are as they were",
                      steps, path.error().message)};
    job.console.say(fmt::format("saved {}", *path));
    if (Status status = job.log.checkpoint(steps, *path); !status)
      return status;
  }
  savedStep = steps;
  return communicator.barrier("checkpoint");
}

Status Rank::interrupted(int64_t steps) {
  if (!job.options.save.empty() && savedStep != steps)
    if (Status status = save(steps); !status)
      return status;
  std::string fate = "nothing saved, there was no --save";
  if (savedStep == steps)
    fate = fmt::format("saved {}/{}", job.options.save, checkpointName(steps));
  return failed(fmt::format("interrupted by {} after step {} of {}; {}",
                            InterruptGuard::signalName(), steps, job.steps, fate));
}

Error Rank::notFinite(int64_t step, size_t sequence, float loss) {
  const size_t owner = sequence % size_t(world);
  std::string fate = "nothing saved, there was no --save";
  if (!job.options.save.empty() && savedStep == step) {
    fate = fmt::format("the state before it is in {}/{}", job.options.save, checkpointName(step));
  } else if (!job.options.save.empty()) {
    Status saved = save(step, &batchStart);
    fate = saved ? fmt::format("saved the state before it, {}/{}", job.options.save,
                               checkpointName(step))
                 : saved.error().message;
  }
  // Every rank runs what it ran before, since programs may hold collectives; the owner of the
  // sequence looks on.
  std::string place = "run again with checks, it appeared in no buffer";
  const size_t rounds = sequence / size_t(world) + 1;
  for (size_t i = size_t(rank); i < rounds * size_t(world); i += size_t(world)) {
    if (Status status = writeBatch(i); !status)
      return status.error();
    Result<std::optional<NonFinite>> found =
        runChecked(plan, *device, i < size_t(world) ? training.first : training.next);
    if (!found) {
      place = "running again with checks failed: " + found.error().message;
      break;
    }
    if (*found) {
      place = "first in " + toString(plan, **found);
      break;
    }
  }
  if (size_t(rank) != owner)
    (void)communicator.barrier("search for the loss's cause"); // ended by the owner's error
  return failed(
      fmt::format("the loss is {} at step {} (sequence {} of the batch, rank {}), stopped "
                  "before the update; {}; {}",
                  loss, step + 1, sequence, owner, place, fate));
}

Status Rank::writeTrace() {
  if (rank != 0 || job.options.profile.empty())
    return ok();
  Result<AtomicFile> file = AtomicFile::create(job.options.profile);
  if (!file)
    return badInput("--profile " + file.error().message);
  if (Status status = file->writer().append(
          traceText(plan, job.planHash, device->describe(), job.steps, spans, device->rates()));
      !status)
    return status;
  if (Status status = file->publish(); !status)
    return status;
  job.console.say(fmt::format("wrote {}", job.options.profile));
  return ok();
}

Status Rank::measure(int64_t step) {
  const TrainOptions &options = job.options;
  const bool shows =
      options.fp8Report && (step == job.firstStep || due(options.valEvery, step + 1));
  if (rank != 0 || (!shows && options.calibrate.empty()))
    return ok();
  if (Status status = meter.measure(*device); !status || !shows)
    return status;
  if (step + 1 == job.steps)
    job.console.say(
        fmt::format("FP8 in the first micro-batch of step {}:\n{}", step + 1, meter.table()));
  return job.log.fp8(step + 1, meter.last());
}

Status Rank::writeScales() {
  if (rank != 0 || job.options.calibrate.empty())
    return ok();
  Result<std::string> text = meter.scales();
  if (!text)
    return text.error();
  Result<AtomicFile> file = AtomicFile::create(job.options.calibrate);
  if (!file)
    return badInput("--calibrate " + file.error().message);
  if (Status status = file->writer().append(*text); !status)
    return status;
  if (Status status = file->publish(); !status)
    return status;
  job.console.say(fmt::format("wrote {}", job.options.calibrate));
  return ok();
}

Status Rank::writeTimes() {
  if (rank != 0 || job.options.times.empty())
    return ok();
  Result<AtomicFile> file = AtomicFile::create(job.options.times);
  if (!file)
    return badInput("--times " + file.error().message);
  if (Status status = file->writer().append(timesText(plan, job.planHash, device->describe(),
                                                      job.steps - job.firstStep, device->times()));
      !status)
    return status;
  if (Status status = file->publish(); !status)
    return status;
  job.console.say(fmt::format("wrote {}", job.options.times));
  return ok();
}

Status Rank::dumpParameters() {
  if (rank != 0 || job.options.dumpParams.empty())
    return ok();
  Result<AtomicFile> file = AtomicFile::create(job.options.dumpParams);
  if (!file)
    return badInput("--dump-params " + file.error().message);
  std::vector<const plan::State *> parameters = statesOf(plan, plan::State::Role::Parameter);
  if (Status status =
          storeStates(parameters, readerOf(*device), /*requireFinite=*/false, file->writer());
      !status)
    return status;
  if (Status status = file->publish(); !status)
    return status;
  job.console.say(fmt::format("wrote {}", job.options.dumpParams));
  return ok();
}

/// The first error among ranks; the others fail because of it.
class FirstError {
public:
  void set(const Error &error) {
    std::lock_guard guard(mutex);
    if (!first)
      first = error;
  }
  Status status() const { return first ? Status(*first) : ok(); }

private:
  std::mutex mutex;
  std::optional<Error> first;
};

} // namespace

Status train(const plan::Plan &plan, const std::string &planHash, const TrainOptions &options,
             const MakeDevice &makeDevice, Console &console) {
  InterruptGuard guard;
  Job job(plan, planHash, options, makeDevice, console);
  if (Status status = job.prepare(); !status)
    return status;

  LocalGroup group(options.world, rankTimeout);
  FirstError failure;
  auto runRank = [&](int rank) {
    Status status = ok();
    try {
      status = Rank(job, group.communicator(rank)).run();
    } catch (const std::bad_alloc &) {
      status = failed(fmt::format("rank {}: out of memory", rank));
    } catch (const std::exception &exception) {
      status = failed(fmt::format("rank {}: {}", rank, exception.what()));
    }
    if (!status) {
      failure.set(status.error());
      group.abort(rank, status.error().message);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < options.world; ++rank)
    threads.emplace_back(runRank, rank);
  runRank(0);
  for (std::thread &thread : threads)
    thread.join();
  console.endLive();

  Status status = failure.status();
  std::string reason = status ? "done" : status.error().message;
  Status logged = job.log.end(job.done, reason);
  return status ? logged : status;
}

} // namespace nano
