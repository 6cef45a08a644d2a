// Compares two plans: every part of them for equality, and what a step runs and costs by model line
// and by kernel.
#include "compiler/inspect/Compare.h"

#include "runtime/plan/Messages.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace nano::inspect {
namespace {

/// A file and the variant that is compared.
struct Side {
  plan::PlanFile file;
  plan::Plan plan;
  StepFacts step;
};

using Table = std::map<std::string, Row>;

bool differs(const Row &row) {
  const Entry &a = row.a, &b = row.b;
  return !isClose(a.cost.launches, b.cost.launches) || !isClose(a.cost.seconds, b.cost.seconds) ||
         !isClose(a.cost.bytes, b.cost.bytes) || !isClose(a.cost.flops, b.cost.flops) ||
         !isClose(a.memory, b.memory);
}

/// The rows that differ, most time first, then most memory.
std::vector<Row> changedRows(const Table &table) {
  std::vector<Row> rows;
  for (const auto &[name, row] : table)
    if (differs(row))
      rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const Row &x, const Row &y) {
    auto weight = [](const Row &row) {
      return std::pair(std::abs(row.b.cost.seconds - row.a.cost.seconds),
                       std::abs(row.b.memory - row.a.memory));
    };
    return weight(x) > weight(y);
  });
  return rows;
}

std::map<std::string, const plan::Kernel *> kernelsOf(const plan::Plan &plan) {
  std::map<std::string, const plan::Kernel *> kernels;
  for (const plan::Kernel &kernel : plan.kernels)
    kernels[kernel.name] = &kernel;
  return kernels;
}

/// The CUDA text of a kernel; empty where there is none.
std::string textOf(const plan::Plan &plan, const plan::Kernel &kernel) {
  for (const plan::Source &source : plan.sources)
    if (!kernel.source.empty() && source.name == kernel.source)
      return source.text;
  return "";
}

/// What of a kernel of both plans is not the same.
std::vector<std::string> changesOf(const Side &a, const Side &b, const plan::Kernel &x,
                                   const plan::Kernel &y) {
  std::vector<std::string> parts;
  auto number = [&](const char *what, double p, double q) {
    if (p != q)
      parts.push_back(fmt::format("{} {} -> {}", what, countText(p), countText(q)));
  };
  number("threads", x.threads, y.threads);
  number("iterations a block", double(x.iterationsPerBlock), double(y.iterationsPerBlock));
  number("bytes of shared memory", double(x.sharedBytes), double(y.sharedBytes));
  number("bytes of scratch", double(x.scratchBytes), double(y.scratchBytes));
  number("blocks of a cluster", x.clusterBlocks, y.clusterBlocks);
  number("segments at most", x.maxSegments, y.maxSegments);
  number("operations an iteration", x.flops, y.flops);
  const std::string text = textOf(a.plan, x), other = textOf(b.plan, y);
  if (!text.empty() && !other.empty() && text != other)
    parts.emplace_back("text");
  if (x.summary != y.summary)
    parts.push_back(fmt::format("does '{}' -> '{}'", x.summary, y.summary));
  if (x.locations != y.locations)
    parts.emplace_back("model lines");
  if (parts.empty() && x != y)
    parts.emplace_back("what its operands are");
  return parts;
}

/// Those of A by name, then what B alone has.
std::vector<KernelChange> kernelChanges(const Side &a, const Side &b) {
  const auto ofA = kernelsOf(a.plan), ofB = kernelsOf(b.plan);
  std::vector<KernelChange> changes;
  for (const auto &[name, kernel] : ofA)
    if (auto other = ofB.find(name); other == ofB.end())
      changes.push_back({name, '-', kernel->summary, textOf(a.plan, *kernel), ""});
    else if (auto parts = changesOf(a, b, *kernel, *other->second); !parts.empty()) {
      std::string text = textOf(a.plan, *kernel), now = textOf(b.plan, *other->second);
      if (text == now)
        text = now = "";
      changes.push_back(
          {name, ' ', fmt::format("{}", fmt::join(parts, ", ")), std::move(text), std::move(now)});
    }
  for (const auto &[name, kernel] : ofB)
    if (ofA.count(name) == 0)
      changes.push_back({name, '+', kernel->summary, "", textOf(b.plan, *kernel)});
  return changes;
}

std::vector<Comparison::Value> hyperparameterChanges(const plan::Plan &a, const plan::Plan &b) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const plan::Hyperparameter &each : a.hyperparameters)
    values[each.name] = {each.value, "(none)"};
  for (const plan::Hyperparameter &each : b.hyperparameters) {
    auto [entry, isNew] = values.try_emplace(each.name, "(none)", each.value);
    entry->second.second = each.value;
  }
  std::vector<Comparison::Value> changes;
  for (const auto &[name, pair] : values)
    if (pair.first != pair.second)
      changes.push_back({name, pair.first, pair.second});
  return changes;
}

