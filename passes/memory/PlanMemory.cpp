// nano-plan-memory: fixes every buffer's offset in one arena by lifetimes.
//
//   | states | scalars | inputs | gradients, transient buffers of `last`  |
//                               | gradients, transient buffers of `update`       |
//                               | caches | logits | transient buffers of `generate` |
//                               | caches | transient buffers of `decode` |
//
// What lives from step to step comes first, at fixed offsets, and, for the programs that sample,
// what lives from token to token; the programs run one after the other,
// so their transient buffers overlay each other, and with them the large outputs of one program
// alone, which the host reads when that ends. Within a program, buffers whose lifetimes do not
// meet may share bytes (`Lifetimes`, `Packing`); of one that is put together part by part, the
// bytes of parts that are still to come are free. So may gradients that a step writes anew
// (`StepStates`): activations lie in their bytes until the backward pass writes them. They have
// one offset in all programs, for which the program that needs most memory is packed first; two
// may share bytes as well, where no program needs both at once. Every offset is a multiple of 256.
// A `step.arena` says how large the arena is, and its floor: what it needs at least, the most bytes
// that are in use at one moment. Buffers in the host's memory are packed likewise, behind the
// arena.
//
// It runs on scheduled programs: lifetimes depend on the order that streams and events keep.
#include "passes/Passes.h"
#include "passes/memory/Lifetimes.h"
#include "passes/memory/MemoryReport.h"
#include "passes/memory/Packing.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

namespace nano {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::memory;
namespace step = nano::step;
namespace graph = nano::graph;

namespace {

/// Offsets for one module.
class Planner {
public:
  explicit Planner(ModuleOp module)
      : module(module), kernels(module), programs(module.getOps<step::ProgramOp>()),
        caches(cachePrograms(module)), own(ownOutputs(module)) {}

  /// Plans memory; `within` are the states that live within a step, whose bytes others may use. The
  /// arena's bytes; none where a program uses two of these at once to which another one, where they
  /// never meet, has given the same bytes. Then one of them is `conflict`.
  std::optional<int64_t> run(ArrayRef<StepState> within);
  graph::StateOp conflict() const { return met; }
  int64_t floor() const { return least; }
  /// Places what lies in the host's memory from offset `begin` on; the bytes that it takes.
  int64_t placeInHost(int64_t begin);

private:
  IntegerAttr take(int64_t bytes) {
    const int64_t offset = top;
    top += int64_t(llvm::alignTo(bytes, arenaAlignment));
    return attribute(offset);
  }
  IntegerAttr attribute(int64_t value) { return Builder(module).getI64IntegerAttr(value); }
  void takeState(graph::StateOp state) {
    state.setOffsetAttr(take(step::contiguousBytes(step::memrefOf(state.getTensorType()))));
  }
  void takeInput(step::InputOp input) {
    input.setOffsetAttr(take(step::contiguousBytes(cast<MemRefType>(input.getType()))));
  }
  /// The state of a program's items with given offsets that another one overlaps while both are in
  /// use, if there is one.
  static graph::StateOp findConflict(const Lifetimes &lifetimes, ArrayRef<Item> items);
  /// Places what lives from step to step, what sampling keeps and large outputs of one program. By
  /// program, where its transient buffers begin: at one place for all that touch states `within`.
  std::vector<int64_t> placeKept(ArrayRef<StepState> within);

