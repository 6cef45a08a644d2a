// What a rank writes between the steps and after them.
#include "runtime/Rank.h"

#include "runtime/Export.h"
#include "runtime/Measurements.h"
#include "runtime/States.h"
#include "runtime/Times.h"
#include "runtime/Trace.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/FileWriter.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace nano {

Status Rank::save(int64_t steps, const DataPosition *from) {
  Manifest manifest = manifestOf(plan, job.planHash);
  manifest.step = steps;
  manifest.seed = job.start.seed();
  manifest.world = world;
  manifest.run = job.run;
  if (job.reader) {
    const DataPosition &position = from      ? *from
                                   : current ? current->batch.end
                                             : job.reader->position();
    manifest.shard = position.shard;
    manifest.shardFile = job.trainShards->name(job.reader->shardAt(position));
    manifest.position = position.position;
    manifest.epoch = position.epoch;
    manifest.data = {plan::nameOf(stage->documents.rule), job.trainShards->count(),
                     job.trainShards->totalTokens(), job.shardsHash};
  }
  Result<std::string> path =
      saveCheckpoint(job.options.save, manifest, plan, communicator, readerOf(*device),
                     /*requireFinite=*/!job.options.start.allowNonFinite);
  if (!path)
    return Error{
        path.error().kind,
        fmt::format("saving after step {} failed: {}; earlier checkpoints are as they were", steps,
                    path.error().message)};
  savedStep = steps;
  if (rank != 0)
    return ok();
  job.console.say(fmt::format("saved {}", *path));
  return job.log.checkpoint(steps, *path);
}

Status Rank::writeFile(const char *option, const std::string &path,
                       const std::function<Status(FileWriter &)> &fill) {
  if (rank != 0 || path.empty())
    return ok();
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return badInput(fmt::format("{} {}", option, file.error().message));
  if (Status status = fill(file->writer()); !status)
    return status;
  if (Status status = file->publish(); !status)
    return status;
  job.console.say(fmt::format("wrote {}", path));
  if (const std::vector<std::string> left = notExported(plan); !left.empty())
    job.console.say(
        fmt::format("{}: without {} parameters that the model says other programs lack, "
                    "{} first (--dump-params writes them)",
                    path, left.size(), left.front()));
  return ok();
}

Status Rank::writeText(const char *option, const std::string &path,
                       const std::function<Result<std::string>()> &make) {
  return writeFile(option, path, [&](FileWriter &file) -> Status {
    Result<std::string> text = make();
    return text ? file.append(*text) : text.error();
  });
}

Status Rank::tellEnergy(const std::optional<EnergyFacts> &facts) {
  if (!facts || rank != 0)
    return ok();
  used.first = job.firstStep + 1;
  used.last = facts->last;
  used.joules += facts->joules;
  used.seconds += facts->seconds;
  progress.energy(*facts);
  if (Status status = job.log.energy(*facts); !status)
    return status;
  return job.tensorBoard.energy(*facts);
}

Status Rank::finishEnergy() {
  Result<std::vector<EnergyFacts>> rest = energy->finish(communicator);
  if (!rest)
    return rest.error();
  for (const EnergyFacts &facts : *rest)
    if (Status status = tellEnergy(facts); !status)
      return status;
  if (used.joules > 0)
    job.console.say(
        fmt::format("{:.2f} J a step, {:.3f} kJ in {} step{}, {:.0f} W on {} device{} (by {})",
                    used.joulesOfStep(), 1e-3 * used.joules, used.last - job.firstStep,
                    used.last - job.firstStep == 1 ? "" : "s", used.joules / used.seconds,
                    energy->source().devices, energy->source().devices == 1 ? "" : "s",
                    energy->source().counter));
  return ok();
}

Status Rank::writeTimes() {
  if (job.options.times.empty())
    return ok();
  Result<std::vector<std::string>> all =
      communicator.exchange(packTimes(plan, device->times()), "times of commands");
  if (!all)
    return all.error();
  return writeText("--times", job.options.times, [&]() -> Result<std::string> {
    std::vector<std::vector<CommandTime>> ranks;
    for (const std::string &text : *all) {
      Result<std::vector<CommandTime>> times = unpackTimes(plan, text);
      if (!times)
        return times.error();
      ranks.push_back(std::move(*times));
    }
    return timesText(plan, job.planHash, device->describe(), job.steps - job.firstStep, ranks,
                     used.joules > 0 ? std::optional(used) : std::nullopt);
  });
}

