// nano-distribute: spreads a step over ranks: which micro-batch programs run, what is communicated
// and who keeps which gradient.
//
//   nano.program @next() {role = "next"} {          nano.program @last() {role = "last"} {
//     %g = …                                          %g = …
//     %a = nano.load @grad.w                          %a = nano.load @grad.w
//     %s = nano.add %a, %g                      ⇒     %s = nano.add %a, %g
//     nano.store %s, @grad.w                          %sum = nano.all_reduce %s
//   }                                                 nano.store %sum, @grad.w
//                                                   }
//
// Data parallel: every rank walks over its own micro-batches with the same parameters; `last`, what
// the last micro-batch of a step runs, adds the gradients up over ranks where each is complete, so
// that backward hides it. Gradients whose optimizers are worth sharing are left as shards
// (GradientShards.h); the optimizers, next, see from the gradients' states what is theirs to do.
//
// Gradients of an optimizer that takes a step on every k-th step accumulate over k steps, locally,
// and only the last of them communicates and uses them: steps have phases. States of the model's
// own, which its training program writes, meet in the last micro-batch too, or are kept by rank
// (OwnStates.h).
//
// On the graph, where a gradient is one named value; after the scaling of 8-bit products, which is
// the same for every number of ranks; before the optimizers are written out, because a shard's
// update is another program; and before fusion, which must not look across a collective.
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Phases.h"
#include "passes/Passes.h"
#include "passes/distribute/GradientShards.h"
#include "passes/distribute/OwnStates.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

