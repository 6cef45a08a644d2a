// Compares two plans: every part of them for equality, and what a step runs and costs by model line
// and by kernel.
#include "compiler/inspect/Diff.h"

#include "compiler/inspect/StepFacts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace nano::inspect {
namespace {

/// A file and the variant that is compared.
struct Side {
  plan::PlanFile file;
  plan::Plan plan;
  StepFacts step;
};

/// What a row of a table compares.
struct Entry {
  Cost cost;
  double memory = 0; ///< bytes of buffers
};

using Table = std::map<std::string, std::pair<Entry, Entry>>;

/// "12 -> 10", or "12" where that is all.
std::string change(const std::string &a, const std::string &b) {
  return a == b ? a : a + " -> " + b;
}

/// Equal but for sums in another order.
bool isClose(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

bool differs(const std::pair<Entry, Entry> &row) {
  const auto &[a, b] = row;
  return !isClose(a.cost.launches, b.cost.launches) || !isClose(a.cost.seconds, b.cost.seconds) ||
         !isClose(a.cost.bytes, b.cost.bytes) || !isClose(a.cost.flops, b.cost.flops) ||
         !isClose(a.memory, b.memory);
}

/// Prints the rows that differ, most time first, then most memory.
void print(const char *title, const char *memoryTitle, const Table &table, int64_t most) {
  std::vector<const Table::value_type *> rows;
  for (const auto &row : table)
    if (differs(row.second))
      rows.push_back(&row);
  if (rows.empty())
    return;
  std::stable_sort(rows.begin(), rows.end(), [](const auto *x, const auto *y) {
    auto weight = [](const auto *row) {
      const auto &[a, b] = row->second;
      return std::pair(std::abs(b.cost.seconds - a.cost.seconds), std::abs(b.memory - a.memory));
    };
    return weight(x) > weight(y);
  });
  fmt::print("\n{}\n", title);
  const size_t shown = std::min(rows.size(), size_t(most));
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i)
    width = std::max(width, rows[i]->first.size());
  for (size_t i = 0; i < shown; ++i) {
    const auto &[a, b] = rows[i]->second;
    std::vector<std::string> parts;
    auto add = [&](double x, double y, const std::function<std::string(double)> &text,
                   const char *what) {
      if (!isClose(x, y))
        parts.push_back(fmt::format("{} {}", change(text(x), text(y)), what));
    };
    add(a.cost.launches, b.cost.launches, countText, "launches");
    add(a.cost.seconds, b.cost.seconds, secondsText, "predicted");
    add(a.cost.bytes, b.cost.bytes, bytesText, "moved");
    add(
        a.cost.flops, b.cost.flops, [](double x) { return fmt::format("{:.4g}", x); },
        "operations");
    add(a.memory, b.memory, bytesText, memoryTitle);
    fmt::print("  {:{}}  {}\n", rows[i]->first.empty() ? "(no line)" : rows[i]->first,
               std::max(width, size_t(9)), fmt::join(parts, ", "));
  }
  if (rows.size() > shown)
    fmt::print("  and {} more\n", rows.size() - shown);
}

std::map<std::string, const plan::Kernel *> kernelsOf(const plan::Plan &plan) {
  std::map<std::string, const plan::Kernel *> kernels;
  for (const plan::Kernel &kernel : plan.kernels)
    kernels[kernel.name] = &kernel;
  return kernels;
}

/// The CUDA text of a kernel; null where there is none.
const std::string *textOf(const plan::Plan &plan, const plan::Kernel &kernel) {
  for (const plan::Source &source : plan.sources)
    if (!kernel.source.empty() && source.name == kernel.source)
      return &source.text;
  return nullptr;
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
  const std::string *text = textOf(a.plan, x), *other = textOf(b.plan, y);
  if (text && other && *text != *other)
    parts.emplace_back("text");
  if (x.summary != y.summary)
    parts.push_back(fmt::format("does '{}' -> '{}'", x.summary, y.summary));
  if (x.locations != y.locations)
    parts.emplace_back("model lines");
  if (parts.empty() && x != y)
    parts.emplace_back("what its operands are");
  return parts;
}

void printKernels(const Side &a, const Side &b, int64_t most) {
  const auto ofA = kernelsOf(a.plan), ofB = kernelsOf(b.plan);
  std::vector<std::string> lines;
  for (const auto &[name, kernel] : ofA)
    if (auto other = ofB.find(name); other == ofB.end())
      lines.push_back(fmt::format("- {}: {}", name, kernel->summary));
    else if (auto parts = changesOf(a, b, *kernel, *other->second); !parts.empty())
      lines.push_back(fmt::format("  {}: {}", name, fmt::join(parts, ", ")));
  for (const auto &[name, kernel] : ofB)
    if (ofA.count(name) == 0)
      lines.push_back(fmt::format("+ {}: {}", name, kernel->summary));
  if (lines.empty())
    return;
  fmt::print("\nkernels (- of A alone, + of B alone)\n");
  for (size_t i = 0; i < std::min(lines.size(), size_t(most)); ++i)
    fmt::print("  {}\n", lines[i]);
  if (lines.size() > size_t(most))
    fmt::print("  and {} more\n", lines.size() - size_t(most));
}

void printHyperparameters(const plan::Plan &a, const plan::Plan &b) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const plan::Hyperparameter &each : a.hyperparameters)
    values[each.name] = {each.value, "(none)"};
  for (const plan::Hyperparameter &each : b.hyperparameters) {
    auto [entry, isNew] = values.try_emplace(each.name, "(none)", each.value);
    entry->second.second = each.value;
  }
  for (const auto &[name, pair] : values)
    if (pair.first != pair.second)
      fmt::print("  {} = {}\n", name, change(pair.first, pair.second));
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
  compare("scalars' buffer", a.scalarBuffer, b.scalarBuffer);
  if (parts.empty() && a != b)
    parts.emplace_back("something else");
  return parts;
}

