// nano-expand-optimizers: writes Adam and Muon out as the graph program `update`, with their states
// and scalars.
//
// After it, `update` reads every gradient, scales it to the mean over the sequences of the global
// batch, clips where the model asks for it, and stores new parameters and optimizer states.
// Newton–Schulz is matrix products and element-wise ops that fusion sees; matrices of one size go
// through it together, as one batch:
//
//   @a : [768, 768], @b : [3, 768, 768], … ⇒ concat : [4, 768, 768] ⇒ NS5 ⇒ slices
//
// because a product of single matrices is too small for a GPU. Batches of matrices whose smaller
// sides are equal share the products that read only these (NewtonSchulz.h). Where a rank has only a
// share of a gradient (distribute/GradientShards.h), its optimizer states are that share's, and
// what it computes for its share all ranks gather:
//
//   @grad.muon.bank0 : [rounds, 768, 768] ⇒ NS5 ⇒ a gather for each round ⇒ slices, for all ranks
//   @grad.head.part : [n/S] ⇒ Adam on that part of the parameter ⇒ gather ⇒ the parameter
//
// With `join_update` of `nano.training` the updates do not become a program but the end of `last`,
// so that the schedule can hide what they communicate behind the backward pass, and what that
// communicates behind them.
//
// It runs after distribution, which decides on shares: the arithmetic is written once, for what
// there is to update, and no pass has to find it again in order to cut it up.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/Phases.h"
#include "ir/graph/Sharding.h"
#include "passes/Passes.h"
#include "passes/optimizer/MuonBatches.h"
#include "passes/optimizer/NewtonSchulz.h"
#include "passes/optimizer/UpdateProgram.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

namespace nano {
#define GEN_PASS_DEF_EXPANDOPTIMIZERS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Writes the updates of one module's parameters.
class OptimizerExpander {
public:
  OptimizerExpander(ModuleOp module, int64_t maxBatchElements)
      : module(module), symbols(module), declarations(module.getBodyRegion()),
        phases(phaseCount(module)), maxBatchElements(maxBatchElements), batches(maxBatchElements) {
    for (auto state : module.getOps<StateOp>()) {
      if (state.isTrained())
        parameters.push_back(state);
      if (std::optional<Sharding> sharding = shardingOf(state);
          sharding && state.getRole() == Role::Gradient) {
        for (const Sharding::Piece &piece : sharding->pieces)
          shareOf[piece.name] = static_cast<int>(shares.size());
        shares.push_back({state, std::move(*sharding), {}});
      }
    }
  }

  LogicalResult run() {
    if (parameters.empty())
      return emitModelError(module) << "the model has no parameters: declare them with param(...)";
    declarations.setInsertionPointAfter(parameters.back());
    FailureOr<double> limit = gradientClip();
    if (failed(limit) || failed(check()) || failed(declareGradScale()))
      return failure();

    for (StateOp parameter : parameters)
      if (auto muon = dyn_cast<MuonOp>(symbols.lookup(*parameter.getOptimizer()))) {
        if (Share *share = shareFor(parameter))
          share->members.push_back({parameter, muon, parameter.getTensorType()});
        else
          batches.add({parameter, muon, parameter.getTensorType()});
      }

    // Of several phases only the last one has Adam's updates.
    func::FuncOp update = updateProgram(module);
    if (phases > 1) {
      OpBuilder builder(update);
      auto early = cast<func::FuncOp>(builder.clone(*update));
      early.setSymName("update_0");
      update.setSymName("update_" + std::to_string(phases - 1));
      early->setAttr(phasesAttrName,
                     builder.getDenseI64ArrayAttr(llvm::to_vector(llvm::seq(phases - 1))));
      update->setAttr(phasesAttrName, builder.getDenseI64ArrayAttr({phases - 1}));
      if (failed(write(early, *limit, false)))
        return failure();
    }
    if (failed(write(update, *limit, true)))
      return failure();
    return joinUpdates(module);
  }

private:
  /// Writes the updates into one program: Muon's and, with `adam`, Adam's.
  LogicalResult write(func::FuncOp update, double limit, bool adam) {
    OpBuilder builder(update.front().getTerminator());
    GraphBuilder g(builder, module.getLoc());
    scale = loadScalar(g, gradScaleSymbol);
    if (limit > 0)
      clip(builder, limit, adam);
    if (adam && failed(updateWithAdam(builder)))
      return failure();
    if (failed(updateBanks(builder)))
      return failure();
    for (const MuonBatches::Set &set : batches.sets())
      if (failed(updateWithMuon(builder, set)))
        return failure();
    return success();
  }