namespace nano {
#define GEN_PASS_DEF_DISTRIBUTE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;
using namespace nano::distribute;

namespace {

/// Removes ops that nothing needs, last first.
void eraseDead(ProgramOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Removes what is written for programs that do not run: states of a step that no program loads.
/// `kept` are loaded by programs that are still to come.
void dropUnread(ModuleOp module, const llvm::StringSet<> &kept) {
  llvm::StringSet<> loaded;
  module.walk([&](LoadOp load) { loaded.insert(load.getSymbol()); });
  llvm::StringSet<> dropped;
  for (auto state : llvm::make_early_inc_range(module.getOps<StateOp>())) {
    StringRef name = state.getSymName();
    if (state.getRole() != Role::Gradient || loaded.contains(name) || kept.contains(name))
      continue;
    dropped.insert(name);
    state.erase();
  }
  for (auto function : module.getOps<ProgramOp>()) {
    for (StoreOp store : llvm::to_vector(function.getOps<StoreOp>()))
      if (dropped.contains(store.getSymbol()))
        store.erase();
    eraseDead(function);
  }
}

/// One rank: nothing is to be combined with.
void eraseCollectives(ModuleOp module) {
  module.walk([](AllReduceOp op) {
    op.replaceAllUsesWith(op.getX());
    op.erase();
  });
}

struct Distribute : public nano::impl::DistributeBase<Distribute> {
  using DistributeBase::DistributeBase;

  void runOnOperation() override {
    if (failed(distribute()))
      signalPassFailure();
  }

private:
  LogicalResult distribute();
  /// How many micro-batches a rank walks over in a step.
  FailureOr<int64_t> microBatches();
  FailureOr<Strategy> strategy();
  /// Makes the programs of each phase's micro-batches and drops what is not run.
  LogicalResult makePrograms(int64_t microBatches);
  /// A program of the role for each value that `key` has over the phases, made from `base`, which
  /// is the last of them. `finish` completes one that runs in the given phases.
  void makeVariants(ProgramOp base, StringRef role, function_ref<int64_t(int64_t)> key,
                    function_ref<void(ProgramOp, int64_t)> finish);

  int64_t phases = 1;
  /// Gradients of optimizers of every so many steps, more than one.
  std::map<int64_t, llvm::StringSet<>> accumulated;
};

FailureOr<int64_t> Distribute::microBatches() {
  ModuleOp module = getOperation();
  if (world < 1 || maxGroup < 1 || minShard < 1)
    return module.emitError("the options world, max-group and min-shard must be at least 1, are ")
           << world.getValue() << ", " << maxGroup.getValue() << " and " << minShard.getValue();
  const DictionaryAttr training = trainingOf(module);
  auto number = [&](StringRef name) {
    auto value = training ? training.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? value.getInt() : 0;
  };
  const int64_t sequence = number("seq_len"), batch = number("global_batch");
  if (sequence < 1 || batch < 1)
    return module.emitError("training") << " does not say seq_len and global_batch";
  if (batch % (sequence * world) != 0)
    return module.emitError("global_batch ")
           << batch << " is not a multiple of seq_len " << sequence << " times " << world.getValue()
           << " ranks";
  return batch / (sequence * world);
}

FailureOr<Strategy> Distribute::strategy() {
  const DictionaryAttr training = trainingOf(getOperation());
  auto name = training.getAs<StringAttr>("dist");
  if (!name || name == "allreduce")
    return Strategy::AllReduce;
  if (name == "zero2")
    return Strategy::Zero2;
  return getOperation().emitError("training")
         << ": dist is " << name << ", must be \"allreduce\" or \"zero2\"";
}

/// Adds to the states what `function` stores there.
void addToStates(ProgramOp function, const llvm::StringSet<> &states) {
  for (StoreOp store : llvm::to_vector(function.getOps<StoreOp>()))
    if (states.contains(store.getSymbol())) {
      OpBuilder builder(store);
      GraphBuilder g(builder, store.getLoc());
      Value before = g.load(store.getSymbol(), store.getValue().getType());
      store.getValueMutable().assign(g.add(before, store.getValue()));
    }
}

void Distribute::makeVariants(ProgramOp base, StringRef role, function_ref<int64_t(int64_t)> key,
                              function_ref<void(ProgramOp, int64_t)> finish) {
  SmallVector<std::pair<int64_t, SmallVector<int64_t>>> variants; // key, phases
  for (int64_t phase = 0; phase < phases; ++phase) {
    auto *variant =
        llvm::find_if(variants, [&](const auto &known) { return known.first == key(phase); });
    if (variant == variants.end())
      variant = &variants.emplace_back(key(phase), SmallVector<int64_t>());
    variant->second.push_back(phase);
  }
  // The one that runs last in a round of phases is the base itself.
  llvm::stable_sort(variants,
                    [](const auto &a, const auto &b) { return a.second.back() < b.second.back(); });
  OpBuilder builder(base);
  for (auto &[unused, of] : variants) {
    ProgramOp program = base;
    if (of.back() + 1 < phases)
      program = cast<ProgramOp>(builder.clone(*base));
    std::string name = role.str();
    if (variants.size() > 1) {
      name += "_" + std::to_string(of.front());
      program.setPhases(of);
    }
    program.setSymName(name);
    program.setRole(role);
    finish(program, of.front());
  }
}

LogicalResult Distribute::makePrograms(int64_t microBatches) {
  ModuleOp module = getOperation();
  ProgramOp first = programWithRole(module, "first"), next = programWithRole(module, "next");
  if (!first || !next)
    return module.emitError("no functions with the roles \"first\" and \"next\": "
                            "nano-split-accumulation comes first");
  // In all phases but an optimizer's first, the first micro-batch adds to its gradients too. Only
  // the optimizer's last phase communicates them, so that `last` comes in several forms. One rank
  // communicates nothing; but an update that becomes the end of `last` differs by phase too.
  const DictionaryAttr training = trainingOf(module);
  auto join = training ? training.getAs<BoolAttr>("join_update") : BoolAttr();
  const bool isAlike = world == 1 && !(join && join.getValue());
  // A bit for each number of steps between two of an optimizer.
  auto bits = [&](function_ref<bool(int64_t)> isSet) {
    int64_t result = 0;
    for (const auto &[every, gradients] : accumulated)
      result = 2 * result + int64_t(isSet(every));
    return result;
  };
  auto accumulates = [&](int64_t phase) {
    return bits([&](int64_t every) { return phase % every > 0; });
  };
  auto closes = [&](int64_t phase) {
    return bits([&](int64_t every) { return isAlike || (phase + 1) % every == 0; });
  };
  auto addUp = [&](ProgramOp program, int64_t phase) {
    for (const auto &[every, gradients] : accumulated)
      if (phase % every > 0)
        addToStates(program, gradients);
  };
  if (microBatches == 1) {
    next.erase();
    makeVariants(
        first, "last",
        [&](int64_t phase) { return (closes(phase) << accumulated.size()) + accumulates(phase); },
        addUp);
    return success();
  }
  makeVariants(first, "first", accumulates, addUp);
  if (microBatches > 2 && world == 1)
    return success(); // `next` is the last program too
  if (microBatches > 2) {
    OpBuilder builder(next);
    builder.setInsertionPointAfter(next);
    next = cast<ProgramOp>(builder.clone(*next));
  }
  makeVariants(next, "last", closes, [](ProgramOp, int64_t) {});
  return success();
}

LogicalResult Distribute::distribute() {
  ModuleOp module = getOperation();
  FailureOr<int64_t> count = microBatches();
  if (failed(count))
    return failure();
  FailureOr<Strategy> how = strategy();
  if (failed(how))
    return failure();
  phases = phaseCount(module);
  accumulated.clear();
  llvm::StringSet<> kept;
  SymbolTable symbols(module);
  for (auto state : module.getOps<StateOp>())
    if (state.isTrained()) {
      kept.insert(gradientSymbol(state.getSymName()));
      auto optimizer = symbols.lookup<OptimizerOp>(*state.getOptimizer());
      if (!optimizer.hasEquations())
        return state.emitOpError("its optimizer ")
               << state.getOptimizerAttr() << " has no equations";
      if (const auto every = static_cast<int64_t>(optimizer.getEvery()); every > 1)
        accumulated[every].insert(gradientSymbol(state.getSymName()));
    }
  if (failed(makePrograms(*count)))
    return failure();
  int64_t group = 1;
  for (int64_t size = 1; size <= maxGroup; ++size)
    if (world % size == 0)
      group = size;
  ModelOp model = modelOf(module);
  model.setWorld(world);
  model.setGroup(group);

  combineOwnStates(module, world);
  if (world == 1) {
    eraseCollectives(module);
  } else {
    GradientSharer sharer(module, {world, group, *how, minShard});
    for (auto function : module.getOps<ProgramOp>())
      if (function.hasRole("last"))
        // In each of its phases the same optimizers take a step.
        for (int64_t phase = 0; phase < phases; ++phase)
          if (runsInPhase(function, phase)) {
            if (failed(sharer.run(function, phase)))
              return failure();
            break;
          }
    for (const std::string &name : sharer.sharded())
      kept.erase(name);
    for (const std::string &name : sharer.shards())
      kept.insert(name);
  }
  dropUnread(module, kept);
  return success();
}

} // namespace
