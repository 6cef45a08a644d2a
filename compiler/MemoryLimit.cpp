// Trials, and the search among them.
#include "compiler/MemoryLimit.h"

#include "codegen/PlanWriter.h"
#include "compiler/HostCompiler.h"
#include "compiler/RunStages.h"
#include "compiler/StageRunner.h"
#include "compiler/Stages.h"
#include "compiler/simulate/Costs.h"
#include "compiler/simulate/Simulator.h"
#include "ir/graph/RunStages.h"
#include "ir/machine/Machine.h"
#include "ir/step/Step.h"
#include "passes/memory/MemoryReport.h"
#include "passes/schedule/Costs.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

using namespace mlir;

namespace nano {

int64_t parseBytes(const std::string &text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc())
    return 0;
  const std::string_view unit(end, size_t(text.data() + text.size() - end));
  constexpr std::pair<std::string_view, double> units[] = {
      {"", 1},      {"B", 1},        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto &[name, size] : units)
    if (unit == name) {
      const double bytes = number * size;
      return bytes >= 1 && bytes <= 0x1p60 ? int64_t(std::llround(bytes)) : 0;
    }
  return 0;
}

std::vector<int64_t> microBatchesToTry(int64_t tokens, int64_t row, int64_t globalBatch,
                                       ArrayRef<int64_t> worlds) {
  std::vector<int64_t> sizes{0};
  const int64_t most = *std::max_element(worlds.begin(), worlds.end());
  for (int64_t size : {globalBatch / most, tokens / 2, tokens / 4})
    if (size > 0 && size != tokens && size % row == 0 && !llvm::is_contained(sizes, size) &&
        llvm::all_of(worlds, [&](int64_t world) { return globalBatch % (size * world) == 0; }))
      sizes.push_back(size);
  return sizes;
}

namespace {

/// A choice on one number of ranks.
struct Trial {
  MemoryChoice choice;
  int64_t world = 1;
  memory::MemorySummary held;
  double step = 0; ///< predicted seconds of a step, the mean over the run
  int64_t arena() const { return held.arena; }
  int64_t states() const {
    return held.parameters + held.optimizer + held.gradients + held.constants + held.inputs;
  }
};

std::string gigabytes(int64_t bytes) {
  return bytes < 1000000000 ? fmt::format("{:.1f} MB", 1e-6 * double(bytes))
                            : fmt::format("{:.2f} GB", 1e-9 * double(bytes));
}

class Search {
public:
  explicit Search(const MemoryRequest &request) : request(request), worlds(request.worlds) {
    llvm::Expected<machine::Machine> loaded = machine::load(machineOf(request.pipeline));
    if (!loaded)
      throw ModelError("--machine: " + llvm::toString(loaded.takeError()));
    machine = std::move(*loaded);
  }

  MemoryAnswer run();

private:
  /// What was tried, of the choices that were not tried before.
  void evaluate(ArrayRef<MemoryChoice> choices, ArrayRef<int64_t> onWorlds);
  double predict(ModuleOp module, int64_t world);
  /// The trial of a choice on the number of ranks that holds most.
  const Trial *find(const MemoryChoice &choice) const;
  bool fits(const Trial &trial) const { return trial.arena() <= request.limit; }
  const Trial *fastest() const;
  void checkStates(const Trial &trial) const;
  /// By stage of the run, how much less its steps hold than those of the stage that holds most, as
  /// a joined module with nothing saved says.
  static std::vector<int64_t> spareOf(ModuleOp module, const memory::MemorySummary &held);
  /// What a choice saves in a stage of the run.
  int64_t savingIn(size_t stage, const MemoryChoice &choice) const;
  int64_t spendingIn(size_t stage, const MemoryChoice &choice) const;
  int64_t offloadingIn(size_t stage, const MemoryChoice &choice) const;
  int64_t spareIn(size_t stage, const MemoryChoice &choice) const;
  /// Looks for what makes so many tokens in a micro-batch fit.
  void searchLess(int64_t microBatch);
  /// Looks for what must go to the host's memory, as far as that is hidden, and what must be saved
  /// besides. True when some choice fits.
  bool searchOffloading(int64_t microBatch);
  /// Looks for the least that must be saved beside what `base`, a trial, does.
  void searchSaving(const MemoryChoice &base);
  bool isSaving(const Trial &trial, const MemoryChoice &base) const {
    return trial.world == world && trial.choice.microBatch == base.microBatch &&
           trial.choice.spendBytes == 0 && trial.choice.offloadBytes == base.offloadBytes;
  }
  /// What to save to look on both sides of the trial that holds least.
  SmallVector<int64_t> nearLeast(const MemoryChoice &base) const;
  /// Looks whether what is left below the limit makes a step faster.
  void searchSpending(int64_t microBatch);
  [[noreturn]] void refuse() const;
  std::string frontier(const Trial &chosen) const;

