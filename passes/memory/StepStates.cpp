// Finds the gradients that live within a step only, by what its programs read and write in order.
#include "passes/memory/StepStates.h"

#include "ir/step/StepOrder.h"

using namespace mlir;
using namespace nano::step;

namespace nano::memory {
namespace {

/// By state, the programs that touch it, and whether what was there before is read: it is not where
/// the first command that touches the state only writes it, and whole.
using Touches = llvm::DenseMap<const void *, llvm::SmallMapVector<Operation *, StepUse, 2>>;

Touches touchesOf(ModuleOp module, const KernelTable &kernels) {
  Touches touches;
  for (auto program : module.getOps<ProgramOp>())
    for (auto command : program.getBody().front().getOps<StepCommandOpInterface>()) {
      llvm::SmallDenseMap<const void *, StepUse, 4> first; // of states that it touches first
      for (const Access &access : accessesOf(command, kernels)) {
        auto state = dyn_cast<StateOp>(bufferOf(access.buffer));
        const void *key = state ? bufferKey(access.buffer) : nullptr;
        if (!key || touches[key].contains(program))
          continue;
        const int64_t whole = contiguousBytes(state.getType());
        const bool isWhole = contiguousBytes(cast<MemRefType>(access.buffer.getType())) == whole;
        first[key].fromBefore |= access.reads || !access.writes || !isWhole;
      }
      for (const auto &[key, use] : first)
        touches[key].insert({program, use});
    }
  return touches;
}

} // namespace

SmallVector<StepState> stepStates(ModuleOp module, const KernelTable &kernels, int64_t leastBytes) {
  const Touches touches = touchesOf(module, kernels);
  const SmallVector<StepOrder> orders = stepOrders(module);
  SmallVector<StepState> states;
  for (auto state : module.getOps<graph::StateOp>()) {
    const auto found = touches.find(state.getSymNameAttr().getAsOpaquePointer());
    if (state.getRole() != graph::Role::Gradient || found == touches.end() ||
        contiguousBytes(memrefOf(state.getTensorType())) < leastBytes)
      continue;
    StepState of{state, found->second};
    bool isWithin = true;
    llvm::SmallPtrSet<Operation *, 4> inSteps;
    for (const StepOrder &order : orders) {
      bool isRead = false; // by a program behind
      for (ProgramOp program : llvm::reverse(order.programs)) {
        auto use = of.programs.find(program);
        if (use == of.programs.end()) {
          isWithin &= !isRead; // it would have to keep it
          continue;
        }
        inSteps.insert(program);
        const bool repeats = program.getRole() == "next";
        use->second.untilAfter |= isRead || (repeats && use->second.fromBefore);
        // `next` need not run.
        isRead = use->second.fromBefore || (isRead && repeats);
      }
      isWithin &= !isRead;
    }
    for (const auto &[program, use] : of.programs)
      isWithin &= inSteps.contains(program) && !(use.fromBefore && use.untilAfter);
    if (isWithin)
      states.push_back(std::move(of));
  }
  return states;
}

} // namespace nano::memory