  AdamOp adamOf(StateOp parameter) {
    return dyn_cast<AdamOp>(symbols.lookup(*parameter.getOptimizer()));
  }

  LogicalResult updateWithAdam(OpBuilder &builder) {
    Value ofStep = scale;
    if (phases > 1) // the mean over the steps
      scale = GraphBuilder(builder, module.getLoc()).mul(scale, 1.0 / double(phases));
    // Parts of large parameters first: their gathers are the longest.
    for (bool shared : {true, false})
      for (StateOp parameter : parameters) {
        AdamOp adam = adamOf(parameter);
        Share *share = shareFor(parameter);
        if (adam && (share != nullptr) == shared &&
            failed(updateWithAdam(builder, parameter, adam, share)))
          return failure();
      }
    scale = ofStep;
    return success();
  }

  //===- What there is to update -----------------------------------------===//

  /// A gradient of which this rank has a part: of one parameter for Adam, of several for Muon.
  struct Share {
    StateOp gradient;
    Sharding sharding;
    MuonBatch members; ///< Muon's, in no order
  };
  Share *shareFor(StateOp parameter) {
    auto found = shareOf.find(gradientSymbol(parameter.getSymName()));
    return found == shareOf.end() ? nullptr : &shares[found->second];
  }

  /// The largest norm of all gradients together; 0: no limit.
  FailureOr<double> gradientClip() {
    auto training = module->getAttrOfType<DictionaryAttr>(trainingAttrName);
    auto limit = training ? training.getAs<FloatAttr>("grad_clip") : FloatAttr();
    double value = limit ? limit.getValueAsDouble() : 0;
    if (!(value >= 0))
      return module.emitError("grad_clip must not be negative, is ") << value;
    return value;
  }

  /// Every parameter has what its update reads.
  LogicalResult check() {
    for (StateOp parameter : parameters) {
      if (!shareFor(parameter) && !symbols.lookup<StateOp>(gradientSymbol(parameter.getSymName())))
        return parameter.emitOpError("has no gradient: nano-differentiate comes first");
      if (isa<MuonOp>(symbols.lookup(*parameter.getOptimizer())) &&
          parameter.getTensorType().getRank() < 2)
        return parameter.emitOpError("Muon updates matrices; the parameter has ")
               << parameter.getTensorType().getRank() << " dimensions: give it an Adam optimizer";
    }
    return success();
  }

  //===- Declarations ----------------------------------------------------===//

  /// A symbol that this pass adds must be new to the model; false when this pass has added it.
  FailureOr<bool> claim(Operation *owner, StringRef name) {
    if (!declared.insert(name).second)
      return false;
    Operation *holder = symbols.lookup(name);
    if (!holder)
      return true;
    InFlightDiagnostic error = emitModelError(owner)
                               << "the name @" << name << " is taken: the optimizer needs it";
    error.attachNote(holder->getLoc()) << "taken here";
    return failure();
  }

  /// Declares a scalar whose body `fill` builds from (step, iterations, sequences, world), all f64.
  LogicalResult declareScalar(Operation *owner, StringRef name,
                              function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> fill) {
    FailureOr<bool> isNew = claim(owner, name);
    if (failed(isNew) || !*isNew)
      return failure(failed(isNew));
    ImplicitLocOpBuilder builder(owner->getLoc(), declarations);
    auto scalar = ScalarOp::create(builder, name, builder.getF32Type());
    declarations.setInsertionPointAfter(scalar);
    SmallVector<Type> types(4, builder.getF64Type());
    Block *body = builder.createBlock(&scalar.getBody(), {}, types,
                                      SmallVector<Location>(4, owner->getLoc()));
    Value result = fill(builder, body->getArguments());
    YieldOp::create(builder, result);
    return success();
  }

  LogicalResult declareGradScale() {
    return declareScalar(module, gradScaleSymbol,
                         [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                           Value one = arith::ConstantOp::create(b, b.getF64FloatAttr(1));
                           return arith::DivFOp::create(b, one, args[2]);
                         });
  }