  const MemoryRequest &request;
  std::vector<int64_t> worlds;
  machine::Machine machine;
  int64_t world = 1; ///< the number of ranks that holds most
  std::vector<Trial> trials;
  std::map<int64_t, std::vector<int64_t>> spares; ///< by micro-batch: `spareOf`, as first tried
};

std::vector<int64_t> Search::spareOf(ModuleOp module, const memory::MemorySummary &held) {
  std::vector<int64_t> most(graph::runStagesOf(module).size());
  for (auto program : module.getOps<step::ProgramOp>()) {
    if (!llvm::is_contained({"first", "next", "last", "update"}, program.getRole().value_or("")))
      continue;
    for (const memory::ProgramMemory &of : held.programs)
      for (size_t stage = 0; of.name == program.getSymName() && stage < most.size(); ++stage)
        if (graph::isInStage(program, int64_t(stage)))
          most[stage] = std::max(most[stage], of.bytes);
  }
  const int64_t largest = *llvm::max_element(most);
  for (int64_t &bytes : most)
    bytes = largest - bytes;
  return most;
}

int64_t Search::spareIn(size_t stage, const MemoryChoice &choice) const {
  const auto spare = spares.find(choice.microBatch);
  return spare != spares.end() && stage < spare->second.size() ? spare->second[stage] : 0;
}

int64_t Search::savingIn(size_t stage, const MemoryChoice &choice) const {
  return std::max<int64_t>(0, choice.saveBytes - spareIn(stage, choice));
}

int64_t Search::spendingIn(size_t stage, const MemoryChoice &choice) const {
  return choice.spendBytes == 0 ? 0 : choice.spendBytes + spareIn(stage, choice);
}

int64_t Search::offloadingIn(size_t stage, const MemoryChoice &choice) const {
  return std::max<int64_t>(0, choice.offloadBytes - spareIn(stage, choice));
}

double Search::predict(ModuleOp module, int64_t ranks) {
  codegen::PlanParts parts;
  parts.target = request.pipeline.target;
  parts.world = ranks;
  double seconds = 0;
  runReporting(module.getContext(), "plan", [&]() -> LogicalResult {
    FailureOr<plan::Plan> plan = codegen::writePlan(module, std::move(parts));
    if (failed(plan))
      return failure();
    const simulate::Costs costs = simulate::costsOf(*plan, machine, ranks, {});
    const int64_t steps = std::max<int64_t>(1, plan->training.numIterations);
    for (const plan::StageSteps &part : plan::stagesOf(*plan, 0, steps)) {
      simulate::Settings settings;
      settings.world = ranks;
      settings.stage = part.stage;
      seconds += double(part.end - part.begin) / double(steps) *
                 simulate::simulate(*plan, machine, costs, settings).step;
    }
    return success();
  });
  return seconds;
}

void Search::evaluate(ArrayRef<MemoryChoice> choices, ArrayRef<int64_t> onWorlds) {
  struct Part {
    Trial trial;
    SmallVector<ModuleOp> stages; ///< of the run
  };
  std::vector<OwningOpRef<ModuleOp>> programs;
  std::vector<Part> parts;
  std::vector<StageRun> runs;
  for (const MemoryChoice &choice : choices)
    for (int64_t ranks : onWorlds) {
      if (llvm::any_of(trials, [&](const Trial &trial) {
            return trial.choice == choice && trial.world == ranks;
          }))
        continue;
      Part &part = parts.emplace_back();
      part.trial.choice = choice;
      part.trial.world = ranks;
      programs.push_back(request.trace(choice.microBatch));
      part.stages.push_back(*programs.back());
      for (OwningOpRef<ModuleOp> &other : partRunStages(part.stages.front()))
        part.stages.push_back(*programs.emplace_back(std::move(other)));
      for (auto [stage, module] : llvm::enumerate(part.stages)) {
        StageRun &run = runs.emplace_back(StageRun{module, request.pipeline});
        run.options.world = ranks;
        run.options.recompute.saveBytes = savingIn(stage, choice);
        run.options.recompute.spendBytes = spendingIn(stage, choice);
        run.options.recompute.next = 0;
        run.options.offload.bytes = offloadingIn(stage, choice);
      }
    }
  if (parts.empty())
    return;
  for (const Stage &stage : stages()) {
    if (stage.scope == Stage::Scope::World && runs.size() != parts.size()) {
      runs.clear();
      for (Part &part : parts) {
        runReporting(part.stages.front().getContext(), stage.name.str(),
                     [&] { return joinRunStages(part.stages); });
        runs.push_back({part.stages.front(), request.pipeline});
        runs.back().options.world = part.trial.world;
      }
    }
    runStage(stage, runs, nullptr, false, request.watch);
    if (stage.storage == Stage::Storage::Arena)
      break;
  }
  for (Part &part : parts) {
    part.trial.held = memory::summarizeMemory(part.stages.front());
    if (const MemoryChoice &choice = part.trial.choice;
        choice.saveBytes == 0 && choice.spendBytes == 0 && choice.offloadBytes == 0)
      spares.try_emplace(choice.microBatch, spareOf(part.stages.front(), part.trial.held));
    part.trial.step = predict(part.stages.front(), part.trial.world);
    trials.push_back(std::move(part.trial));
  }
}

const Trial *Search::find(const MemoryChoice &choice) const {
  for (const Trial &trial : trials)
    if (trial.choice == choice && trial.world == world)
      return &trial;
  return nullptr;
}

const Trial *Search::fastest() const {
  const Trial *best = nullptr;
  for (const Trial &trial : trials)
    if (trial.world == world && fits(trial) &&
        (!best || std::pair(trial.step, trial.choice) < std::pair(best->step, best->choice)))
      best = &trial;
  return best;
}

void Search::checkStates(const Trial &trial) const {
  if (trial.states() <= request.limit)
    return;
  throw ModelError(fmt::format(
      "--max-memory: {} is less than what {} holds from step to step on {} rank{}, {}: parameters "
      "{}, optimizer states {}, gradients {}; allow more, or share them among more ranks (--world, "
      "-D dist=zero2 where the model has it)",
      gigabytes(request.limit), request.model, trial.world, trial.world == 1 ? "" : "s",
      gigabytes(trial.states()), gigabytes(trial.held.parameters), gigabytes(trial.held.optimizer),
      gigabytes(trial.held.gradients)));
}

void Search::searchLess(int64_t microBatch) {
  if (fits(*find({microBatch})))
    return;
  const bool offloads = schedule::canOffload(machine) && !bool(request.pipeline.offload.forbid);
  if (!offloads || !searchOffloading(microBatch))
    searchSaving({microBatch});
}

bool Search::searchOffloading(int64_t microBatch) {
  const int64_t all = find({microBatch})->arena(), need = all - request.limit;
  const MemoryChoice asNeeded{microBatch, 0, 0, need}, most{microBatch, 0, 0, all};
  // To make the same again may be faster.
  evaluate({asNeeded, most, {microBatch, need}}, world);
  if (fits(*find(asNeeded)))
    return true;
  if (!fits(*find(most))) {
    searchSaving(most);
    return llvm::any_of(trials,
                        [&](const Trial &trial) { return isSaving(trial, most) && fits(trial); });
  }
  // Gaps between buffers take more than what is asked for.
  constexpr int rounds = 3;
  int64_t low = need, high = std::min(all, find(most)->held.host);
  for (int round = 0; round < rounds && low < high; ++round) {
    MemoryChoice next = asNeeded;
    next.offloadBytes = std::midpoint(low, high);
    evaluate(next, world);
    (fits(*find(next)) ? high : low) = next.offloadBytes;
  }
  return true;
}

void Search::searchSaving(const MemoryChoice &base) {
  auto saving = [&](int64_t bytes) {
    MemoryChoice choice = base;
    choice.saveBytes = bytes;
    return choice;
  };
  const Trial whole = *find(base);
  if (fits(whole))
    return;
  // All that can be saved, and what has to be if the estimate is right.
  const int64_t most = whole.arena(), need = whole.arena() - request.limit;
  evaluate({saving(need), saving(most)}, world);
  int64_t low = 0, high = most;
  if (!fits(*find(saving(need)))) {
    low = need;
    if (!fits(*find(saving(most))))
      high = 0; // more may be made again than is good for memory: something between may fit
  } else {
    high = need;
  }
  constexpr int roundsUntilOneFits = 6, roundsToRefine = 3;
  int refined = 0; // rounds since one fits
  for (int round = 0; high == 0 ? round < roundsUntilOneFits : refined < roundsToRefine; ++round) {
    refined += high > 0 ? 1 : 0;
    const int64_t missing = find(saving(low))->arena() - request.limit;
    SmallVector<int64_t> saved;
    if (high == 0 && round == 0) {
      const int64_t more = std::max<int64_t>(missing, request.limit / 64);
      saved = {low + more, low + 2 * more};
    } else if (high == 0) {
      saved = nearLeast(base);
    } else {
      if (high - low < request.limit / 128)
        return;
      // Where a line from one to the other meets the limit, and a little more.
      const int64_t spare = request.limit - find(saving(high))->arena();
      const double share = double(missing) / double(std::max<int64_t>(1, missing + spare));
      const int64_t next = low + std::clamp<int64_t>(int64_t(share * double(high - low)),
                                                     (high - low) / 16, (high - low) * 7 / 8);
      saved = {next, next + (high - next) / 8};
    }
    SmallVector<MemoryChoice> choices;
    for (int64_t each : saved)
      choices.push_back(saving(each));
    evaluate(choices, world);
    for (const MemoryChoice &choice : choices)
      if (fits(*find(choice)))
        high = high == 0 ? choice.saveBytes : std::min(high, choice.saveBytes);
    low = 0;
    for (const Trial &trial : trials)
      if (isSaving(trial, base) && !fits(trial) && (high == 0 || trial.choice.saveBytes < high))
        low = std::max(low, trial.choice.saveBytes);
  }
}

SmallVector<int64_t> Search::nearLeast(const MemoryChoice &base) const {
  std::map<int64_t, int64_t> arenas; // by what was to be saved
  for (const Trial &trial : trials)
    if (isSaving(trial, base))
      arenas[trial.choice.saveBytes] = trial.arena();
  const auto least = std::min_element(arenas.begin(), arenas.end(),
                                      [](auto &a, auto &b) { return a.second < b.second; });
  SmallVector<int64_t> found;
  auto between = [&](auto a, auto b) { found.push_back(std::midpoint(a->first, b->first)); };
  if (auto next = std::next(least); next != arenas.end())
    between(least, next);
  for (auto at = least; at != arenas.begin() && found.size() < 3; --at)
    between(std::prev(at), at);
  return found;
}

void Search::searchSpending(int64_t microBatch) {
  const Trial *found = find({microBatch});
  if (!found || !fits(*found))
    return;
  const int64_t spare = request.limit - found->arena();
  // Gaps between buffers may take more than what is kept.
  for (int64_t spend : {spare, spare - spare / 8}) {
    const MemoryChoice choice{microBatch, 0, spend};
    if (spend <= 0)
      return;
    evaluate(choice, world);
    if (fits(*find(choice)))
      return;
  }
}

MemoryAnswer Search::run() {
  SmallVector<MemoryChoice> asGiven;
  for (int64_t tokens : request.microBatches)
    asGiven.push_back({tokens});
  evaluate(asGiven.front(), worlds);
  const Trial *largest = trials.data();
  for (const Trial &trial : trials) {
    checkStates(trial);
    if (trial.arena() > largest->arena())
      largest = &trial;
  }
  world = largest->world;
  if (!fits(*largest)) {
    evaluate(asGiven, world);
    for (const MemoryChoice &choice : asGiven) {
      // What is saved costs time: a micro-batch that is slower without than another one with need
      // not be tried.
      const Trial *best = fastest();
      if (!best || find(choice)->step < best->step)
        searchLess(choice.microBatch);
    }
  }
  for (const MemoryChoice &choice : asGiven)
    searchSpending(choice.microBatch);
  const Trial *best = fastest();
  if (!best)
    refuse();
  // Another number of ranks may hold more with that choice.
  const MemoryChoice choice = best->choice;
  evaluate(choice, worlds);
  for (const Trial &trial : trials)
    if (trial.choice == choice && !fits(trial)) {
      world = trial.world;
      evaluate(asGiven, world);
      for (const MemoryChoice &other : asGiven)
        searchLess(other.microBatch);
      if (!fastest())
        refuse();
      break;
    }
  best = fastest();
  MemoryAnswer answer{best->choice, {}, {}, {}, frontier(*best)};
  for (size_t stage = 0; stage < spares[best->choice.microBatch].size(); ++stage) {
    answer.saveBytes.push_back(savingIn(stage, best->choice));
    answer.spendBytes.push_back(spendingIn(stage, best->choice));
    answer.offloadBytes.push_back(offloadingIn(stage, best->choice));
  }
  return answer;
}

void Search::refuse() const {
  const Trial *least = nullptr;
  for (const Trial &trial : trials)
    if (trial.world == world && (!least || trial.arena() < least->arena()))
      least = &trial;
  const auto largest = llvm::max_element(
      least->held.programs, [](const auto &a, const auto &b) { return a.bytes < b.bytes; });
  const std::string name = largest == least->held.programs.end() ? "" : largest->name;
  const bool isTraining = llvm::is_contained({"first", "next", "last", "update", "measure"},
                                             llvm::StringRef(name).split('.').first);
  throw ModelError(fmt::format(
      "--max-memory: {} is too little for {} on {} rank{}: at least {} with all made again that "
      "can be, {} of it from step to step, and {}; allow more, or give {}",
      gigabytes(request.limit), request.model, world, world == 1 ? "" : "s",
      gigabytes(least->arena()), gigabytes(least->states()), memory::peakLine(least->held, 2),
      isTraining ? "a micro-batch fewer tokens, or share states among more ranks"
                 : fmt::format("the program '{}' fewer tokens", name)));
}

std::string Search::frontier(const Trial &chosen) const {
  std::vector<const Trial *> rows;
  for (const Trial &trial : trials)
    if (trial.world == world && llvm::none_of(trials, [&](const Trial &other) {
          return other.world == world && other.arena() <= trial.arena() &&
                 other.step <= trial.step &&
                 (other.arena() < trial.arena() || other.step < trial.step ||
                  other.choice < trial.choice);
        }))
      rows.push_back(&trial);
  std::sort(rows.begin(), rows.end(),
            [](const Trial *a, const Trial *b) { return a->arena() > b->arena(); });
  double fastestStep = std::numeric_limits<double>::infinity();
  for (const Trial *row : rows)
    fastestStep = std::min(fastestStep, row->step);
  std::string text =
      fmt::format("{}: memory of a rank against the predicted step, of {} trial{}, on {} of {}:\n",
                  request.model, trials.size(), trials.size() == 1 ? "" : "s",
                  world == 1 ? "1 rank" : fmt::format("{} ranks", world), machine.name);
  for (const Trial *row : rows) {
    const std::string cut =
        row->choice.microBatch ? fmt::format("  micro-batch {}", row->choice.microBatch) : "";
    const std::string saving =
        row->choice.saveBytes
            ? fmt::format("  products made again to save {}", gigabytes(row->choice.saveBytes))
        : row->choice.spendBytes ? fmt::format("  operands of products kept, in {} at most",
                                               gigabytes(row->choice.spendBytes))
                                 : "  no product made again";
    const std::string offloading =
        row->held.host ? fmt::format("  {} taken to the host's memory", gigabytes(row->held.host))
                       : "";
    text += fmt::format("{:>12} {:>12.3f} ms  {:>+6.1f}%{}{}{}{}\n", gigabytes(row->arena()),
                        1e3 * row->step, 100 * (row->step / fastestStep - 1), cut, saving,
                        offloading, row == &chosen ? "  <- chosen" : "");
  }
  return text;
}

} // namespace

MemoryAnswer chooseMemory(const MemoryRequest &request) { return Search(request).run(); }

} // namespace nano
