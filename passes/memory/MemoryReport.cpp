// The report of a memory plan, recomputed from the planned IR.
#include "passes/memory/MemoryReport.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace nano::step;

namespace nano::memory {

/// Steps in which a buffer grows; more of them cost packing time and leave others little more.
static constexpr size_t mostSteps = 16;

std::vector<Item> packingItems(const Lifetimes &lifetimes) {
  auto aligned = [](int64_t bytes) { return int64_t(llvm::alignTo(bytes, arenaAlignment)); };
  std::vector<Item> items;
  for (const Lifetime &lifetime : lifetimes.buffers) {
    Item &item = items.emplace_back();
    item.begin = lifetime.begin;
    item.end = lifetime.end;
    item.bytes = aligned(lifetime.bytes);
    std::vector<Growth> growth;
    for (const Growth &step : lifetime.growth)
      if (const int64_t bytes = aligned(step.bytes); growth.empty() || bytes > growth.back().bytes)
        growth.push_back({step.at, bytes});
    item.growth = inSteps(growth, mostSteps);
  }
  return items;
}

/// The states that live within a step and lie where others may: behind all that lives from step to
/// step.
static SmallVector<StepState> sharingStates(ModuleOp module, const KernelTable &kernels) {
  SmallVector<StepState> states = stepStates(module, kernels);
  const auto own = ownOutputs(module);
  int64_t last = -1; // offset of what lives from step to step
  for (auto placed : module.getOps<graph::PlacedOpInterface>()) {
    auto state = dyn_cast<graph::StateOp>(*placed);
    auto input = dyn_cast<InputOp>(*placed);
    if (!placed.getOffsetAttr() || (state && state.getRole() == graph::Role::Cache) ||
        (input && own.contains(input)) ||
        llvm::any_of(states, [&](const StepState &of) { return of.state == state; }))
      continue;
    last = std::max(last, placed.getOffsetAttr().getInt());
  }
  llvm::erase_if(states, [&](StepState &of) {
    const IntegerAttr offset = of.state.getOffsetAttr();
    return !offset || offset.getInt() < last;
  });
  return states;
}

static ProgramMemory summarize(ProgramOp program, const KernelTable &kernels,
                               ArrayRef<StepState> within) {
  ProgramMemory memory;
  memory.name = program.getSymName();
  Lifetimes lifetimes = lifetimesOf(program, kernels, within);
  std::vector<Item> items = packingItems(lifetimes);
  int64_t moment = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges;                              // of the arena
  std::map<std::pair<std::string, std::string>, ProgramMemory::Holder> holders; // by name and line
  memory.floor = liveBytes(items, &moment);
  for (auto [lifetime, item] : llvm::zip(lifetimes.buffers, items)) {
    Lifetime buffer = lifetime;
    if (const IntegerAttr offset = buffer.buffer.getOffsetAttr())
      ranges.emplace_back(offset.getInt(), offset.getInt() + item.bytes);
    const int64_t bytes = item.bytesAt(moment);
    if (bytes == 0)
      continue;
    auto transient = dyn_cast<BufferOp>(*buffer.buffer);
    std::string name = transient ? transient.getName().str() : "gradient",
                line = lineOf(buffer.buffer.getLoc());
    ProgramMemory::Holder &holder = holders[{name, line}];
    holder.name = name;
    holder.line = line;
    holder.bytes += bytes;
    ++holder.count;
  }
  for (const auto &[key, holder] : holders)
    memory.holders.push_back(holder);
  llvm::sort(ranges);
  for (int64_t top = 0; const auto &[begin, end] : ranges) {
    memory.bytes += std::max<int64_t>(0, end - std::max(begin, top));
    top = std::max(top, end);
  }
  if (size_t(moment) < lifetimes.commands.size())
    memory.moment = describeCommand(lifetimes.commands[moment]);
  std::stable_sort(memory.holders.begin(), memory.holders.end(),
                   [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  return memory;
}

MemorySummary summarizeMemory(ModuleOp module) {
  MemorySummary summary;
  if (ArenaOp arena = arenaOf(module)) {
    summary.arena = int64_t(arena.getBytes());
    summary.floor = int64_t(arena.getFloor());
    summary.host = int64_t(arena.getHost());
  }
  KernelTable kernels(module);
  const auto own = ownOutputs(module);
  const auto caches = cachePrograms(module);
  const SmallVector<StepState> within = sharingStates(module, kernels);
  for (Operation &op : *module.getBody()) {
    if (auto state = dyn_cast<graph::StateOp>(op)) {
      if (llvm::any_of(within, [&](const StepState &of) { return of.state == state; }))
        continue;
      int64_t bytes =
          llvm::alignTo(contiguousBytes(memrefOf(state.getTensorType())), arenaAlignment);
      switch (state.getRole()) {
      case graph::Role::Parameter:
        summary.parameters += bytes;
        break;
      case graph::Role::Optimizer:
        summary.optimizer += bytes;
        break;
      case graph::Role::Gradient:
        summary.gradients += bytes;
        break;
      case graph::Role::Constant:
        summary.constants += bytes;
        break;
      case graph::Role::Report:
      case graph::Role::Cache:
        break;
      }
    } else if (isa<graph::ScalarOp>(op)) {
      summary.inputs += scalarAlignment;
    } else if (auto input = dyn_cast<InputOp>(op); input && !own.contains(input)) {
      summary.inputs +=
          llvm::alignTo(contiguousBytes(cast<MemRefType>(input.getType())), arenaAlignment);
    } else if (auto program = dyn_cast<ProgramOp>(op)) {
      ProgramMemory &memory = summary.programs.emplace_back(summarize(program, kernels, within));
      for (auto [output, owner] : own) {
        if (owner != program)
          continue;
        const auto bytes = int64_t(
            llvm::alignTo(contiguousBytes(cast<MemRefType>(output.getType())), arenaAlignment));
        memory.bytes += bytes;
        memory.floor += bytes;
        memory.holders.push_back({output.getSymName().str(), "", bytes, 1});
      }
      int64_t kept = 0;
      for (auto [cache, programs] : caches)
        kept += programs.contains(program)
                    ? int64_t(llvm::alignTo(contiguousBytes(memrefOf(cache.getTensorType())),
                                            arenaAlignment))
                    : 0;
      if (kept > 0) {
        memory.bytes += kept;
        memory.floor += kept;
        memory.holders.push_back({"cache", "", kept, 1});
      }
      std::stable_sort(memory.holders.begin(), memory.holders.end(),
                       [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
    }
  }
  return summary;
}

/// "1.50 GB", in powers of ten as sizes of memory are quoted.
static std::string bytesText(int64_t bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = double(bytes);
  unsigned unit = 0;
  while (value >= 999.995 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? llvm::formatv("{0} B", bytes).str()
                   : llvm::formatv("{0:f2} {1}", value, units[unit]).str();
}

static std::string aboveFloor(int64_t bytes, int64_t floor) {
  if (bytes <= floor)
    return "at the floor";
  return llvm::formatv("{0:f2}% above the floor of {1}",
                       floor ? 100.0 * double(bytes - floor) / double(floor) : 0.0,
                       bytesText(floor))
      .str();
}

std::string memoryLine(const MemorySummary &summary) {
  return "arena " + bytesText(summary.arena) + " a rank, " +
         aboveFloor(summary.arena, summary.floor) +
         (summary.host > 0 ? ", and " + bytesText(summary.host) + " in the host's memory" : "");
}

std::string peakLine(const MemorySummary &summary, size_t holders) {
  auto largest =
      llvm::max_element(summary.programs, [](const ProgramMemory &a, const ProgramMemory &b) {
        return a.bytes < b.bytes;
      });
  if (largest == summary.programs.end() || largest->holders.empty())
    return "";
  std::string text =
      largest->name + " holds " + bytesText(largest->floor) + " at " + largest->moment;
  const char *separator = ": ";
  for (const ProgramMemory::Holder &holder :
       llvm::ArrayRef(largest->holders).take_front(std::min(holders, largest->holders.size()))) {
    text += separator + bytesText(holder.bytes) + " " + holder.name;
    if (holder.count > 1)
      text += " × " + std::to_string(holder.count);
    if (!holder.line.empty())
      text += " (" + holder.line + ")";
    separator = ", ";
  }
  return text;
}

std::string memoryReport(const MemorySummary &summary, size_t rows) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << memoryLine(summary) << "\n";
  auto row = [&](const char *what, int64_t bytes) {
    out << llvm::formatv("  {0,-12} {1,12}\n", what, bytesText(bytes));
  };
  row("parameters", summary.parameters);
  row("optimizer", summary.optimizer);
  row("gradients", summary.gradients);
  if (summary.constants > 0)
    row("tables", summary.constants);
  row("inputs", summary.inputs);
  for (const ProgramMemory &program : summary.programs) {
    out << llvm::formatv("program {0}: {1} of transient buffers, {2}\n", program.name,
                         bytesText(program.bytes), aboveFloor(program.bytes, program.floor));
    if (program.holders.empty())
      continue;
    out << "  most are in use at " << program.moment << ":\n";
    size_t shown = std::min(rows, program.holders.size());
    for (const ProgramMemory::Holder &holder : llvm::ArrayRef(program.holders).take_front(shown)) {
      double share = program.floor ? 100.0 * double(holder.bytes) / double(program.floor) : 0;
      std::string times = holder.count > 1 ? " × " + std::to_string(holder.count) : "";
      out << llvm::formatv("  {0,12} {1,6:f1}%  {2}{3}{4}{5}\n", bytesText(holder.bytes), share,
                           holder.name, times, holder.line.empty() ? "" : "  ", holder.line);
    }
    if (shown < program.holders.size()) {
      int64_t rest = 0;
      for (const ProgramMemory::Holder &holder : llvm::ArrayRef(program.holders).drop_front(shown))
        rest += holder.bytes;
      out << llvm::formatv("  {0,12} {1,6:f1}%  at {2} other lines\n", bytesText(rest),
                           program.floor ? 100.0 * double(rest) / double(program.floor) : 0.0,
                           program.holders.size() - shown);
    }
  }
  return text;
}

} // namespace nano::memory