  ModuleOp module;
  step::KernelTable kernels;
  SmallVector<step::ProgramOp> programs;
  llvm::MapVector<graph::StateOp, llvm::SmallPtrSet<Operation *, 2>> caches;
  llvm::MapVector<step::InputOp, step::ProgramOp> own;
  int64_t top = 0, least = 0;
  graph::StateOp met;
};

std::vector<int64_t> Planner::placeKept(ArrayRef<StepState> within) {
  top = 0;
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getRole() != graph::Role::Cache &&
        llvm::none_of(within, [&](const StepState &of) { return of.state == state; }))
      takeState(state);
  for (auto scalar : module.getOps<graph::ScalarOp>()) {
    scalar.setOffset(top);
    top += scalarAlignment;
  }
  top = int64_t(llvm::alignTo(top, arenaAlignment));
  for (auto input : module.getOps<step::InputOp>())
    if (!own.contains(input))
      takeInput(input);
  const int64_t bottom = top;
  for (const auto &[cache, programs] : caches)
    takeState(cache);
  const int64_t behindCaches = top;
  std::vector<int64_t> bottoms;
  for (step::ProgramOp program : programs) {
    const bool samples =
        llvm::any_of(caches, [&](auto &cache) { return cache.second.contains(program); });
    top = samples ? behindCaches : bottom;
    for (auto [output, owner] : own)
      if (owner == program)
        takeInput(output);
    bottoms.push_back(top);
  }
  auto touches = [&](step::ProgramOp program) {
    return llvm::any_of(within, [&](const StepState &of) { return of.programs.contains(program); });
  };
  int64_t common = bottom;
  for (auto [program, own] : llvm::zip(programs, bottoms))
    if (touches(program))
      common = std::max(common, own);
  for (auto [program, own] : llvm::zip(programs, bottoms))
    if (touches(program))
      own = common;
  least = bottom;
  return bottoms;
}

graph::StateOp Planner::findConflict(const Lifetimes &lifetimes, ArrayRef<Item> items) {
  SmallVector<size_t> given;
  for (auto [i, a] : llvm::enumerate(items)) {
    if (a.offset < 0)
      continue;
    for (size_t j : given) {
      const Item &b = items[j];
      if (a.begin <= b.end && b.begin <= a.end && a.offset < b.offset + b.bytes &&
          b.offset < a.offset + a.bytes)
        return cast<graph::StateOp>(*lifetimes.buffers[a.bytes < b.bytes ? i : j].buffer);
    }
    given.push_back(i);
  }
  return {};
}

std::optional<int64_t> Planner::run(ArrayRef<StepState> within) {
  const std::vector<int64_t> bottoms = placeKept(within);
  std::vector<Lifetimes> lifetimes;
  std::vector<std::vector<Item>> items;
  std::vector<int64_t> needs;
  for (auto [program, bottom] : llvm::zip(programs, bottoms)) {
    lifetimes.push_back(lifetimesOf(program, kernels, within));
    items.push_back(packingItems(lifetimes.back()));
    needs.push_back(bottom + liveBytes(items.back()));
    least = std::max(least, needs.back());
  }
  // The program that needs most decides where states lie that live within a step.
  std::vector<size_t> order(programs.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](size_t a, size_t b) { return needs[a] > needs[b]; });
  int64_t arena = least;
  llvm::DenseMap<Operation *, int64_t> placed;
  for (size_t index : order) {
    // The arena is as large as the largest program needs: no other need be packed tighter.
    const int64_t first = bottoms[index];
    for (auto [lifetime, item] : llvm::zip(lifetimes[index].buffers, items[index]))
      if (auto found = placed.find(lifetime.buffer); found != placed.end())
        item.offset = found->second - first;
    met = findConflict(lifetimes[index], items[index]);
    if (met)
      return std::nullopt;
    Packing packing = pack(items[index], arena - first);
    for (auto [lifetime, offset] : llvm::zip(lifetimes[index].buffers, packing.offsets)) {
      lifetime.buffer.setOffsetAttr(attribute(first + offset));
      if (isa<graph::StateOp>(lifetime.buffer))
        placed[lifetime.buffer] = first + offset;
    }
    arena = std::max(arena, first + packing.bytes);
  }
  return arena;
}

int64_t Planner::placeInHost(int64_t begin) {
  int64_t most = 0;
  for (step::ProgramOp program : programs) {
    Lifetimes lifetimes = lifetimesOf(program, kernels, {}, Space::Host);
    const Packing packing = pack(packingItems(lifetimes), most);
    for (auto [lifetime, offset] : llvm::zip(lifetimes.buffers, packing.offsets))
      lifetime.buffer.setOffsetAttr(attribute(begin + offset));
    most = std::max(most, packing.bytes);
  }
  return most;
}

struct PlanMemory : public nano::impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Planner planner(module);
    SmallVector<StepState> within = stepStates(module, step::KernelTable(module), leastShared);
    std::optional<int64_t> arena;
    while (!(arena = planner.run(within)))
      llvm::erase_if(within, [&](StepState &of) { return of.state == planner.conflict(); });
    // States in the way of buffers may cost more than their bytes.
    if (!within.empty() && *arena > planner.floor()) {
      const std::optional<int64_t> apart = planner.run({});
      arena = *apart < *arena ? apart : planner.run(within);
    }
    auto atStart = OpBuilder::atBlockBegin(module.getBody());
    auto op = step::ArenaOp::create(atStart, module.getLoc(), uint64_t(*arena),
                                    uint64_t(planner.floor()));
    op.setHost(uint64_t(planner.placeInHost(op.getHostBegin())));
  }
};

} // namespace
