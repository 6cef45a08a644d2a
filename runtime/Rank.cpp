// The training loop of one rank.
#include "runtime/Rank.h"

#include "runtime/Interrupt.h"
#include "runtime/Log.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <malloc.h>
#include <utility>

namespace nano {

Status Rank::run() {
  if (Status status = agree(communicator, job.facts()); !status)
    return status;
  if (Status status = prepare(); !status)
    return status;
  if (Status status = announce(); !status)
    return status;
  if (Status status = loop(); !status)
    return status;
  if (Status status = device->wait(); !status)
    return status;
  if (Status status = finishEnergy(); !status)
    return status;
  if (Status status = tellReports(); !status)
    return status;
  if (Status status = logStart(); !status)
    return status;
  if (Status status = writeTimes(); !status)
    return status;
  if (Status status = writeScales(); !status)
    return status;
  if (Status status = dumpParameters(); !status)
    return status;
  if (Status status = exportParameters(); !status)
    return status;
  return writeTrace(); // the last: measuring joules loses what the buffers hold
}

Status Rank::prepare() {
  const TrainOptions &options = job.options;
  DeviceOptions deviceOptions;
  deviceOptions.threads = options.threads;
  deviceOptions.localRanks = job.localRanks;
  deviceOptions.shareGpus = options.shareGpus;
  deviceOptions.profile = !options.times.empty();
  deviceOptions.trace = !options.profile.empty();
  deviceOptions.waitForEach = options.checkCommands;
  deviceOptions.tune = options.tune;
  deviceOptions.tuneFile = options.tuneFile;
  if (rank == 0)
    deviceOptions.report = [this](const std::string &line) { job.console.say(line); };
  communicator.doing("making its device");
  Result<std::unique_ptr<Device>> made = job.makeDevice(plan, communicator, deviceOptions);
  if (!made)
    return made.error();
  device = std::move(*made);
  if (const std::string why = options.joules ? device->whyNoCosts() : ""; !why.empty())
    return badInput("--joules: " + why);
  Result<RankEnergy> counters = RankEnergy::start(*device, communicator, job.firstStep);
  if (!counters)
    return counters.error();
  energy.emplace(std::move(*counters));
  endPart("device");
  if (Status status = prepareAhead(); !status)
    return status;
  communicator.doing("filling its states");
  Status written = job.start.write(plan, seatOf(plan, communicator), *device,
                                   threadsPerRank(options.threads, job.localRanks),
                                   [&](const std::string &what) { communicator.doing(what); });
  // What reading the plan, making the device and initial values took for a moment goes back to the
  // system before the step touches all of the arena.
  malloc_trim(0);
  endPart("states");
  return written;
}

Status Rank::prepareAhead() {
  bool isAny = false;
  // Windows and rates as in the step that they run in: programs may rely on them.
  auto prepareFor = [&](int64_t step, const std::vector<std::string> &programs,
                        const std::string &what) -> Status {
    communicator.doing("preparing the programs of " + what);
    isAny = true;
    if (Status status = writeScalars(plan, step, world, *device); !status)
      return status;
    return device->prepareAhead(programs);
  };
  for (const plan::StageSteps &part : plan::stagesOf(plan, job.firstStep, job.steps)) {
    if (part.begin != job.firstStep) {
      std::vector<std::string> programs;
      for (const plan::StepPrograms &phase : part.stage->phases)
        for (const std::string *name : {&phase.first, &phase.next, &phase.last, &phase.update})
          if (!name->empty() &&
              std::find(programs.begin(), programs.end(), *name) == programs.end())
            programs.push_back(*name);
      if (Status status = prepareFor(part.begin, programs, "stage " + part.stage->stage); !status)
        return status;
    }
    for (const plan::Event &event : part.stage->events) {
      const int64_t step = event.step < 0 ? part.begin : event.step;
      if (step > job.firstStep && step >= part.begin && step < part.end)
        if (Status status =
                prepareFor(step, {event.program}, fmt::format("the event after step {}", step + 1));
            !status)
          return status;
    }
  }
  if (isAny)
    endPart("later_stages");
  return ok();
}

void Rank::endPart(const char *name) {
  if (rank == 0)
    job.startTimes.end(name);
}

Status Rank::logStart() {
  if (rank != 0 || job.steps == job.firstStep)
    return ok();
  Phases::Times times = job.startTimes.milliseconds();
  double total = 0;
  for (const auto &[name, milliseconds] : times)
    total += milliseconds;
  times.emplace_back("total", total);
  for (const auto &[name, milliseconds] : device->startTimes())
    times.emplace_back("device_" + name, milliseconds);
  return job.log.start(times);
}

std::string Rank::describeStage(const plan::Training &each, int64_t steps) const {
  auto counted = [](int64_t count, const char *one, const char *many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
  };
  return fmt::format(
      "{}{} of {} tokens: {} with {} of {} tokens",
      each.stage.empty() ? "" : fmt::format("stage {}: ", each.stage),
      counted(steps, "step", "steps"), each.globalBatch, counted(world, "rank", "ranks"),
      counted(each.globalBatch / (each.seqLen * world), "micro-batch", "micro-batches"),
      each.seqLen);
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
  facts.energy = energy->source();
  job.console.say(fmt::format("{} on {}", plan.model, facts.device));
  for (const plan::StageSteps &part : plan::stagesOf(plan, job.firstStep, job.steps))
    job.console.say(describeStage(*part.stage, part.end - part.begin));
  if (!job.options.log.empty() && !energy->isCounting())
    job.console.say(
        fmt::format("{}: without joules: {}", job.options.log, energy->source().missing));
  return job.log.run(plan, facts);
}

Status Rank::loop() {
  if (job.reader)
    loader = std::make_unique<Loader>(
        *job.reader,
        Loader::Share{rank, world,
                      [this](int64_t step) -> const std::vector<plan::Column> & {
                        return plan::stageAt(plan, step).columns;
                      },
                      /*hashes=*/world > 1},
        [this](int64_t step) { return job.batchShape(step); }, job.firstStep, job.steps);
  const bool saves = !job.options.save.empty();
  int64_t steps = job.firstStep;
  bool isStopping = false, isSaveDue = steps == job.steps && !job.start.manifest();
  energy->begin();
  do {
    if (steps < job.steps) {
      if (Status status = trainStep(steps); !status)
        return status;
      if (steps == job.firstStep)
        endPart("first_step");
      energy->end();
      ++steps;
      isSaveDue = isSaveDue || due(job.options.saveEvery, steps);
      Result<bool> stop = anyInterrupted();
      if (!stop)
        return Error{stop.error().kind,
                     fmt::format("after step {}: {}", steps, stop.error().message)};
      isStopping = isStopping || *stop;
      // What is to be saved is so after whole rounds.
      if (isStopping && steps < job.steps && (!saves || steps % job.round() == 0))
        return interrupted(steps);
    }
    const bool isLast = steps == job.steps;
    if (saves && isSaveDue && (isLast || steps % job.round() == 0)) {
      if (Status status = save(steps); !status)
        return status;
      isSaveDue = false;
      energy->begin();
    }
    if (!job.valSequences.empty() && due(job.options.valEvery, steps) && (!isStopping || isLast)) {
      Result<bool> cut = validate(steps);
      if (!cut)
        return cut.error();
      isStopping = isStopping || *cut;
      if (*cut && (!saves || steps % job.round() == 0 || isLast))
        return interrupted(steps);
      energy->begin();
    }
  } while (steps < job.steps);
  return ok();
}

Result<bool> Rank::anyInterrupted() {
  // Every rank hashes all of the batch, though it trains on its share. The bytes of the hash travel
  // with the flag, each beside its distance from 255: where all ranks have the same byte, and there
  // alone, the largest of both add up to 255.
  constexpr size_t bytes = sizeof batchHash;
  constexpr float most = 255;
  std::vector<float> values = {InterruptGuard::signal() != 0 ? 1.0F : 0.0F};
  for (size_t i = 0; i < bytes; ++i) {
    values.push_back(float(batchHash >> (8 * i) & 0xff));
    values.push_back(most - values.back());
  }
  const size_t own = values.size();
  energy->offer(values);
  if (Status status = communicator.allReduce(values.data(), int64_t(values.size()),
                                             plan::DType::F32, Combine::Max, plan::Ranks::All,
                                             "interrupt flag, hash of the batch, joules");
      !status)
    return status.error();
  for (size_t i = 0; i < bytes; ++i)
    if (values[1 + 2 * i] + values[2 + 2 * i] != most)
      return differentBatches();
  if (Status status = tellEnergy(energy->accept(values.data() + own)); !status)
    return status.error();
  return values[0] > 0;
}

Error Rank::differentBatches() {
  Result<std::vector<std::string>> all =
      communicator.exchange(fmt::format("{:016x}", batchHash), "hashes of the batch");
  if (!all)
    return all.error();
  const auto other = std::find_if(all->begin(), all->end(),
                                  [&](const std::string &each) { return each != all->front(); });
  // Where documents are taken apart the batch lies somewhere in between.
  const Piece &first = current->batch.sequences.front().front(),
              &last = current->batch.sequences.back().back();
  return badInput(
      fmt::format("rank {} trained on other tokens than rank 0, of {} from token {} to "
                  "{}; nothing of it is saved; give all ranks the same shards",
                  other - all->begin(), job.trainShards->name(first.shard),
                  std::min(first.position, last.position),
                  std::max(first.position + first.count, last.position + last.count) - 1));
}

Status Rank::takeBatch(int64_t step) {
  batchStart = current ? current->batch.end : job.reader->position();
  Result<std::shared_ptr<const LoadedBatch>> next = loader->next();
  if (!next)
    return next.error();
  current = *next;
  batchHash = current->hash;
  if (current->batch.beginsEpoch && rank == 0)
    job.console.say(
        fmt::format("step {}: past the last shard, reading starts again at the first", step + 1));
  return ok();
}

Status Rank::writeBatch(int64_t step, size_t sequence) {
  if (scalarsVaryBySequence(plan))
    if (Status status =
            writeScalars(plan, step, world, *device, job.start.seed(), int64_t(sequence));
        !status)
      return status;
  return writeSequence(current->share[sequence / size_t(world)], stage->tokensBuffer,
                       stage->targetsBuffer, stage->columns, *device);
}

Status Rank::runProgram(int64_t step, const std::string &program) {
  communicator.doing(fmt::format("step {}, program '{}'", step + 1, program));
  return device->run(program);
}

Status Rank::microBatches(int64_t step, std::vector<float> &losses) {
  expectChecks(stage->checks, losses);
  reports.expect(losses.size());
  for (size_t sequence = size_t(rank); sequence < losses.size(); sequence += size_t(world)) {
    if (Status status = writeBatch(step, sequence); !status)
      return status;
    auto microBatch = int64_t(sequence / size_t(world));
    if (microBatch == 0)
      if (Status status = measure(step); !status)
        return status;
    if (Status status = runProgram(step, programOf(*stage, step, microBatch, world)); !status)
      return status;
    if (Status status = device->readLater(stage->lossBuffer, 0, &losses[sequence], sizeof(float));
        !status)
      return status;
    if (Status status = readChecks(stage->checks, sequence); !status)
      return status;
    if (Status status = reports.readSequence(*device, sequence); !status)
      return status;
  }
  if (Status status = device->wait(); !status)
    return status;
  applyChecks(stage->checks, losses);
  return tellReports();
}

void Rank::expectChecks(const plan::IndexChecks &checks, const std::vector<float> &losses) {
  checked.assign(losses.size() * checks.list.size(), 0);
}

Status Rank::readChecks(const plan::IndexChecks &checks, size_t sequence) {
  const size_t count = checks.list.size();
  if (count == 0)
    return ok();
  return device->readLater(checks.buffer, 0, &checked[sequence * count], count * sizeof(int32_t));
}

void Rank::applyChecks(const plan::IndexChecks &checks, std::vector<float> &losses) {
  outOfRange.clear();
  const size_t count = checks.list.size();
  if (count == 0)
    return;
  for (size_t sequence = size_t(rank); sequence < losses.size(); sequence += size_t(world)) {
    const std::string found = plan::indexOutOfRange(checks, &checked[sequence * count]);
    if (found.empty())
      continue;
    losses[sequence] = std::numeric_limits<float>::quiet_NaN();
    if (outOfRange.empty())
      outOfRange = fmt::format("{} (sequence {}, rank {})", found, sequence, rank);
  }
}

Status Rank::enterStage(const plan::Training &next) {
  if (stage == &next)
    return ok();
  // What the last update of the stage before reports lies in a buffer of that stage.
  if (untold) {
    if (Status status = device->wait(); !status)
      return status;
    if (Status status = tellReports(); !status)
      return status;
  }
  stage = &next;
  reports = ReportReader(next);
  return ok();
}

Status Rank::trainStep(int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  if (!job.options.profile.empty())
    (void)device->takeSpans(); // of a step or a validation before
  if (Status status = enterStage(plan::stageAt(plan, step)); !status)
    return status;
  auto inStep = [&](const Status &status) {
    return Error{status.error().kind, fmt::format("step {}: {}", step + 1, status.error().message)};
  };
  if (Status status = takeBatch(step); !status)
    return inStep(status);
  if (Status status = writeScalars(plan, step, world, *device, job.start.seed(), rank); !status)
    return status;
  std::vector<float> losses(current->batch.sequences.size());
  if (Status status = microBatches(step, losses); !status)
    return inStep(status);
  if (Status status = share(losses, "losses of the micro-batches"); !status)
    return inStep(status);
  if (Status status = combineReports(step); !status)
    return inStep(status);
  meeting =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();

  double sum = 0;
  for (size_t sequence = 0; sequence < losses.size(); ++sequence) {
    if (!std::isfinite(losses[sequence])) {
      if (Status status = tellReports(/*updated=*/false); !status)
        return inStep(status);
      return notFinite(step, sequence, losses[sequence]);
    }
    sum += losses[sequence];
  }
  if (const std::string &update = phase(step).update; !update.empty())
    if (Status status = runProgram(step, update); !status)
      return inStep(status);
  for (const plan::Event &event : stage->events)
    if (event.step < 0 || event.step == step)
      if (Status status = runProgram(step, event.program); !status)
        return inStep(status);
  if (Status status = readStepReports(); !status)
    return inStep(status);
  if (!job.options.profile.empty() && step + 1 == job.steps) {
    if (Status status = device->wait(); !status)
      return inStep(status);
    spans = device->takeSpans();
  }
  if (rank != 0)
    return ok();

  StepFacts facts;
  facts.step = step + 1;
  facts.loss = sum / double(stage->trainLossIsSum ? stage->globalBatch : int64_t(losses.size()));
  facts.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  facts.stage = stage->stage;
  facts.tokens = stage->globalBatch;
  facts.totalTokens = plan::tokensOf(plan, step + 1);
  facts.tokensLeft = plan::tokensOf(plan, job.steps) - facts.totalTokens;
  facts.learningRate = logScalar(plan, step, world);
  if (untold)
    progress.show(job.shown.text(untold->second));
  progress.step(facts);
  job.done = step + 1;
  if (Status status = job.log.step(facts); !status)
    return status;
  if (Status status = job.tensorBoard.step(facts); !status)
    return status;
  return reports.hasSteps() ? ok() : tellReports();
}

Status Rank::measure(int64_t step) {
  const TrainOptions &options = job.options;
  const bool shows =
      options.fp8Report && (step == job.firstStep || due(options.valEvery, step + 1));
  if (!shows && options.calibrate.empty())
    return ok();
  communicator.doing(fmt::format("step {}, its FP8 measurement", step + 1));
  if (Status status = meter.measure(*device, communicator, *stage); !status || !shows || rank != 0)
    return status;
  if (step + 1 == job.steps)
    job.console.say(
        world == 1
            ? fmt::format("FP8 in the first micro-batch of step {}:\n{}", step + 1, meter.table())
            : fmt::format("FP8 in the first micro-batches of step {}, of {} ranks:\n{}", step + 1,
                          world, meter.table()));
  return job.log.fp8(step + 1, meter.last());
}

Status Rank::validationLosses(int64_t steps, std::vector<float> &losses) {
  expectChecks(stage->valChecks, losses);
  SequenceData data;
  for (size_t i = size_t(rank); i < losses.size() && InterruptGuard::signal() == 0;
       i += size_t(world)) {
    communicator.doing(fmt::format("validation after step {}, sequence {}", steps, i));
    if (Status status =
            readSequence(*job.valShards, {job.valSequences[i]}, uint64_t(stage->valSeqLen),
                         int32_t(stage->eosToken), stage->valColumns, data);
        !status)
      return status;
    if (Status status = writeSequence(data, stage->valTokensBuffer, stage->valTargetsBuffer,
                                      stage->valColumns, *device);
        !status)
      return status;
    if (Status status = device->run(stage->validate); !status)
      return status;
    if (Status status = device->readLater(stage->valLossBuffer, 0, &losses[i], sizeof(float));
        !status)
      return status;
    if (Status status = readChecks(stage->valChecks, i); !status)
      return status;
  }
  if (Status status = device->wait(); !status)
    return status;
  applyChecks(stage->valChecks, losses);
  return ok();
}

Result<bool> Rank::validate(int64_t steps) {
  stage = &plan::stageAt(plan, steps);
  if (Status status = writeScalars(plan, steps, world, *device, job.start.seed()); !status)
    return status.error();
  std::vector<float> losses(job.valSequences.size());
  if (Status status = validationLosses(steps, losses); !status)
    return status.error();
  Result<bool> cut = anyInterrupted();
  if (!cut || *cut)
    return cut;
  if (Status status = share(losses, "losses of the validation"); !status)
    return status.error();
  double sum = 0;
  for (float loss : losses)
    sum += loss;
  uint64_t count = losses.size() * uint64_t(stage->valSeqLen);
  double mean = sum / double(stage->valLossIsSum ? count : losses.size());
  if (!std::isfinite(mean)) {
    const std::string index = findOutOfRange(stage->valChecks);
    return failed(index.empty()
                      ? fmt::format("the validation loss is {} after step {}", mean, steps)
                      : fmt::format("validation after step {}: {}", steps, index));
  }
  if (rank != 0)
    return false;
  job.console.say(fmt::format("step {}/{}  validation loss {:.4f} over {} tokens", steps, job.steps,
                              mean, count));
  if (Status status = job.log.validation(steps, mean, count); !status)
    return status.error();
  if (Status status = job.tensorBoard.validation(steps, mean); !status)
    return status.error();
  return false;
}

} // namespace nano
