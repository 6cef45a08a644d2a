// nano-expand-optimizers: writes Adam and Muon out as the graph program `update`, with their states
// and scalars.
//
// After it, `update` reads every gradient accumulator, scales it to the mean over the sequences of
// the global batch, clips where the model asks for it, and stores new parameters and optimizer
// states. Newton–Schulz is matrix products and element-wise ops that fusion sees; matrices of one
// size go through it together, as one batch:
//
//   @a : [768, 768], @b : [3, 768, 768], … ⇒ concat : [4, 768, 768] ⇒ NS5 ⇒ slices
//
// because a product of single matrices is too small for a GPU. It runs after differentiation, which
// declares the accumulators, and before distribution, which sums them over ranks.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

namespace nano {
#define GEN_PASS_DEF_EXPANDOPTIMIZERS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

/// Writes the updates of one module's parameters.
class OptimizerExpander {
public:
  OptimizerExpander(ModuleOp module, int64_t maxBatchElements)
      : module(module), symbols(module), declarations(module.getBodyRegion()),
        maxBatchElements(maxBatchElements) {
    for (auto state : module.getOps<StateOp>())
      if (state.getRole() == Role::Parameter)
        parameters.push_back(state);
  }

  LogicalResult run() {
    if (parameters.empty())
      return module.emitError("the model has no parameters: declare them with param(...)");
    declarations.setInsertionPointAfter(parameters.back());
    FailureOr<double> limit = gradientClip();
    if (failed(limit) || failed(check()) || failed(declareGradScale()))
      return failure();

    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto update =
        func::FuncOp::create(builder, module.getLoc(), "update", builder.getFunctionType({}, {}));
    update->setAttr(roleAttrName, builder.getStringAttr("update"));
    builder.setInsertionPointToStart(update.addEntryBlock());

    GraphBuilder g(builder, module.getLoc());
    scale = loadScalar(g, gradScaleSymbol);
    if (*limit > 0)
      clip(builder, *limit);
    for (StateOp parameter : parameters) {
      Operation *optimizer = symbols.lookup(*parameter.getOptimizer());
      if (auto muon = dyn_cast<MuonOp>(optimizer))
        addToBatch(parameter, muon);
      else if (failed(updateWithAdam(builder, parameter, cast<AdamOp>(optimizer))))
        return failure();
    }
    for (const MuonBatch &batch : batches)
      if (failed(updateWithMuon(builder, batch)))
        return failure();
    func::ReturnOp::create(builder, module.getLoc());
    return success();
  }

private:
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
      if (!symbols.lookup<StateOp>(gradientSymbol(parameter.getSymName())))
        return parameter.emitOpError("has no gradient: nano-differentiate comes first");
      if (isa<MuonOp>(symbols.lookup(*parameter.getOptimizer())) &&
          parameter.getTensorType().getRank() < 2)
        return parameter.emitOpError("Muon updates matrices; the parameter has ")
               << parameter.getTensorType().getRank() << " dimensions: give it an Adam optimizer";
    }
    return success();
  }

  //===- Declarations ----------------------------------------------------===//

  /// A symbol that this pass adds must be new to the model.
  LogicalResult claim(Operation *owner, StringRef name) {
    Operation *holder = symbols.lookup(name);
    if (!holder)
      return success();
    InFlightDiagnostic error = owner->emitError("the name @")
                               << name << " is taken: the optimizer needs it";
    error.attachNote(holder->getLoc()) << "taken here";
    return error;
  }

  /// Declares a scalar whose body `fill` builds from (step, iterations, sequences, world), all f64.
  LogicalResult declareScalar(Operation *owner, StringRef name,
                              function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> fill) {
    if (failed(claim(owner, name)))
      return failure();
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
    if (!declared.insert(name).second)
      return name;
    if (failed(declareScalar(adam, name, [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
          Value one = arith::ConstantOp::create(b, b.getF64FloatAttr(1));
          Value base = arith::ConstantOp::create(b, b.getF64FloatAttr(beta.convertToDouble()));
          Value power = math::PowFOp::create(b, base, arith::AddFOp::create(b, args[0], one));
          Value rest = arith::SubFOp::create(b, one, power);
          if (squareRoot)
            rest = math::SqrtOp::create(b, rest);
          return arith::DivFOp::create(b, one, rest);
        })))
      return failure();
    return name;
  }

  /// Declares an optimizer state of the parameter's shape, zero at the start.
  FailureOr<std::string> declareState(StateOp parameter, StringRef suffix, Type elementType) {
    std::string name = (parameter.getSymName() + "." + suffix).str();
    if (failed(claim(parameter, name)))
      return failure();
    auto zero = InitAttr::get(declarations.getContext(), "constant",
                              declarations.getDenseF64ArrayAttr({0.0}));
    auto state = StateOp::create(declarations, parameter.getLoc(), name,
                                 parameter.getTensorType().clone(elementType), Role::Optimizer,
                                 zero, FlatSymbolRefAttr());
    declarations.setInsertionPointAfter(state);
    return name;
  }

  //===- Updates ---------------------------------------------------------===//

  Value loadScalar(GraphBuilder &g, StringRef symbol) {
    return g.load(symbol, RankedTensorType::get({}, Float32Type::get(module.getContext())));
  }

  /// The parameter's accumulated gradient, f32.
  Value gradient(GraphBuilder &g, StateOp parameter) {
    return g.load(gradientSymbol(parameter.getSymName()),
                  parameter.getTensorType().clone(Float32Type::get(module.getContext())));
  }

  /// scale ← scale · min(1, limit / ‖scale·gradients‖₂), the norm over all parameters together.
  void clip(OpBuilder &builder, double limit) {
    Value sum;
    for (StateOp parameter : parameters) {
      GraphBuilder g(builder, parameter.getLoc());
      Value grad = gradient(g, parameter);
      Value squares = g.sumAll(g.mul(grad, grad));
      sum = sum ? g.add(sum, squares) : squares;
    }
    GraphBuilder g(builder, module.getLoc());
    Value norm = g.mul(g.sqrt(sum), scale), bound = g.scalar(limit), one = g.scalar(1);
    scale = g.mul(scale, g.select(Predicate::gt, norm, bound, g.div(bound, norm), one));
  }

  LogicalResult updateWithAdam(OpBuilder &builder, StateOp parameter, AdamOp adam) {
    GraphBuilder g(builder, parameter.getLoc());
    RankedTensorType stored = parameter.getTensorType();
    Type element = stored.getElementType();
    double beta1 = adam.getBeta1().convertToDouble(), beta2 = adam.getBeta2().convertToDouble();
    FailureOr<std::string> nameM = declareState(parameter, "adam_m", element);
    FailureOr<std::string> nameV = declareState(parameter, "adam_v", element);
    FailureOr<std::string> bias1 = biasCorrection(adam, "bias1", adam.getBeta1(), false);
    FailureOr<std::string> bias2 = biasCorrection(adam, "bias2", adam.getBeta2(), true);
    if (failed(nameM) || failed(nameV) || failed(bias1) || failed(bias2))
      return failure();

    Value grad = g.mul(gradient(g, parameter), scale);
    Value p = g.toF32(g.load(parameter.getSymName(), stored));
    Value m = g.toF32(g.load(*nameM, stored));
    Value v = g.toF32(g.load(*nameV, stored));
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
    g.store(g.cast(p, element), parameter.getSymName());
    return success();
  }

  //===- Muon ------------------------------------------------------------===//

  struct MuonParameter {
    StateOp state;
    MuonOp muon;
    RankedTensorType type;

    ArrayRef<int64_t> matrix() const { return type.getShape().take_back(2); }
    int64_t elements() const { return type.getNumElements(); }
    /// How many matrices there are along the leading axes.
    int64_t count() const { return elements() / (matrix()[0] * matrix()[1]); }
    /// True when NS5 is the same computation for both.
    bool fits(const MuonParameter &other) const {
      MuonOp a = muon, b = other.muon;
      return matrix() == other.matrix() && a.getSteps() == b.getSteps() &&
             a.getCoefficients() == b.getCoefficients() && a.getComputeType() == b.getComputeType();
    }
  };
  /// Parameters whose matrices are orthogonalised together.
  using MuonBatch = SmallVector<MuonParameter>;

  void addToBatch(StateOp state, MuonOp muon) {
    MuonParameter parameter{state, muon, state.getTensorType()};
    for (MuonBatch &batch : llvm::reverse(batches)) {
      if (!parameter.fits(batch.front()))
        continue;
      int64_t elements = parameter.elements();
      for (const MuonParameter &member : batch)
        elements += member.elements();
      if (elements > maxBatchElements)
        break;
      batch.push_back(parameter);
      return;
    }
    batches.push_back({parameter});
  }

  /// NS5: `steps` times A = X·Xᵀ, B = b·A + c·A·A, X ← a·X + B·X. Where rows > cols the same
  /// iteration is written for the transposed matrix without moving it: A = Xᵀ·X, X ← a·X + X·B.
  /// Jordan et al. 2024. `x` has norms of at most 1, in the compute type.
  Value orthogonalize(OpBuilder &builder, Location loc, Value x, MuonOp muon) {
    GraphBuilder g(builder, loc);
    ArrayRef<int64_t> matrix = tensorType(x).getShape().take_back(2);
    bool tall = matrix[0] > matrix[1];
    auto [a, b, c] =
        std::tuple(muon.getCoefficients()[0], muon.getCoefficients()[1], muon.getCoefficients()[2]);
    /// alpha·left·right + beta·addend
    auto sum = [&](double alpha, Value left, Value right, double beta, Value addend) -> Value {
      return MatmulOp::create(builder, loc, addend.getType(), left, right, addend, false, false,
                              APFloat(alpha), APFloat(beta));
    };
    for (int64_t step = 0; step < static_cast<int64_t>(muon.getSteps()); ++step) {
      Value gram = g.matmul(x, x, tall, !tall, muon.getComputeType());
      Value polynomial = sum(c, gram, gram, b, gram);
      x = tall ? sum(1, x, polynomial, a, x) : sum(1, polynomial, x, a, x);
    }
    return x;
  }

  /// Stores the parameter's new momentum; its Nesterov momentum divided by the Frobenius norm of
  /// each matrix, in the compute type.
  FailureOr<Value> normalizedMomentum(OpBuilder &builder, MuonParameter parameter) {
    StateOp state = parameter.state;
    GraphBuilder g(builder, state.getLoc());
    RankedTensorType stored = parameter.type;
    FailureOr<std::string> nameB = declareState(state, "muon_b", builder.getF32Type());
    if (failed(nameB))
      return failure();
    Value momentum = loadScalar(g, parameter.muon.getMomentum());
    Value grad = g.mul(gradient(g, state), scale);
    Value b = g.load(*nameB, stored.clone(builder.getF32Type()));
    Value keep = g.sub(g.scalar(1), momentum);
    b = g.add(b, g.mul(g.sub(grad, b), keep));
    g.store(b, *nameB);
    Value nesterov = g.add(grad, g.mul(g.sub(b, grad), momentum));

    Type compute = parameter.muon.getComputeType();
    int64_t rank = stored.getRank();
    Value x = g.toF32(g.cast(nesterov, compute));
    Value norm = g.sqrt(g.reduce(Combiner::sum, g.mul(x, x), {rank - 2, rank - 1}));
    auto leading = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
    return g.cast(g.div(x, g.broadcast(g.add(norm, 1e-7), stored.getShape(), leading)), compute);
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

  LogicalResult updateWithMuon(OpBuilder &builder, ArrayRef<MuonParameter> batch) {
    SmallVector<Value> momenta;
    for (const MuonParameter &parameter : batch) {
      FailureOr<Value> x = normalizedMomentum(builder, parameter);
      if (failed(x))
        return failure();
      momenta.push_back(*x);
    }
    MuonParameter first = batch.front();
    if (batch.size() == 1) {
      Value direction = orthogonalize(builder, first.state.getLoc(), momenta.front(), first.muon);
      takeStep(builder, first, direction);
      return success();
    }

    auto stackOf = [&](int64_t count) {
      return SmallVector<int64_t>{count, first.matrix()[0], first.matrix()[1]};
    };
    SmallVector<Location> locations;
    int64_t count = 0;
    for (auto [parameter, x] : llvm::zip_equal(batch, momenta)) {
      StateOp state = parameter.state;
      x = GraphBuilder(builder, state.getLoc()).reshape(x, stackOf(parameter.count()));
      count += parameter.count();
      locations.push_back(state.getLoc());
    }
    Location loc = FusedLoc::get(builder.getContext(), locations);
    auto type = RankedTensorType::get(stackOf(count), first.muon.getComputeType());
    Value stack = ConcatOp::create(builder, loc, type, momenta, builder.getI64IntegerAttr(0));
    stack = orthogonalize(builder, loc, stack, first.muon);
    int64_t offset = 0;
    for (const MuonParameter &parameter : batch) {
      StateOp state = parameter.state;
      Value slice =
          SliceOp::create(builder, state.getLoc(), type.clone(stackOf(parameter.count())), stack,
                          builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(offset));
      offset += parameter.count();
      slice = GraphBuilder(builder, state.getLoc()).reshape(slice, parameter.type.getShape());
      takeStep(builder, parameter, slice);
    }
    return success();
  }

  ModuleOp module;
  SymbolTable symbols;
  OpBuilder declarations; ///< where scalars are declared
  SmallVector<StateOp> parameters;
  int64_t maxBatchElements;
  SmallVector<MuonBatch> batches;
  llvm::StringSet<> declared;
  Value scale; ///< what a summed gradient is multiplied by, rank 0
};

struct ExpandOptimizers : public nano::impl::ExpandOptimizersBase<ExpandOptimizers> {
  using ExpandOptimizersBase::ExpandOptimizersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (functionWithRole(module, "update")) {
      module.emitError("the module has an update program already");
      return signalPassFailure();
    }
    if (failed(OptimizerExpander(module, maxBatchElements).run()))
      signalPassFailure();
  }
};

} // namespace
