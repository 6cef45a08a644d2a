// Sums, shares and banks of gradients in the program of the last micro-batch.
#include "passes/distribute/GradientShards.h"

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Phases.h"
#include "ir/graph/ShapeOps.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::distribute {

/// Elements that every shard's size is a multiple of, so that vectors of 32 bytes fit it.
static constexpr int64_t shardAlignment = 8;

GradientSharer::GradientSharer(ModuleOp module, Topology topology)
    : module(module), topology(topology), symbols(module) {}

const UpdateForm &GradientSharer::formOf(StateOp parameter) {
  auto op = symbols.lookup<OptimizerOp>(*parameter.getOptimizer());
  auto known = llvm::find_if(forms, [&](auto &form) { return form.first == op; });
  if (known != forms.end())
    return known->second;
  return forms.emplace_back(op, UpdateForm(op)).second;
}

RankedTensorType GradientSharer::Bank::stack(int64_t matrices) {
  RankedTensorType wide = form().typeOf(form().body().getArgument(1), matrices);
  return wide.clone(members.front().element());
}

LogicalResult GradientSharer::run(ProgramOp last, int64_t phase) {
  banks.clear();
  llvm::StringMap<StateOp> parameters; // by gradient
  for (auto state : module.getOps<StateOp>())
    if (state.isTrained())
      parameters[gradientSymbol(state.getSymName())] = state;

  for (StoreOp store : llvm::to_vector(last.getOps<StoreOp>())) {
    StateOp parameter = parameters.lookup(store.getSymbol());
    if (!parameter || !stepsIn(symbols.lookup<OptimizerOp>(*parameter.getOptimizer()), phase))
      continue;
    const UpdateForm &form = formOf(parameter);
    Completed completed{parameter, store, &form};
    const bool mayCut = topology.group > 1 && form.op().getCut() != "whole" && form.isStackable();
    if (mayCut && form.hasProducts()) {
      addToBank(completed);
    } else if (mayCut && topology.strategy == Strategy::Zero2 &&
               completed.type().getNumElements() >= topology.minShard) {
      if (failed(sharePart(completed)))
        return failure();
    } else {
      sumWhole(completed);
    }
  }
  llvm::StringMap<int64_t> numbers;
  for (Bank &bank : banks)
    if (failed(shareBank(bank, numbers[OptimizerOp(bank.form().op()).getGroup()]++)))
      return failure();
  return success();
}

void GradientSharer::addToBank(Completed completed) {
  const UpdateForm &form = *completed.form;
  const SmallVector<Operation *> apart = form.computedApart(form.gathered(/*apart=*/true));
  auto *bank = llvm::find_if(banks, [&](Bank &candidate) {
    const UpdateForm &first = candidate.form();
    if (candidate.members.front().element() != completed.element())
      return false;
    return &first == &form ||
           (OptimizerOp(first.op()).getEvery() == OptimizerOp(form.op()).getEvery() &&
            OptimizerOp(first.op()).getStates() == OptimizerOp(form.op()).getStates() &&
            OptimizerOp(first.op()).getInits() == OptimizerOp(form.op()).getInits() &&
            first.typeOf(first.body().getArgument(1), 1) ==
                form.typeOf(form.body().getArgument(1), 1) &&
            areAlike(first, first.computedApart(first.gathered(/*apart=*/true)), form, apart));
  });
  if (bank == banks.end()) {
    banks.emplace_back();
    bank = &banks.back();
  }
  bank->members.push_back(completed);
}

void GradientSharer::sumWhole(Completed completed) {
  OpBuilder builder(completed.store);
  Value local = completed.store.getValue();
  Value sum = AllReduceOp::create(builder, completed.store.getLoc(), local.getType(), local);
  completed.store.getValueMutable().assign(sum);
}

Value GradientSharer::share(OpBuilder &builder, Location location, Value x) {
  auto whole = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(whole.getShape());
  shape[0] /= topology.group;
  RankedTensorType type = whole.clone(shape);
  if (topology.strategy == Strategy::AllReduce) {
    Value sum = AllReduceOp::create(builder, location, whole, x);
    return ShardOp::create(builder, location, type, sum, topology.group, RankSet::group);
  }
  Value part = ReduceScatterOp::create(builder, location, type, x, topology.group, RankSet::group);
  if (topology.world > topology.group)
    part = AllReduceOp::create(builder, location, type, part, Combiner::sum, RankSet::peers);
  return part;
}

LogicalResult GradientSharer::declare(const std::string &name, RankedTensorType type,
                                      const Sharding &sharding, Location location) {
  if (llvm::is_contained(shardNames, name))
    return success();
  if (Operation *holder = SymbolTable::lookupSymbolIn(module, name)) {
    InFlightDiagnostic error = emitError(location, "the name @")
                               << name << " is taken: distribution needs it";
    error.attachNote(holder->getLoc()) << "taken here";
    return error;
  }
  StateOp behind;
  for (auto state : module.getOps<StateOp>())
    behind = state;
  OpBuilder builder(module.getContext());
  builder.setInsertionPointAfter(behind);
  auto zero = InitAttr::get(module.getContext(), "constant", builder.getDenseF64ArrayAttr({0.0}));
  auto state = StateOp::create(builder, location, name, type, Role::Gradient, zero);
  state.setShardingAttr(sharding.attribute(module.getContext()));
  shardNames.push_back(name);
  return success();
}