  /// 1/(1 − βᵗ) or its square root, t = step + 1; one scalar a group.
  FailureOr<std::string> biasCorrection(AdamOp adam, StringRef suffix, const APFloat &beta,
                                        bool squareRoot) {
    std::string name = (adam.getSymName() + "." + suffix).str();
    if (failed(declareScalar(adam, name, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
          Value one = arith::ConstantOp::create(b, b.getF64FloatAttr(1));
          Value base = arith::ConstantOp::create(b, b.getF64FloatAttr(beta.convertToDouble()));
          Value steps = args[0]; // of Adam
          if (phases > 1) {
            Value every = arith::ConstantOp::create(b, b.getF64FloatAttr(double(phases)));
            steps = math::FloorOp::create(b, arith::DivFOp::create(b, steps, every));
          }
          Value power = math::PowFOp::create(b, base, arith::AddFOp::create(b, steps, one));
          Value rest = arith::SubFOp::create(b, one, power);
          if (squareRoot)
            rest = math::SqrtOp::create(b, rest);
          return arith::DivFOp::create(b, one, rest);
        })))
      return failure();
    return name;
  }

  /// Declares an optimizer state, zero at the start, where it is not there yet.
  FailureOr<std::string> declareState(StateOp owner, const Twine &called, RankedTensorType type,
                                      DictionaryAttr sharding = {}) {
    std::string name = called.str();
    FailureOr<bool> isNew = claim(owner, name);
    if (failed(isNew))
      return failure();
    if (!*isNew)
      return name;
    auto zero = InitAttr::get(declarations.getContext(), "constant",
                              declarations.getDenseF64ArrayAttr({0.0}));
    auto state = StateOp::create(declarations, owner.getLoc(), name, type, Role::Optimizer, zero,
                                 FlatSymbolRefAttr());
    if (sharding)
      state->setAttr(shardingAttrName, sharding);
    declarations.setInsertionPointAfter(state);
    return name;
  }
  /// The same for a share: it is sharded as the gradient is, its pieces are called
  /// `<parameter>.<suffix>`.
  FailureOr<std::string> declareState(const Share &share, const Twine &called, StringRef suffix,
                                      Type element) {
    Sharding sharding = share.sharding;
    const size_t prefix = gradientSymbol("").size();
    for (Sharding::Piece &piece : sharding.pieces)
      piece.name = piece.name.substr(prefix) + "." + suffix.str();
    StateOp gradient = share.gradient;
    return declareState(gradient, called, gradient.getTensorType().clone(element),
                        sharding.attribute(module.getContext()));
  }

  //===- Updates ---------------------------------------------------------===//

  Value loadScalar(GraphBuilder &g, StringRef symbol) {
    return g.load(symbol, RankedTensorType::get({}, Float32Type::get(module.getContext())));
  }

  Value load(GraphBuilder &g, StateOp state) {
    return g.load(state.getSymName(), state.getTensorType());
  }

  /// The parameter's summed gradient, f32.
  StateOp wholeGradient(StateOp parameter) {
    return symbols.lookup<StateOp>(gradientSymbol(parameter.getSymName()));
  }

  /// scale ← scale · min(1, limit / ‖scale·gradients‖₂), the norm over all gradients that the
  /// program uses together; with `adam`, Adam's too.
  void clip(OpBuilder &builder, double limit, bool adam) {
    Value sum;
    auto add = [&](Location location, StateOp gradient, bool isAdams) {
      if (isAdams && !adam)
        return;
      GraphBuilder g(builder, location);
      Value grad = load(g, gradient);
      Value squares = g.sumAll(g.mul(grad, grad));
      if (isAdams && phases > 1)
        squares = g.mul(squares, 1.0 / double(phases * phases));
      sum = sum ? g.add(sum, squares) : squares;
    };
    // What each rank has a part of, then what all have, so that all ranks add the same numbers.
    for (Share &share : shares)
      add(share.gradient.getLoc(), share.gradient, share.members.empty());
    if (sum)
      sum = AllReduceOp::create(builder, module.getLoc(), sum.getType(), sum, Combiner::sum,
                                shares.front().sharding.ranks);
    for (StateOp parameter : parameters)
      if (!shareFor(parameter))
        add(parameter.getLoc(), wholeGradient(parameter), bool(adamOf(parameter)));
    if (!sum)
      return;
    GraphBuilder g(builder, module.getLoc());
    Value norm = g.mul(g.sqrt(sum), scale), bound = g.scalar(limit), one = g.scalar(1);
    scale = g.mul(scale, g.select(Predicate::gt, norm, bound, g.div(bound, norm), one));
  }

