// nano-report-norms: reports the norms of gradients, parameters and updates, by optimizer.
//
//                                           %p = nano.load @w
//   %p = nano.load @w                       %q = …                          the update
//   %q = …                           =>     %d = nano.sub %q, %p            and Σd², Σp² of the
//   group nano.store %q, @w                       nano.store %q, @w
//                                           nano.report "grad_norm/G" norm (%g · @grad_scale)
//                                           nano.report "param_norm/G" norm √Σp²
//                                           nano.report "update_ratio/G" mean √(Σd² / Σp²)
//
// Of the updates it knows no more than what they store to parameters and which states hold
// gradients, so that it serves any optimizer. It comes when they are written out;
// nano-lower-reports makes of the reports what runs.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "ir/graph/Sharding.h"
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace nano {
#define GEN_PASS_DEF_REPORTNORMS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// The parameters of one optimizer of the model file that one program updates.
struct Group {
  SmallVector<StateOp> parameters;
  SmallVector<Location> locations;
  int64_t every = 1;                 ///< steps whose gradients it takes together
  SmallVector<Value> before, change; ///< of each parameter Σp², Σd²
};

struct ReportNorms : public nano::impl::ReportNormsBase<ReportNorms> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    const DictionaryAttr training = trainingOf(module);
    auto wanted = training ? training.getAs<BoolAttr>("report_norms") : BoolAttr();
    if (!wanted || !wanted.getValue())
      return;
    for (auto function : module.getOps<ProgramOp>()) {
      auto role = function.getRoleAttr();
      if (role && role == "event") // sets what it likes, by no optimizer
        continue;
      if (failed(report(function)))
        return signalPassFailure();
    }
  }

private:
  LogicalResult report(ProgramOp function);
  void addChange(StoreOp store, Group &group);
  /// The state of the parameter's gradient, the sum over all ranks, or of a part of it.
  StateOp gradientOf(StateOp parameter);
  LogicalResult reportGradients(OpBuilder &builder, StringAttr optimizer, const Group &group);
};

/// The parameter that a store updates, or null.
StateOp parameterOf(StoreOp store) {
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(store, store.getSymbolAttr());
  return state && state.isTrained() ? state : StateOp();
}

/// Adds the squares of the parameter and of its change, before the store.
void ReportNorms::addChange(StoreOp store, Group &group) {
  OpBuilder builder(store);
  GraphBuilder g(builder, store.getLoc());
  // What the update has read already, rather than the state once more.
  Value old;
  for (auto load : store->getBlock()->getOps<LoadOp>())
    if (load.getSymbolAttr() == store.getSymbolAttr() && load->isBeforeInBlock(store))
      old = load;
  if (!old)
    old = g.load(store.getSymbol(), store.getValue().getType());
  old = g.toF32(old);
  const Value change = g.sub(g.toF32(store.getValue()), old);
  group.before.push_back(g.sumAll(g.mul(old, old)));
  group.change.push_back(g.sumAll(g.mul(change, change)));
}

StateOp ReportNorms::gradientOf(StateOp parameter) {
  const std::string name = gradientSymbol(parameter.getSymName());
  // Where ranks have parts of the sum over all, the whole is what this rank has added up.
  for (auto state : getOperation().getOps<StateOp>())
    if (std::optional<Sharding> sharding = shardingOf(state);
        sharding && state.getRole() == Role::Gradient)
      for (const Sharding::Piece &piece : sharding->pieces)
        if (piece.name == name)
          return state;
  return getOperation().lookupSymbol<StateOp>(name);
}

LogicalResult ReportNorms::reportGradients(OpBuilder &builder, StringAttr optimizer,
                                           const Group &group) {
  ModuleOp module = getOperation();
  const auto number = RankedTensorType::get({}, builder.getF32Type());
  if (!module.lookupSymbol<ScalarOp>(gradScaleSymbol))
    return module.emitError("has no scalar @")
           << gradScaleSymbol << ": nano-expand-optimizers comes first";
  llvm::SetVector<StateOp> gradients;
  for (StateOp parameter : group.parameters) {
    StateOp gradient = gradientOf(parameter);
    if (!gradient)
      return parameter.emitOpError("has no gradient in any state");
    gradients.insert(gradient);
  }
  for (StateOp gradient : gradients) {
    // Where the update has read it already, so that one kernel may do both.
    OpBuilder::InsertionGuard guard(builder);
    Value read;
    for (auto load : builder.getBlock()->getOps<LoadOp>())
      if (load.getSymbol() == gradient.getSymName()) {
        read = load;
        builder.setInsertionPointAfter(load);
        break;
      }
    GraphBuilder g(builder, gradient.getLoc());
    Value scale = g.mul(g.load(gradScaleSymbol, number), 1 / double(group.every));
    if (!read)
      read = g.load(gradient.getSymName(), gradient.getTensorType());
    Value x = g.mul(g.toF32(read), scale);
    std::optional<Sharding> sharding = shardingOf(gradient);
    ReportOp::create(
        builder, gradient.getLoc(), "grad_norm/" + optimizer.str(), ReportKind::norm, x,
        sharding ? RankSetAttr::get(module.getContext(), sharding->ranks) : RankSetAttr());
  }
  return success();
}

LogicalResult ReportNorms::report(ProgramOp function) {
  llvm::MapVector<StringAttr, Group> groups;
  for (StoreOp store : llvm::to_vector(function.getOps<StoreOp>()))
    if (StateOp parameter = parameterOf(store)) {
      auto optimizer =
          SymbolTable::lookupNearestSymbolFrom<OptimizerOp>(store, parameter.getOptimizerAttr());
      Group &group = groups[optimizer.getGroupAttr()];
      group.every = static_cast<int64_t>(optimizer.getEvery());
      group.parameters.push_back(parameter);
      group.locations.push_back(parameter.getLoc());
      addChange(store, group);
    }
  if (groups.empty())
    return success();
  OpBuilder builder(function.front().getTerminator());
  for (auto &[optimizer, group] : groups) {
    if (failed(reportGradients(builder, optimizer, group)))
      return failure();
    const Location location = FusedLoc::get(&getContext(), group.locations);
    GraphBuilder g(builder, location);
    auto report = [&](const char *name, ReportKind kind, Value x) {
      ReportOp::create(builder, location, name + optimizer.str(), kind, x, RankSetAttr());
    };
    // Behind all updates, so that few kernels add them all.
    auto sum = [&](ArrayRef<Value> parts) {
      Value all = parts.front();
      for (Value part : parts.drop_front())
        all = g.add(all, part);
      return all;
    };
    const Value before = sum(group.before), change = sum(group.change), zero = g.scalar(0),
                norm = g.sqrt(before);
    report("param_norm/", ReportKind::norm, norm);
    report("update_ratio/", ReportKind::mean,
           g.select(Predicate::gt, before, zero, g.div(g.sqrt(change), norm), zero));
  }
  return success();
}

} // namespace