void addTo(Table &lines, Table &kernels, const Side &side, Entry std::pair<Entry, Entry>::*which) {
  for (const Run &run : side.step.runs) {
    (lines[lineOf(side.plan, *run.command)].*which).cost += run.all();
    (kernels[workerOf(side.plan, *run.command)].*which).cost += run.all();
  }
  for (const plan::Buffer &buffer : side.plan.buffers)
    (lines[inspect::textOf(buffer.location)].*which).memory += double(buffer.bytes);
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
Result<int64_t> chooseWorld(const DiffOptions &options, const Side &a, const Side &b) {
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

Result<bool> compare(const DiffOptions &options) {
  Result<Side> openedA = open(options.a), openedB = open(options.b);
  for (const Result<Side> *opened : {&openedA, &openedB})
    if (!*opened)
      return opened->error();
  Side &a = *openedA, &b = *openedB;
  if (a.file.hash() == b.file.hash())
    return true;
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

  fmt::print("A {} {}\nB {} {}\n", options.a, a.file.hash(), options.b, b.file.hash());
  if (worldsOf(a) != worldsOf(b))
    fmt::print("numbers of ranks {} -> {}\n", fmt::join(worldsOf(a), ","),
               fmt::join(worldsOf(b), ","));
  for (int64_t each : worldsOf(a)) {
    if (worldsOf(b).count(each) == 0)
      continue;
    Result<plan::Plan> ofA = a.file.plan(each), ofB = b.file.plan(each);
    for (const Result<plan::Plan> *plan : {&ofA, &ofB})
      if (!*plan)
        return plan->error();
    const std::vector<std::string> parts = unequalParts(*ofA, *ofB);
    fmt::print("on {} rank{} {}\n", each, each == 1 ? "" : "s",
               parts.empty() ? "they are equal"
                             : fmt::format("they differ in {}", fmt::join(parts, ", ")));
  }
  printHyperparameters(a.plan, b.plan);
  auto total = [&](const char *what, const std::string &x, const std::string &y) {
    fmt::print("  {:22} {}\n", what, change(x, y));
  };
  fmt::print("\na step{} on {} rank{} by the rates of {}\n",
             a.plan.laterStages.empty() && b.plan.laterStages.empty() ? "" : " of the first stage",
             *world, *world == 1 ? "" : "s", machine->name);
  total("predicted", secondsText(a.step.seconds), secondsText(b.step.seconds));
  total("launches", countText(a.step.total.launches), countText(b.step.total.launches));
  total("moved", bytesText(a.step.total.bytes), bytesText(b.step.total.bytes));
  total("arena", bytesText(double(a.plan.arenaBytes)), bytesText(double(b.plan.arenaBytes)));
  total("kernels", fmt::to_string(a.plan.kernels.size()), fmt::to_string(b.plan.kernels.size()));
  Table lines, kernels;
  addTo(lines, kernels, a, &std::pair<Entry, Entry>::first);
  addTo(lines, kernels, b, &std::pair<Entry, Entry>::second);
  print("by model line", "of buffers", lines, options.lines);
  print("by kernel or call", "", kernels, options.lines);
  printKernels(a, b, options.lines);
  return false;
}

} // namespace

int diff(const DiffOptions &options) {
  Result<bool> equal = compare(options);
  if (equal)
    return *equal ? 0 : 1;
  fmt::print(stderr, "nanoc: {}\n", equal.error().message);
  return 2;
}

} // namespace nano::inspect