  /// Updates the parameter, or, with `share`, this rank's part of it.
  LogicalResult updateWithAdam(OpBuilder &builder, StateOp parameter, AdamOp adam, Share *share) {
    Location location = parameter.getLoc();
    GraphBuilder g(builder, location);
    RankedTensorType stored = parameter.getTensorType();
    Type element = stored.getElementType();
    double beta1 = adam.getBeta1().convertToDouble(), beta2 = adam.getBeta2().convertToDouble();
    auto declare = [&](StringRef suffix) {
      return share ? declareState(*share, parameter.getSymName() + "." + suffix, suffix, element)
                   : declareState(parameter, parameter.getSymName() + "." + suffix, stored);
    };
    FailureOr<std::string> nameM = declare("adam_m"), nameV = declare("adam_v");
    FailureOr<std::string> bias1 = biasCorrection(adam, "bias1", adam.getBeta1(), false);
    FailureOr<std::string> bias2 = biasCorrection(adam, "bias2", adam.getBeta2(), true);
    if (failed(nameM) || failed(nameV) || failed(bias1) || failed(bias2))
      return failure();

    Value grad = g.mul(load(g, share ? share->gradient : wholeGradient(parameter)), scale);
    RankedTensorType mine = tensorType(grad).clone(element);
    Value p = load(g, parameter);
    if (share) {
      Value flat = g.reshape(p, {stored.getNumElements()});
      p = ShardOp::create(builder, location, mine, flat, share->sharding.parts,
                          share->sharding.ranks);
    }
    p = g.toF32(p);
    Value m = g.toF32(g.load(*nameM, mine));
    Value v = g.toF32(g.load(*nameV, mine));
    m = g.mul(m, beta1);
    m = g.add(m, g.mul(grad, 1 - beta1));
    v = g.mul(v, beta2);
    v = g.add(v, g.mul(g.mul(grad, grad), 1 - beta2));
    Value unbiasedM = g.mul(m, loadScalar(g, *bias1));
    Value unbiasedRoot = g.mul(g.sqrt(v), loadScalar(g, *bias2));
    Value direction = g.div(unbiasedM, g.add(unbiasedRoot, adam.getEps().convertToDouble()));
    if (double decay = adam.getWeightDecay().convertToDouble(); decay != 0)
      direction = g.add(direction, g.mul(p, decay));
    p = g.sub(p, g.mul(direction, loadScalar(g, adam.getLr())));
    g.store(g.cast(m, element), *nameM);
    g.store(g.cast(v, element), *nameV);
    p = g.cast(p, element);
    if (share) {
      RankedTensorType flat = stored.clone({stored.getNumElements()});
      p = AllGatherOp::create(builder, location, flat, p, share->sharding.parts,
                              share->sharding.ranks);
      p = g.reshape(p, stored.getShape());
    }
    g.store(p, parameter.getSymName());
    return success();
  }

  //===- Muon ------------------------------------------------------------===//

  /// Stores the new momentum of matrices in the state `nameB`; their Nesterov momentum divided by
  /// the Frobenius norm of each, in the compute type.
  Value normalizedMomentum(OpBuilder &builder, Location location, StateOp gradient,
                           const std::string &nameB, MuonOp muon) {
    GraphBuilder g(builder, location);
    RankedTensorType type = gradient.getTensorType();
    Value momentum = loadScalar(g, muon.getMomentum());
    Value grad = g.mul(load(g, gradient), scale);
    Value b = g.load(nameB, type);
    Value keep = g.sub(g.scalar(1), momentum);
    b = g.add(b, g.mul(g.sub(grad, b), keep));
    g.store(b, nameB);
    Value nesterov = g.add(grad, g.mul(g.sub(b, grad), momentum));

    int64_t rank = type.getRank();
    Value x = g.toF32(g.cast(nesterov, muon.getComputeType()));
    Value norm = g.sqrt(g.reduce(Combiner::sum, g.mul(x, x), {rank - 2, rank - 1}));
    auto leading = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
    return g.cast(g.div(x, g.broadcast(g.add(norm, 1e-7), type.getShape(), leading)),
                  muon.getComputeType());
  }

