// The rules of `set`: what is set where, once, and alike on all ranks.
#include "passes/verify/OwnStates.h"

#include "ir/graph/ModelError.h"
#include "ir/graph/Program.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// "equal", "mean", "max", "each"; of a parameter or table, which all ranks have alike, "equal".
StringRef overRanks(StateOp state) { return state.getOverRanks().value_or("equal"); }

/// A store, and the step after which it happens; none: every step.
struct Set {
  StoreOp store;
  std::optional<int64_t> step;
};

class OwnStates {
public:
  explicit OwnStates(ModuleOp module) : module(module), symbols(module) {}

  LogicalResult run() {
    for (auto function : module.getOps<ProgramOp>()) {
      auto role = function.getRoleAttr();
      if (role && failed(check(function, role.getValue())))
        return failure();
    }
    return success();
  }

private:
  LogicalResult check(ProgramOp function, StringRef role);
  LogicalResult checkPlace(StoreOp store, StateOp state, StringRef role);
  LogicalResult checkOnce(StoreOp store, std::optional<int64_t> step);
  /// Whether the ranks' values of a state may differ where a program of that role reads it.
  static bool differs(StateOp state, StringRef role) {
    const StringRef how = overRanks(state);
    return how == "each" || (role == "train" && how != "equal");
  }

  ModuleOp module;
  SymbolTable symbols;
  llvm::StringMap<SmallVector<Set>> ofEvents;
};

LogicalResult OwnStates::checkPlace(StoreOp store, StateOp state, StringRef role) {
  const StringRef name = state.getSymName();
  if (role != "train" && role != "event")
    return emitModelError(store) << "set: '" << name
                                 << "' is set by a program that only reads: set it in train, "
                                    "afterStep or at";
  if (state.getRole() == Role::Constant)
    return emitModelError(store) << "set: '" << name << "' is a table, which nothing changes";
  if (state.getRole() == Role::Gradient)
    return store.emitOpError("only passes write gradients");
  if (role == "train" && !state.getOverRanks())
    return emitModelError(store) << "set: '" << name
                                 << (state.getRole() == Role::Optimizer
                                         ? "' is a state of an optimizer, which sets it in every "
                                           "update; set it in afterStep or at"
                                         : "' is a parameter: the training program computes its "
                                           "gradient; set it in afterStep or at");
  return success();
}

LogicalResult OwnStates::checkOnce(StoreOp store, std::optional<int64_t> step) {
  SmallVector<Set> &sets = ofEvents[store.getSymbol()];
  for (Set &other : sets) {
    if (step && other.step && *step != *other.step)
      continue;
    InFlightDiagnostic error = emitModelError(store);
    error << "set: two events set '" << store.getSymbol() << "' after ";
    if (step || other.step)
      error << "step " << (step ? *step : *other.step);
    else
      error << "every step";
    error.attachNote(other.store.getLoc()) << "the other is here";
    return error;
  }
  sets.push_back({store, step});
  return success();
}

LogicalResult OwnStates::check(ProgramOp function, StringRef role) {
  DenseSet<Value> different;
  different.insert(function.args_begin(), function.args_end());
  llvm::StringMap<StoreOp> stored;
  std::optional<int64_t> step;
  if (auto number = function.getEventStepAttr())
    step = number.getInt();
  for (Operation &op : function.getBody().front()) {
    auto store = dyn_cast<StoreOp>(op);
    if (!store) {
      auto load = dyn_cast<LoadOp>(op);
      auto state = load ? symbols.lookup<StateOp>(load.getSymbol()) : StateOp();
      if (state ? differs(state, role) : llvm::any_of(op.getOperands(), [&](Value value) {
            return different.contains(value);
          }))
        different.insert(op.result_begin(), op.result_end());
      continue;
    }
    auto state = symbols.lookup<StateOp>(store.getSymbol());
    if (failed(checkPlace(store, state, role)))
      return failure();
    auto [first, isNew] = stored.try_emplace(store.getSymbol(), store);
    if (!isNew) {
      InFlightDiagnostic error = emitModelError(store) << "set: '" << store.getSymbol()
                                                       << "' is set twice in one program";
      error.attachNote(first->second.getLoc()) << "the first time here";
      return error;
    }
    if (role == "event" && failed(checkOnce(store, step)))
      return failure();
    // In training a mean or maximum comes about later.
    const bool mayDiffer = differs(state, role);
    if (!mayDiffer && different.contains(store.getValue()))
      return emitModelError(store)
             << "set: '" << store.getSymbol()
             << "' is to be equal on all ranks, and what it is set to differs between them: "
                "declare it with OverRanks::mean, max or each";
  }
  return success();
}

} // namespace

LogicalResult verifyOwnStates(ModuleOp module) { return OwnStates(module).run(); }

} // namespace nano