LogicalResult GradientSharer::sharePart(Completed completed) {
  RankedTensorType type = completed.type();
  const int64_t elements = type.getNumElements();
  const int64_t unit = topology.group * shardAlignment, units = completed.form->units();
  if (elements % unit != 0 || units % topology.group != 0) {
    InFlightDiagnostic remark = completed.parameter.emitRemark()
                                << "'" << completed.parameter.getSymName()
                                << "': its gradient and optimizer states are "
                                << "whole on every rank: ";
    if (elements % unit != 0)
      remark << elements << " elements are not a multiple of " << unit;
    else
      remark << "it is updated " << completed.form->unitName() << " by "
             << completed.form->unitName() << ", and " << units << " are not a multiple of "
             << topology.group;
    remark.report();
    sumWhole(completed);
    return success();
  }
  const std::string gradient = completed.store.getSymbol().str(), name = gradient + ".part";
  Sharding sharding{topology.group, RankSet::group, elements / topology.group, {}};
  sharding.pieces.push_back({gradient, SmallVector<int64_t>(type.getShape()), 0});
  OpBuilder builder(completed.store);
  GraphBuilder g(builder, completed.store.getLoc());
  Value flat = g.reshape(completed.store.getValue(), {elements});
  Value part = share(builder, completed.store.getLoc(), flat);
  if (failed(declare(name, tensorType(part), sharding, completed.parameter.getLoc())))
    return failure();
  g.store(part, name);
  completed.store.erase();
  shardedNames.push_back(gradient);
  return success();
}

Value GradientSharer::shareRound(Bank &bank, int64_t begin, OpBuilder &builder) {
  const int64_t end = begin + topology.group;
  struct Taken {
    Completed member;
    int64_t from, count;
  };
  SmallVector<Taken> taken;
  SmallVector<Location> locations;
  int64_t offset = 0;
  for (Completed &member : bank.members) {
    const int64_t from = std::max(begin, offset), to = std::min(end, offset + member.matrices());
    if (from < to) {
      taken.push_back({member, from - offset, to - from});
      locations.push_back(member.store.getLoc());
    }
    offset += member.matrices();
  }
  // Members are in program order.
  builder.setInsertionPoint(taken.back().member.store);
  SmallVector<Value> parts;
  int64_t missing = topology.group;
  for (Taken &part : taken) {
    Location location = part.member.store.getLoc();
    GraphBuilder g(builder, location);
    const int64_t all = part.member.matrices();
    Value matrices = g.reshape(part.member.store.getValue(), bank.stack(all).getShape());
    if (part.count < all)
      matrices =
          SliceOp::create(builder, location, bank.stack(part.count), matrices,
                          builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(part.from));
    parts.push_back(matrices);
    missing -= part.count;
  }
  Location location = FusedLoc::get(module.getContext(), locations);
  GraphBuilder g(builder, location);
  if (missing > 0)
    parts.push_back(g.constant(0, bank.stack(missing)));
  Value round = parts.front();
  if (parts.size() > 1)
    round = ConcatOp::create(builder, location, bank.stack(topology.group), parts,
                             builder.getI64IntegerAttr(0));
  return share(builder, location, round);
}

LogicalResult GradientSharer::shareBank(Bank &bank, int64_t number) {
  const int64_t size = bank.form().unitElements(); // of a matrix
  Sharding sharding{topology.group, RankSet::group, size, {}};
  int64_t matrices = 0;
  SmallVector<Location> locations;
  for (Completed &member : bank.members) {
    sharding.pieces.push_back({member.store.getSymbol().str(),
                               SmallVector<int64_t>(member.type().getShape()), matrices * size});
    matrices += member.matrices();
    locations.push_back(member.parameter.getLoc());
  }
  OpBuilder builder(module.getContext());
  SmallVector<Value> shares;
  for (int64_t begin = 0; begin < matrices; begin += topology.group)
    shares.push_back(shareRound(bank, begin, builder));
  const auto rounds = static_cast<int64_t>(shares.size());
  Location location = FusedLoc::get(module.getContext(), locations);
  Value whole = shares.front();
  if (rounds > 1)
    whole = ConcatOp::create(builder, location, bank.stack(rounds), shares,
                             builder.getI64IntegerAttr(0));
  const std::string name =
      gradientSymbol((OptimizerOp(bank.form().op()).getGroup() + ".bank" + Twine(number)).str());
  if (failed(declare(name, tensorType(whole), sharding, location)))
    return failure();
  GraphBuilder(builder, location).store(whole, name);
  for (Completed &member : bank.members) {
    shardedNames.push_back(member.store.getSymbol().str());
    member.store.erase();
  }
  return success();
}

} // namespace nano::distribute