/// The parts of two plans that are not equal, of all that a file holds.
std::vector<std::string> unequalParts(const plan::Plan &a, const plan::Plan &b) {
  std::vector<std::string> parts;
  auto compare = [&](const char *name, const auto &x, const auto &y) {
    if (x != y)
      parts.emplace_back(name);
  };
  compare("model's name", a.model, b.model);
  compare("target", a.target, b.target);
  compare("model's text", a.source, b.source);
  compare("hyperparameters", a.hyperparameters, b.hyperparameters);
  compare("states", a.states, b.states);
  compare("scalars", a.scalars, b.scalars);
  compare("kernels", a.kernels, b.kernels);
  compare("device code", a.sources, b.sources);
  compare("native code", a.code, b.code);
  compare("processor's features", a.cpuFeatures, b.cpuFeatures);
  compare("buffers", a.buffers, b.buffers);
  compare("programs", a.programs, b.programs);
  compare("training", a.training, b.training);
  compare("later stages", a.laterStages, b.laterStages);
  compare("checkpoints of other programs", a.interchange, b.interchange);
  compare("data of initial values", a.data, b.data);
  compare("groups of ranks", a.group, b.group);
  compare("arena", a.arenaBytes, b.arenaBytes);
  compare("host's memory", a.hostBytes, b.hostBytes);
  compare("scalars' buffer", a.scalarBuffer, b.scalarBuffer);
  if (parts.empty() && a != b)
    parts.emplace_back("something else");
  return parts;
}

void addTo(Table &lines, Table &workers, const Side &side, Entry Row::*which) {
  auto rowOf = [](Table &table, const std::string &name) -> Row & {
    Row &row = table[name];
    row.name = name;
    return row;
  };
  for (const Run &run : side.step.runs) {
    (rowOf(lines, textOf(lineOf(side.plan, *run.command))).*which).cost += run.all();
    (rowOf(workers, workerOf(side.plan, *run.command)).*which).cost += run.all();
  }
  for (const plan::Buffer &buffer : side.plan.buffers)
    (rowOf(lines, plan::textOf(buffer.location)).*which).memory += double(buffer.bytes);
}

Result<Side> open(const std::string &path) {
  Result<plan::PlanFile> file = plan::PlanFile::open(path);
  if (!file)
    return file.error();
  return Side{std::move(*file), {}, {}};
}

std::set<int64_t> worldsOf(const Side &side) {
  std::set<int64_t> worlds;
  for (const std::vector<int64_t> &variant : side.file.variants())
    worlds.insert(variant.begin(), variant.end());
  return worlds;
}

/// The number of ranks to compare for.
Result<int64_t> chooseWorld(const CompareOptions &options, const Side &a, const Side &b) {
  const std::set<int64_t> ofA = worldsOf(a), ofB = worldsOf(b);
  for (int64_t world : ofA)
    if (ofB.count(world) != 0 && (options.world == 0 || options.world == world))
      return world;
  if (options.world != 0)
    return badInput(fmt::format("--gpus {}: {} is for {} ranks, {} for {}", options.world,
                                options.a, fmt::join(ofA, ", "), options.b, fmt::join(ofB, ", ")));
  return badInput(fmt::format("{} is for {} ranks, {} for {}: they have no number of ranks in "
                              "common",
                              options.a, fmt::join(ofA, ", "), options.b, fmt::join(ofB, ", ")));
}

SideTotals totalsOf(const Side &side) {
  const std::set<int64_t> worlds = worldsOf(side);
  return {side.file.hash(), {worlds.begin(), worlds.end()}, side.step.seconds,
          side.step.total,  double(side.plan.arenaBytes),   side.plan.kernels.size()};
}

} // namespace

bool isClose(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

Result<Comparison> compare(const CompareOptions &options) {
  Result<Side> openedA = open(options.a), openedB = open(options.b);
  for (const Result<Side> *opened : {&openedA, &openedB})
    if (!*opened)
      return opened->error();
  Side &a = *openedA, &b = *openedB;
  Comparison found;
  if (a.file.hash() == b.file.hash()) {
    found.a.hash = found.b.hash = a.file.hash();
    return found;
  }
  Result<int64_t> world = chooseWorld(options, a, b);
  if (!world)
    return world.error();
  Result<machine::Machine> machine = machineFor(options.machine, a.file.common().target);
  if (!machine)
    return machine.error();
  for (auto [side, path] : {std::pair(&a, &options.a), std::pair(&b, &options.b)}) {
    Result<plan::Plan> plan = side->file.plan(*world);
    if (!plan)
      return plan.error();
    side->plan = std::move(*plan);
    Result<StepFacts> step = stepOf(side->plan, *world, *machine);
    if (!step)
      return Error{step.error().kind, *path + ": " + step.error().message};
    side->step = std::move(*step);
  }
  found.a = totalsOf(a);
  found.b = totalsOf(b);
  found.world = *world;
  found.machine = machine->name;
  found.hasStages = !a.plan.laterStages.empty() || !b.plan.laterStages.empty();
  for (int64_t each : found.a.worlds) {
    if (worldsOf(b).count(each) == 0)
      continue;
    Result<plan::Plan> ofA = a.file.plan(each), ofB = b.file.plan(each);
    for (const Result<plan::Plan> *plan : {&ofA, &ofB})
      if (!*plan)
        return plan->error();
    found.parts.emplace_back(each, unequalParts(*ofA, *ofB));
  }
  found.hyperparameters = hyperparameterChanges(a.plan, b.plan);
  Table lines, workers;
  addTo(lines, workers, a, &Row::a);
  addTo(lines, workers, b, &Row::b);
  found.lines = changedRows(lines);
  found.workers = changedRows(workers);
  found.kernels = kernelChanges(a, b);
  return found;
}

} // namespace nano::inspect
