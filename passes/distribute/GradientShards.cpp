// Sums, shares and banks of gradients in the program of the last micro-batch.
#include "passes/distribute/GradientShards.h"

#include "ir/graph/GraphBuilder.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::distribute {

/// Elements that every shard's size is a multiple of, so that vectors of 32 bytes fit it.
static constexpr int64_t shardAlignment = 8;

GradientSharer::GradientSharer(ModuleOp module, Topology topology)
    : module(module), topology(topology) {}

int64_t GradientSharer::Completed::matrices() const {
  StateOp state = parameter;
  ArrayRef<int64_t> shape = state.getTensorType().getShape();
  return ShapedType::getNumElements(shape.drop_back(2));
}

LogicalResult GradientSharer::run(func::FuncOp last, bool adam) {
  banks.clear();
  SymbolTable symbols(module);
  llvm::StringMap<StateOp> parameters; // by gradient
  for (auto state : module.getOps<StateOp>())
    if (state.isTrained())
      parameters[gradientSymbol(state.getSymName())] = state;

  for (StoreOp store : llvm::to_vector(last.getOps<StoreOp>())) {
    StateOp parameter = parameters.lookup(store.getSymbol());
    if (!parameter)
      continue;
    Completed completed{parameter, store};
    Operation *optimizer = symbols.lookup(*parameter.getOptimizer());
    auto muon = dyn_cast<MuonOp>(optimizer);
    if (!muon && !adam)
      continue;
    const int64_t elements = completed.type().getNumElements();
    if (topology.group > 1 && muon && completed.type().getRank() >= 2) {
      addToBank(completed, muon);
    } else if (topology.group > 1 && topology.strategy == Strategy::Zero2 && !muon &&
               elements >= topology.minShard) {
      if (failed(sharePart(completed)))
        return failure();
    } else {
      sumWhole(completed);
    }
  }
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Bank &bank : banks)
    if (failed(shareBank(bank, numbers[bank.muon]++)))
      return failure();
  return success();
}

void GradientSharer::addToBank(Completed completed, MuonOp muon) {
  ArrayRef<int64_t> matrix = completed.type().getShape().take_back(2);
  auto *bank = llvm::find_if(banks, [&](Bank &candidate) {
    return candidate.muon == muon && ArrayRef<int64_t>(candidate.matrix) == matrix;
  });
  if (bank == banks.end()) {
    banks.push_back({muon, SmallVector<int64_t>(matrix), {}});
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
  auto state =
      StateOp::create(builder, location, name, type, Role::Gradient, zero, FlatSymbolRefAttr());
  state->setAttr(shardingAttrName, sharding.attribute(module.getContext()));
  shardNames.push_back(name);
  return success();
}

LogicalResult GradientSharer::sharePart(Completed completed) {
  RankedTensorType type = completed.type();
  const int64_t elements = type.getNumElements();
  const int64_t unit = topology.group * shardAlignment;
  if (elements % unit != 0) {
    completed.parameter.emitRemark()
        << "'" << completed.parameter.getSymName() << "': its gradient and optimizer states are "
        << "whole on every rank: " << elements << " elements are not a multiple of " << unit;
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
  const int64_t end = begin + topology.group, rows = bank.matrix[0], columns = bank.matrix[1];
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
  Type element = Float32Type::get(module.getContext());
  for (Taken &part : taken) {
    Location location = part.member.store.getLoc();
    GraphBuilder g(builder, location);
    const int64_t all = part.member.matrices();
    Value matrices = g.reshape(part.member.store.getValue(), {all, rows, columns});
    if (part.count < all)
      matrices = SliceOp::create(
          builder, location, RankedTensorType::get({part.count, rows, columns}, element), matrices,
          builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(part.from));
    parts.push_back(matrices);
    missing -= part.count;
  }
  Location location = FusedLoc::get(module.getContext(), locations);
  GraphBuilder g(builder, location);
  if (missing > 0)
    parts.push_back(g.constant(0, RankedTensorType::get({missing, rows, columns}, element)));
  Value round = parts.front();
  if (parts.size() > 1)
    round = ConcatOp::create(builder, location,
                             RankedTensorType::get({topology.group, rows, columns}, element), parts,
                             builder.getI64IntegerAttr(0));
  return share(builder, location, round);
}

LogicalResult GradientSharer::shareBank(Bank &bank, int64_t number) {
  const int64_t rows = bank.matrix[0], columns = bank.matrix[1];
  Sharding sharding{topology.group, RankSet::group, rows * columns, {}};
  int64_t matrices = 0;
  SmallVector<Location> locations;
  for (Completed &member : bank.members) {
    sharding.pieces.push_back({member.store.getSymbol().str(),
                               SmallVector<int64_t>(member.type().getShape()),
                               matrices * rows * columns});
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
    whole = ConcatOp::create(builder, location, tensorType(whole).clone({rounds, rows, columns}),
                             shares, builder.getI64IntegerAttr(0));
  const std::string name = gradientSymbol((bank.muon.getSymName() + ".bank" + Twine(number)).str());
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