Status Rank::writeTrace() {
  if (job.options.profile.empty())
    return ok();
  Result<std::vector<std::string>> all = communicator.exchange(
      packSpans(plan, {machineName(), meeting, spans}), "trace of the last step");
  if (!all)
    return all.error();
  std::vector<CommandCost> costs;
  if (job.options.joules) {
    std::vector<std::string> programs; // of the step
    for (const plan::Program &program : plan.programs)
      if (std::any_of(spans.begin(), spans.end(), [&](const CommandSpan &span) {
            return std::any_of(program.commands.begin(), program.commands.end(),
                               [&](const plan::Command &each) { return &each == span.command; });
          }))
        programs.push_back(program.name);
    communicator.doing("measuring joules of commands");
    Result<std::vector<CommandCost>> measured = device->costs(programs);
    if (!measured)
      return measured.error();
    costs = std::move(*measured);
    if (const std::optional<DeviceRates> rates = device->rates())
      for (const std::string &line : wastes(plan, spans, costs, *rates))
        job.console.say(line);
  }
  return writeText("--profile", job.options.profile, [&]() -> Result<std::string> {
    std::vector<RankSpans> ranks;
    for (const std::string &text : *all) {
      Result<RankSpans> rankSpans = unpackSpans(plan, text);
      if (!rankSpans)
        return rankSpans.error();
      ranks.push_back(std::move(*rankSpans));
    }
    return traceText(plan, job.planHash, device->describe(), job.steps, aligned(std::move(ranks)),
                     device->rates(), costs);
  });
}

Status Rank::writeScales() {
  return writeText("--calibrate", job.options.calibrate, [&] { return meter.scales(); });
}

Status Rank::dumpParameters() {
  return writeFile("--dump-params", job.options.dumpParams, [&](FileWriter &file) {
    return storeRuns(
        heldRuns(statesOf(plan, plan::State::Role::Parameter), seatOf(plan, communicator)),
        readerOf(*device), /*requireFinite=*/false, file);
  });
}

Status Rank::exportParameters() {
  const std::string &path = job.options.exportFolder;
  if (rank != 0 || path.empty())
    return ok();
  communicator.doing(fmt::format("writing {}", path));
  if (Status status = exportFolder(plan, readerOf(*device), path, job.besideExport,
                                   /*requireFinite=*/!job.options.start.allowNonFinite);
      !status)
    return Error{status.error().kind, "--export-hf " + status.error().message};
  job.console.say(fmt::format("wrote {}", path));
  if (const std::vector<std::string> left = notExported(plan); !left.empty())
    job.console.say(
        fmt::format("{}: without {} parameters that the model says other programs lack, "
                    "{} first (--dump-params writes them)",
                    path, left.size(), left.front()));
  return ok();
}

//===- Reports -------------------------------------------------------------------===//

Status Rank::combineReports(int64_t step) {
  if (reports.hasMicroBatches())
    if (Status status = share(reports.numbers(), "reports of the micro-batches"); !status)
      return status;
  if (rank == 0 && (reports.hasMicroBatches() || reports.hasSteps()))
    untold = {step + 1, reports.sequenceFacts()};
  return ok();
}

Status Rank::readStepReports() { return rank == 0 ? reports.readStep(*device) : ok(); }

Status Rank::tellReports(bool updated) {
  if (!untold)
    return ok();
  auto [step, facts] = std::move(*untold);
  untold.reset();
  const auto phase = (step - 1) % std::max<int64_t>(1, int64_t(stage->phases.size()));
  if (updated)
    for (ReportFacts &each : reports.stepFacts(phase))
      facts.push_back(std::move(each));
  progress.show(job.shown.text(facts));
  if (Status status = job.log.reports(step, facts); !status)
    return status;
  return job.tensorBoard.reports(step, facts);
}

} // namespace nano
