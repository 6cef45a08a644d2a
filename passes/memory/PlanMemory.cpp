// nano-plan-memory: fixes every buffer's offset in one arena by lifetimes.
//
//   | states | scalars | inputs | transient buffers of `first`    |
//                               | transient buffers of `update`       |
//                               | caches | logits | transient buffers of `generate` |
//                               | caches | transient buffers of `decode` |
//
// What lives from step to step comes first, at fixed offsets, and, for the programs that sample,
// what lives from token to token; the programs run one after the other,
// so their transient buffers overlay each other, and with them the large outputs of one program
// alone, which the host reads when that ends. Within a program, buffers whose lifetimes do not
// meet may share bytes (`Lifetimes`, `Packing`). Every offset is a multiple of 256. A
// `step.arena` says how large the arena is, and its floor: what it needs at least, the most bytes
// that are in use at one moment.
//
// It runs on scheduled programs: lifetimes depend on the order that streams and events keep.
#include "passes/Passes.h"
#include "passes/memory/Lifetimes.h"
#include "passes/memory/MemoryReport.h"
#include "passes/memory/Packing.h"

#include "llvm/Support/MathExtras.h"

namespace nano {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::memory;
namespace step = nano::step;
namespace graph = nano::graph;

namespace {

struct PlanMemory : public nano::impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder builder(module);
    int64_t top = 0;
    auto take = [&](int64_t bytes) {
      int64_t offset = top;
      top += int64_t(llvm::alignTo(bytes, arenaAlignment));
      return builder.getI64IntegerAttr(offset);
    };
    auto takeState = [&](graph::StateOp state) {
      state.setOffsetAttr(take(step::contiguousBytes(step::memrefOf(state.getTensorType()))));
    };
    for (auto state : module.getOps<graph::StateOp>())
      if (state.getRole() != graph::Role::Cache)
        takeState(state);
    for (auto scalar : module.getOps<graph::ScalarOp>()) {
      scalar.setOffset(top);
      top += scalarAlignment;
    }
    top = int64_t(llvm::alignTo(top, arenaAlignment));
    auto takeInput = [&](step::InputOp input) {
      input.setOffsetAttr(take(step::contiguousBytes(cast<MemRefType>(input.getType()))));
    };
    const auto own = ownOutputs(module);
    for (auto input : module.getOps<step::InputOp>())
      if (!own.contains(input))
        takeInput(input);
    const int64_t bottom = top;
    const auto caches = cachePrograms(module);
    for (const auto &[cache, programs] : caches)
      takeState(cache);
    const int64_t behindCaches = top;
    auto samples = [&](Operation *program) {
      return llvm::any_of(caches, [&](auto &cache) { return cache.second.contains(program); });
    };
    llvm::DenseMap<Operation *, int64_t> bottoms; // of a program's transient buffers
    for (auto program : module.getOps<step::ProgramOp>()) {
      top = samples(program) ? behindCaches : bottom;
      for (auto [output, owner] : own)
        if (owner == program)
          takeInput(output);
      bottoms[program] = top;
    }

    step::KernelTable kernels(module);
    std::vector<Lifetimes> lifetimes;
    std::vector<std::vector<Item>> items;
    int64_t floor = bottom;
    for (auto program : module.getOps<step::ProgramOp>()) {
      lifetimes.push_back(lifetimesOf(program, kernels));
      items.push_back(packingItems(lifetimes.back()));
      floor = std::max(floor, bottoms[program] + liveBytes(items.back()));
    }
    int64_t arena = bottom;
    for (auto [program, buffers, list] :
         llvm::zip(module.getOps<step::ProgramOp>(), lifetimes, items)) {
      // The arena is as large as the largest program needs: no other need be packed tighter.
      const int64_t first = bottoms[program];
      Packing packing = pack(list, floor - first);
      for (auto [lifetime, offset] : llvm::zip(buffers.buffers, packing.offsets))
        lifetime.buffer.setOffset(first + offset);
      arena = std::max(arena, first + packing.bytes);
    }
    auto atStart = OpBuilder::atBlockBegin(module.getBody());
    step::ArenaOp::create(atStart, module.getLoc(), uint64_t(arena), uint64_t(floor));
  }
};

} // namespace
