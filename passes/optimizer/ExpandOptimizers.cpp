// nano-expand-optimizers: writes Adam and Muon out as the graph program `update`, with their states and scalars.
//
// After it, `update` reads every gradient accumulator, scales it to the mean over the sequences of the global batch, clips where the
// model asks for it, and stores new parameters and optimizer states. Newton–Schulz is matrix products and element-wise ops that fusion
// sees. It runs after differentiation, which declares the accumulators, and before distribution, which sums them over ranks.
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Program.h"
#include "passes/Passes.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

namespace nano {
#define GEN_PASS_DEF_EXPANDOPTIMIZERS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

/// Declares a scalar at module level whose body `fill` builds from (step, iterations, sequences, world), all f64.
void declareScalar(OpBuilder &builder, Location loc, StringRef name, function_ref<Value(OpBuilder &, ValueRange)> fill) {
  auto scalar = ScalarOp::create(builder, loc, name, builder.getF32Type());
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Type> types(4, builder.getF64Type());
  Block *body = builder.createBlock(&scalar.getBody(), {}, types, SmallVector<Location>(4, loc));
  Value result = fill(builder, body->getArguments());
  YieldOp::create(builder, loc, result);
}

/// Writes the updates of one module's parameters.
class OptimizerExpander {
public:
  explicit OptimizerExpander(ModuleOp module) : module(module), symbols(module), declarations(module.getBodyRegion()) {}

  LogicalResult run() {
    for (auto state : module.getOps<StateOp>())
      if (state.getRole() == Role::Parameter)
        parameters.push_back(state);
    declarations.setInsertionPointAfter(parameters.back());
    declareScalar(declarations, module.getLoc(), gradScaleSymbol, [&](OpBuilder &b, ValueRange args) -> Value {
      Value one = arith::ConstantOp::create(b, module.getLoc(), b.getF64FloatAttr(1.0));
      return arith::DivFOp::create(b, module.getLoc(), one, args[2]);
    });

    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto update = func::FuncOp::create(builder, module.getLoc(), "update", builder.getFunctionType({}, {}));
    update->setAttr(roleAttrName, builder.getStringAttr("update"));
    builder.setInsertionPointToStart(update.addEntryBlock());

    GraphBuilder g(builder, module.getLoc());
    scale = g.load(gradScaleSymbol, RankedTensorType::get({}, builder.getF32Type()));
    if (failed(clip(builder)))
      return failure();
    for (StateOp parameter : parameters) {
      Operation *optimizer = symbols.lookup(*parameter.getOptimizer());
      if (auto adam = dyn_cast_if_present<AdamOp>(optimizer))
        updateWithAdam(builder, parameter, adam);
      else if (auto muon = dyn_cast_if_present<MuonOp>(optimizer)) {
        if (failed(updateWithMuon(builder, parameter, muon)))
          return failure();
      } else
        return parameter.emitOpError("optimizer @") << *parameter.getOptimizer() << " is neither nano.adam nor nano.muon";
    }
    func::ReturnOp::create(builder, module.getLoc());
    return success();
  }

private:
  /// The parameter's accumulated gradient, f32.
  Value gradient(GraphBuilder &g, StateOp parameter) {
    return g.load(gradientSymbol(parameter.getSymName()), parameter.getTensorType().clone(Float32Type::get(module.getContext())));
  }

  /// Where the model clips: scale ← scale · min(1, clip / ‖scale·gradients‖₂), the norm over all parameters together.
  LogicalResult clip(OpBuilder &builder) {
    auto training = module->getAttrOfType<DictionaryAttr>(trainingAttrName);
    auto limit = training ? training.getAs<FloatAttr>("grad_clip") : FloatAttr();
    if (!limit || limit.getValueAsDouble() == 0)
      return success();
    if (limit.getValueAsDouble() < 0)
      return module.emitError("grad_clip must not be negative, is ") << limit.getValueAsDouble();
    Value sum;
    for (StateOp parameter : parameters) {
      GraphBuilder g(builder, parameter.getLoc());
      Value grad = gradient(g, parameter);
      Value squares = g.sumAll(g.mul(grad, grad));
      sum = sum ? g.add(sum, squares) : squares;
    }
    GraphBuilder g(builder, module.getLoc());
    Value norm = g.mul(g.sqrt(sum), scale);
    Value bound = g.scalar(limit.getValueAsDouble());
    scale = g.mul(scale, g.select(Predicate::gt, norm, bound, g.div(bound, norm), g.scalar(1)));
    return success();
  }

