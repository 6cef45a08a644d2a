// Options, plan and machine of a simulation, checked; then a line for each number of ranks.
#include "compiler/simulate/Simulate.h"

#include "base/Target.h"
#include "compiler/simulate/Costs.h"
#include "compiler/simulate/Report.h"
#include "compiler/simulate/Simulator.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace nano::simulate {
namespace {

/// "3:1.5": rank 3, one of `world`, takes 1.5 times as long.
Result<std::pair<int64_t, double>> readStraggler(const std::string &text, int64_t world) {
  auto [rankText, factorText] = llvm::StringRef(text).split(':');
  int64_t rank = 0;
  double factor = 0;
  if (rankText.getAsInteger(10, rank) || factorText.getAsDouble(factor) || factor <= 0 ||
      !std::isfinite(factor))
    return badInput("--straggler " + text + ": write RANK:FACTOR, as in 3:1.5");
  if (rank < 0 || rank >= world)
    return badInput(fmt::format("--straggler {}: the ranks are 0 to {}", text, world - 1));
  return std::pair(rank, factor);
}

Status checkNumbers(const Options &options) {
  if (!(options.jitter >= 0) || !std::isfinite(options.jitter))
    return badInput("--jitter: a number of 0 or more is wanted");
  if (!(options.attendedKeys >= 1) || !std::isfinite(options.attendedKeys))
    return badInput("--attended: a number of keys is 1 or more");
  return ok();
}

/// What all numbers of ranks have in common.
struct Inputs {
  plan::PlanFile file;
  machine::Machine machine;
  std::optional<MeasuredTimes> measured;
  std::optional<machine::LabelledTimes> labelled;
  std::vector<std::pair<int64_t, double>> stragglers;
};

/// Puts what is shown of one stage's step behind that of another.
void append(std::vector<Span> &spans, const std::vector<Span> &more) {
  double end = 0;
  for (const Span &span : spans)
    end = std::max(end, span.finish);
  for (Span span : more) {
    span.start += end;
    span.finish += end;
    spans.push_back(span);
  }
}

/// Simulates one number of ranks and prints a line for each stage of the run, the first below the
/// heading; details when it is the only number. `isLast`: then what the run takes on the numbers of
/// ranks in `times`, to which this one is added.
Status simulateWorld(const Options &options, const Inputs &inputs, int64_t world, bool isLast,
                     std::vector<RunTime> &times) {
  const machine::Machine &machine = inputs.machine;
  Result<plan::Plan> plan = inputs.file.plan(world);
  if (!plan)
    return plan.error();
  if (plan->training.phases.empty())
    return badInput(options.plan + ": the plan has no training step");
  if (llvm::Error error = machine.checkRanks(world))
    return badInput(llvm::toString(std::move(error)));
  Settings settings;
  settings.world = world;
  settings.jitter = options.jitter;
  settings.seed = options.seed;
  const bool isFirst = times.empty(), isOnly = isFirst && isLast;
  settings.isDetailed = isOnly;
  for (const std::pair<int64_t, double> &straggler : inputs.stragglers)
    if (straggler.first < world)
      settings.stragglers.push_back(straggler);
  CostOptions costs;
  costs.attendedKeys = options.attendedKeys;
  costs.measured = inputs.measured ? &*inputs.measured : nullptr;
  costs.labelled = inputs.labelled ? &*inputs.labelled : nullptr;
  const int64_t steps = std::max<int64_t>(1, plan->training.numIterations);
  const Costs commandCosts = costsOf(*plan, machine, world, costs);
  std::string lines, detailed;
  std::vector<Span> spans;
  RunTime run{world};
  for (const plan::StageSteps &part : plan::stagesOf(*plan, 0, steps)) {
    settings.stage = part.stage;
    const Outcome outcome = simulate(*plan, machine, commandCosts, settings);
    if (!(outcome.step > 0) || !std::isfinite(outcome.step))
      return badInput(
          fmt::format("{}: a step on {} ranks would take {} s, by the machine's rates and "
                      "the times given; correct them",
                      options.plan, world, outcome.step));
    run.seconds += double(part.end - part.begin) * outcome.step;
    lines += tableLine(*plan, *part.stage, machine, world, outcome);
    if (!isOnly)
      continue;
    if (!part.stage->stage.empty())
      detailed +=
          fmt::format("\nstage {}, steps {} to {}:\n", part.stage->stage, part.begin + 1, part.end);
    detailed += details(outcome);
    append(spans, outcome.spans);
  }
  times.push_back(run);
  if (!options.timeline.empty())
    if (Status status = writeTimeline(options.timeline, *plan, spans); !status)
      return status;
  if (isFirst)
    fmt::print("{} for {} on {}: {}\n\n{}", plan->model, plan->target, machine.name,
               machine.summary, tableHead(*plan));
  fmt::print("{}", lines);
  if (isLast)
    fmt::print("\n{}{}", runLine(*plan, times), detailed);
  return ok();
}

Status runChecked(const Options &options) {
  if (Status status = checkNumbers(options); !status)
    return status;
  Result<plan::PlanFile> file = plan::PlanFile::open(options.plan);
  if (!file)
    return file.error();
  const std::string &target = file->common().target;
  llvm::Expected<machine::Machine> machine =
      machine::load(options.machine.empty() ? targetOf(target).machine : options.machine);
  if (!machine)
    return badInput(llvm::toString(machine.takeError()));
  Inputs inputs{std::move(*file), std::move(*machine), std::nullopt, std::nullopt, {}};
  if (!options.times.empty()) {
    Result<MeasuredTimes> times = MeasuredTimes::read(options.times, inputs.file);
    if (!times)
      return times.error();
    inputs.measured = std::move(*times);
  }
  if (!options.labelledTimes.empty()) {
    llvm::Expected<machine::LabelledTimes> times =
        machine::LabelledTimes::read(options.labelledTimes);
    if (!times)
      return badInput(llvm::toString(times.takeError()));
    inputs.labelled = std::move(*times);
  }
  std::vector<int64_t> worlds = options.worlds;
  if (worlds.empty())
    for (const std::vector<int64_t> &variant : inputs.file.variants())
      worlds.insert(worlds.end(), variant.begin(), variant.end());
  if (!options.timeline.empty() && worlds.size() != 1)
    return badInput("--timeline is of one number of ranks; name it with --gpus");
  for (const std::string &text : options.stragglers) {
    auto straggler = readStraggler(text, *std::max_element(worlds.begin(), worlds.end()));
    if (!straggler)
      return straggler.error();
    inputs.stragglers.push_back(*straggler);
  }
  std::vector<RunTime> times;
  for (size_t i = 0; i < worlds.size(); ++i)
    if (Status status = simulateWorld(options, inputs, worlds[i], i + 1 == worlds.size(), times);
        !status)
      return status;
  return ok();
}

} // namespace

int run(const Options &options) {
  Status status = runChecked(options);
  if (status)
    return 0;
  fmt::print(stderr, "nanoc: {}\n", status.error().message);
  return status.error().exitStatus();
}

std::string machineNames() {
  std::string names;
  for (const std::string &name : machine::knownMachines())
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

} // namespace nano::simulate