  /// p ← p − lr·√max(1, rows/cols)·direction
  void takeStep(OpBuilder &builder, MuonParameter parameter, Value direction) {
    StateOp state = parameter.state;
    GraphBuilder g(builder, state.getLoc());
    RankedTensorType stored = parameter.type;
    ArrayRef<int64_t> matrix = parameter.matrix();
    Value rate = loadScalar(g, parameter.muon.getLr());
    if (matrix[0] > matrix[1])
      rate = g.mul(rate, std::sqrt(static_cast<double>(matrix[0]) / matrix[1]));
    Value p = g.toF32(g.load(state.getSymName(), stored));
    p = g.sub(p, g.mul(g.toF32(direction), rate));
    g.store(g.cast(p, stored.getElementType()), state.getSymName());
  }

  /// Updates the parameters of batches that go through Newton–Schulz together.
  LogicalResult updateWithMuon(OpBuilder &builder, ArrayRef<MuonBatch> set) {
    SmallVector<Value> stacks;
    SmallVector<Location> locations;
    for (const MuonBatch &batch : set) {
      FailureOr<Value> stack = stackedMomenta(builder, batch);
      if (failed(stack))
        return failure();
      stacks.push_back(*stack);
      locations.push_back(stack->getLoc());
    }
    SmallVector<Value> directions = orthogonalize(
        builder, FusedLoc::get(builder.getContext(), locations), stacks, set.front().front().muon);
    for (auto [batch, direction] : llvm::zip_equal(set, directions))
      takeSteps(builder, batch, direction);
    return success();
  }

  /// The normalized momenta of a batch: as the parameter is where there is one, else in a stack.
  FailureOr<Value> stackedMomenta(OpBuilder &builder, const MuonBatch &batch) {
    SmallVector<Value> momenta;
    SmallVector<Location> locations;
    int64_t count = 0;
    for (const MuonParameter &parameter : batch) {
      StateOp state = parameter.state;
      FailureOr<std::string> nameB = declareState(
          state, state.getSymName() + ".muon_b", state.getTensorType().clone(builder.getF32Type()));
      if (failed(nameB))
        return failure();
      momenta.push_back(normalizedMomentum(builder, state.getLoc(), wholeGradient(state), *nameB,
                                           parameter.muon));
      locations.push_back(state.getLoc());
      count += parameter.count();
    }
    if (batch.size() == 1)
      return momenta.front();
    for (auto [parameter, x] : llvm::zip_equal(batch, momenta))
      x = GraphBuilder(builder, x.getLoc()).reshape(x, batch.front().stack(parameter.count()));
    auto type = RankedTensorType::get(batch.front().stack(count),
                                      tensorType(momenta.front()).getElementType());
    return ConcatOp::create(builder, FusedLoc::get(builder.getContext(), locations), type, momenta,
                            builder.getI64IntegerAttr(0))
        .getResult();
  }

  /// Each parameter of a batch takes its part of `directions`.
  void takeSteps(OpBuilder &builder, const MuonBatch &batch, Value directions) {
    if (batch.size() == 1)
      return takeStep(builder, batch.front(), directions);
    int64_t offset = 0;
    for (const MuonParameter &parameter : batch) {
      StateOp state = parameter.state;
      RankedTensorType type = tensorType(directions).clone(batch.front().stack(parameter.count()));
      Value slice =
          SliceOp::create(builder, state.getLoc(), type, directions, builder.getI64IntegerAttr(0),
                          builder.getI64IntegerAttr(offset));
      offset += parameter.count();
      slice = GraphBuilder(builder, state.getLoc()).reshape(slice, parameter.type.getShape());
      takeStep(builder, parameter, slice);
    }
  }