  /// Declares an optimizer state of the parameter's shape, zero at the start, beside the parameter.
  std::string declareState(StateOp parameter, StringRef suffix, Type elementType) {
    std::string name = (parameter.getSymName() + "." + suffix).str();
    OpBuilder builder(parameter->getContext());
    builder.setInsertionPointAfter(parameter);
    auto zero = InitAttr::get(builder.getContext(), "constant", builder.getDenseF64ArrayAttr({0.0}));
    StateOp::create(builder, parameter.getLoc(), name, parameter.getTensorType().clone(elementType), Role::Optimizer, zero,
                    FlatSymbolRefAttr());
    return name;
  }

  /// 1/(1 − βᵗ) or its square root, t = step + 1, as a scalar declared once a group.
  Value biasCorrection(GraphBuilder &g, AdamOp adam, StringRef name, double beta, bool squareRoot) {
    std::string symbol = (adam.getSymName() + "." + name).str();
    if (declared.insert(symbol).second)
      declareScalar(declarations, adam.getLoc(), symbol, [&](OpBuilder &b, ValueRange args) -> Value {
        Location loc = adam.getLoc();
        Value one = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(1.0));
        Value base = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(beta));
        Value power = math::PowFOp::create(b, loc, base, arith::AddFOp::create(b, loc, args[0], one));
        Value rest = arith::SubFOp::create(b, loc, one, power);
        if (squareRoot)
          rest = math::SqrtOp::create(b, loc, rest);
        return arith::DivFOp::create(b, loc, one, rest);
      });
    return g.load(symbol, RankedTensorType::get({}, Float32Type::get(module.getContext())));
  }

  Value loadScalar(GraphBuilder &g, StringRef symbol) {
    return g.load(symbol, RankedTensorType::get({}, Float32Type::get(module.getContext())));
  }

  void updateWithAdam(OpBuilder &builder, StateOp parameter, AdamOp adam) {
    GraphBuilder g(builder, parameter.getLoc());
    RankedTensorType stored = parameter.getTensorType();
    Type element = stored.getElementType();
    double beta1 = adam.getBeta1().convertToDouble(), beta2 = adam.getBeta2().convertToDouble();
    std::string nameV = declareState(parameter, "adam_v", element);
    std::string nameM = declareState(parameter, "adam_m", element);

    Value grad = g.mul(gradient(g, parameter), scale);
    Value p = g.toF32(g.load(parameter.getSymName(), stored));
    Value m = g.toF32(g.load(nameM, stored));
    Value v = g.toF32(g.load(nameV, stored));
    m = g.add(g.mul(m, beta1), g.mul(grad, 1 - beta1));
    v = g.add(g.mul(v, beta2), g.mul(g.mul(grad, grad), 1 - beta2));
    Value unbiasedM = g.mul(m, biasCorrection(g, adam, "bias1", beta1, false));
    Value unbiasedRoot = g.mul(g.sqrt(v), biasCorrection(g, adam, "bias2", beta2, true));
    Value direction = g.div(unbiasedM, g.add(unbiasedRoot, adam.getEps().convertToDouble()));
    if (double decay = adam.getWeightDecay().convertToDouble())
      direction = g.add(direction, g.mul(p, decay));
    p = g.sub(p, g.mul(direction, loadScalar(g, adam.getLr())));
    g.store(g.cast(m, element), nameM);
    g.store(g.cast(v, element), nameV);
    g.store(g.cast(p, element), parameter.getSymName());
  }

  /// NS5: five times X ← a·X + (b·A + c·A·A)·X with A = X·Xᵀ. Where rows > cols the same iteration is written for the transposed matrix
  /// without moving it: A = Xᵀ·X, X ← a·X + X·(b·A + c·A·A). Jordan et al. 2024.
  Value orthogonalize(GraphBuilder &g, Value x, MuonOp muon) {
    RankedTensorType type = tensorType(x);
    int64_t rank = type.getRank(), rows = type.getDimSize(rank - 2), cols = type.getDimSize(rank - 1);
    bool tall = rows > cols;
    Type compute = muon.getComputeType();
    ArrayRef<double> k = muon.getCoefficients();
    x = g.toF32(g.cast(x, compute));
    Value norm = g.sqrt(g.reduce(Combiner::sum, g.mul(x, x), {rank - 2, rank - 1}));
    norm = g.broadcast(g.add(norm, 1e-7), type.getShape(), llvm::to_vector(llvm::seq<int64_t>(0, rank - 2)));
    x = g.cast(g.div(x, norm), compute);
    for (int64_t step = 0; step < static_cast<int64_t>(muon.getSteps()); ++step) {
      Value a = g.matmul(x, x, tall, !tall, compute);
      Value b = g.add(g.mul(a, k[1]), g.mul(g.matmul(a, a, false, false, compute), k[2]));
      Value product = tall ? g.matmul(x, b, false, false, compute) : g.matmul(b, x, false, false, compute);
      x = g.add(g.mul(x, k[0]), product);
    }
    return g.toF32(x);
  }

  LogicalResult updateWithMuon(OpBuilder &builder, StateOp parameter, MuonOp muon) {
    RankedTensorType stored = parameter.getTensorType();
    if (stored.getRank() < 2)
      return parameter.emitOpError("Muon updates matrices; the parameter has ")
             << stored.getRank() << " dimensions: give it an Adam optimizer";
    GraphBuilder g(builder, parameter.getLoc());
    std::string nameB = declareState(parameter, "muon_b", builder.getF32Type());
    Value momentum = loadScalar(g, muon.getMomentum());
    Value grad = g.mul(gradient(g, parameter), scale);
    Value b = g.load(nameB, stored.clone(builder.getF32Type()));
    b = g.add(b, g.mul(g.sub(grad, b), g.sub(g.scalar(1), momentum)));
    g.store(b, nameB);
    Value direction = orthogonalize(g, g.add(grad, g.mul(g.sub(b, grad), momentum)), muon);
    double ratio = static_cast<double>(stored.getDimSize(stored.getRank() - 2)) / stored.getDimSize(stored.getRank() - 1);
    Value rate = g.mul(loadScalar(g, muon.getLr()), std::sqrt(std::max(1.0, ratio)));
    Value p = g.toF32(g.load(parameter.getSymName(), stored));
    p = g.sub(p, g.mul(direction, rate));
    g.store(g.cast(p, stored.getElementType()), parameter.getSymName());
    return success();
  }

  ModuleOp module;
  SymbolTable symbols;
  OpBuilder declarations;  ///< where scalars are declared
  SmallVector<StateOp> parameters;
  llvm::StringSet<> declared;
  Value scale;  ///< what a summed gradient is multiplied by, rank 0
};

struct ExpandOptimizers : public nano::impl::ExpandOptimizersBase<ExpandOptimizers> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (functionWithRole(module, "update")) {
      module.emitError("the module has an update program already");
      return signalPassFailure();
    }
    if (llvm::none_of(module.getOps<StateOp>(), [](StateOp state) { return state.getRole() == Role::Parameter; })) {
      module.emitError("the model has no parameters: declare them with param(...)");
      return signalPassFailure();
    }
    if (failed(OptimizerExpander(module).run()))
      signalPassFailure();
  }
};

} // namespace