  /// NS5 of this rank's matrices of a bank, `mine` [rounds, rows, cols], in batches of at most
  /// `maxBatchElements` numbers; each round is gathered as soon as its batch is done. The result
  /// holds all matrices of the bank in their order, [rounds·parts, rows, cols].
  Value gatherRounds(OpBuilder &builder, const Share &share, Value mine, MuonOp muon) {
    Location location = share.gradient->getLoc();
    const Sharding &sharding = share.sharding;
    RankedTensorType type = tensorType(mine);
    const int64_t rounds = type.getDimSize(0), rows = type.getDimSize(1),
                  columns = type.getDimSize(2);
    auto part = [&](Value whole, int64_t from, int64_t count) -> Value {
      if (count == tensorType(whole).getDimSize(0))
        return whole;
      return SliceOp::create(builder, location, type.clone({count, rows, columns}), whole,
                             builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(from));
    };
    const int64_t most = std::max<int64_t>(1, maxBatchElements / (rows * columns));
    SmallVector<Value> gathered;
    for (int64_t begin = 0; begin < rounds; begin += most) {
      const int64_t count = std::min(most, rounds - begin);
      Value batch = orthogonalize(builder, location, {part(mine, begin, count)}, muon).front();
      for (int64_t round = 0; round < count; ++round)
        gathered.push_back(
            AllGatherOp::create(builder, location, type.clone({sharding.parts, rows, columns}),
                                part(batch, round, 1), sharding.parts, sharding.ranks));
    }
    if (rounds == 1)
      return gathered.front();
    return ConcatOp::create(builder, location, type.clone({rounds * sharding.parts, rows, columns}),
                            gathered, builder.getI64IntegerAttr(0));
  }

  /// The banks of Muon's matrices. What all ranks do with the results of one bank comes after the
  /// next one's Newton–Schulz, so that the results travel meanwhile.
  LogicalResult updateBanks(OpBuilder &builder) {
    const size_t prefix = gradientSymbol("").size();
    auto applySteps = [&](const Share *share, Value directions) {
      for (const MuonParameter &parameter : share->members) {
        const int64_t size = parameter.matrix()[0] * parameter.matrix()[1];
        const auto *piece = llvm::find_if(share->sharding.pieces, [&](const Sharding::Piece &one) {
          return one.name == gradientSymbol(StateOp(parameter.state).getSymName());
        });
        Location location = StateOp(parameter.state).getLoc();
        SmallVector<int64_t> shape{parameter.count(), parameter.matrix()[0], parameter.matrix()[1]};
        Value slice = directions;
        if (shape[0] != tensorType(directions).getDimSize(0))
          slice = SliceOp::create(builder, location, tensorType(directions).clone(shape),
                                  directions, builder.getI64IntegerAttr(0),
                                  builder.getI64IntegerAttr(piece->offset / size));
        GraphBuilder g(builder, location);
        takeStep(builder, parameter, g.reshape(slice, parameter.type.getShape()));
      }
    };
    const Share *waiting = nullptr;
    Value waitingFor;
    for (Share &share : shares) {
      if (share.members.empty())
        continue;
      StateOp gradient = share.gradient;
      MuonOp muon = share.members.front().muon;
      FailureOr<std::string> nameB = declareState(
          share, gradient.getSymName().substr(prefix) + ".muon_b", "muon_b", builder.getF32Type());
      if (failed(nameB))
        return failure();
      Value mine = normalizedMomentum(builder, gradient.getLoc(), gradient, *nameB, muon);
      Value directions = gatherRounds(builder, share, mine, muon);
      if (waiting)
        applySteps(waiting, waitingFor);
      waiting = &share;
      waitingFor = directions;
    }
    if (waiting)
      applySteps(waiting, waitingFor);
    return success();
  }

  ModuleOp module;
  SymbolTable symbols;
  OpBuilder declarations; ///< where scalars are declared
  SmallVector<StateOp> parameters;
  int64_t phases; ///< Adam's parameters take a step in the last of them
  int64_t maxBatchElements;
  SmallVector<Share> shares;
  llvm::StringMap<int> shareOf; ///< by the name of a gradient
  MuonBatches batches;
  llvm::StringSet<> declared;
  Value scale; ///< what a summed gradient is multiplied by, rank 0
};

struct ExpandOptimizers : public nano::impl::ExpandOptimizersBase<ExpandOptimizers> {
  using ExpandOptimizersBase::ExpandOptimizersBase;

  void runOnOperation() override {
    if (failed(OptimizerExpander(getOperation(), maxBatchElements).run()))
      signalPassFailure();
  }
};

} // namespace
