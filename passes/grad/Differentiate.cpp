// nano-differentiate: reverse-mode differentiation of the training function.
//
// Appends to the function of role "train", for every parameter p, the ops that compute ∂loss/∂p and
// `nano.accumulate %g, @"grad.p"`, and declares the state @"grad.p": f32, or with stored gradients
// of p's type. Each op's derivative is its own (DifferentiableOpInterface); here they are chained:
//
//   %w = nano.load @w                                  %w = nano.load @w
//   %y = nano.mul %x, %w                               %y = nano.mul %x, %w
//   %loss = nano.reduce sum %y                   =>    %loss = nano.reduce sum %y
//                                                      %one = nano.constant 1.0
//                                                      %dy = nano.broadcast %one
//                                                      %dw = nano.mul %dy, %x
//                                                      nano.accumulate %dw, @grad.w
//
// - Ops are visited from last to first. What leads from data to the loss is visited in that order;
//   what leads from a parameter alone to its use (casts, reshapes) is visited as soon as its
//   gradient is complete, and the accumulation stands right behind it: gradients become ready in
//   backward order, one after the other.
// - Contributions to one value are added in its type. Slices of one value (q, k and v of one
//   product) come together in one concat.
// - A gradient's last step keeps the precision of an f32 accumulator: products, scatters and sums
//   that feed it give f32 at once instead of rounding to bf16 first.
// - Nothing is computed for values that depend on no trained parameter: frozen ones (those without
//   an optimizer) have no gradient, and the products that would make it are never made.
// - The derivative of a kernel of the model's own is copied out of it, and taken away.
// - A product of two tensors that are quantised right before it (`nano.quantize`,
//   `nano.scaled_matmul`) has the derivative of the product without the roundings, from what was
//   quantised: 8 bits forward, the compute type backward.
// - Behind `nano.stop_gradient` there is no gradient; the op itself gives way to its operand, in
//   every program.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/Custom.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GradientTypes.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/Program.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <tuple>

namespace nano {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// What has come together of one value's gradient.
struct Gradient {
  /// The sum of the contributions to the whole value, or null.
  Value whole;
  /// Contributions to parts of it, by dimension, start and size.
  std::map<std::tuple<int64_t, int64_t, int64_t>, Value> parts;
};

/// The backward pass of one block.
class Backward {
public:
  Backward(ProgramOp function, llvm::MapVector<StringAttr, StateOp> &parameters)
      : function(function), block(function.getBody().front()), parameters(parameters),
        builder(block.getTerminator()) {}

  LogicalResult run();

private:
  LogicalResult mergeLoads();
  LogicalResult findRelevant(Value loss);
  LogicalResult visit(Operation *op);
  bool visitRounded(Operation *op, Value gradient);
  void contribute(Value value, Value contribution, Location location);
  Value complete(Value value);
  void accumulate(LoadOp load);
  bool isStopped(StringAttr parameter);
  Value widen(Value gradient, bool onlyUse);

  ProgramOp function;
  Block &block;
  llvm::MapVector<StringAttr, StateOp> &parameters;
  OpBuilder builder;
  /// Values that depend on a parameter, and through float arithmetic.
  DenseSet<Value> active;
  /// Values that depend on an argument of the function.
  DenseSet<Value> data;
  /// Ops between a parameter and the loss, in program order.
  SmallVector<Operation *> relevant;
  DenseSet<Operation *> isRelevant, visited;
  /// Uses of an active value by relevant ops that have not been visited yet.
  DenseMap<Value, int64_t> pending;
  DenseMap<Value, Gradient> gradients;
  /// Ops on parameters alone whose results' gradients are complete.
  SmallVector<Operation *> ready;
  llvm::MapVector<StringAttr, AccumulateOp> accumulated;
};

/// One load a parameter: the first one.
LogicalResult Backward::mergeLoads() {
  DenseMap<StringAttr, LoadOp> loads;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto store = dyn_cast<StoreOp>(op);
        store && parameters.contains(store.getSymbolAttr().getAttr()))
      return store.emitError("the training function writes parameter ")
             << store.getSymbolAttr() << "; only its optimizer may";
    auto load = dyn_cast<LoadOp>(op);
    if (!load || !parameters.contains(load.getSymbolAttr().getAttr()))
      continue;
    auto [place, isFirst] = loads.try_emplace(load.getSymbolAttr().getAttr(), load);
    if (isFirst)
      continue;
    load.replaceAllUsesWith(place->second.getResult());
    load.erase();
  }
  return success();
}

/// Finds the ops that lead from a parameter to the loss, and says which of them cannot be
/// differentiated.
LogicalResult Backward::findRelevant(Value loss) {
  data.insert(block.args_begin(), block.args_end());
  for (Operation &op : block) {
    auto isIn = [](const DenseSet<Value> &set) {
      return [&set](Value value) { return set.contains(value); };
    };
    if (llvm::any_of(op.getOperands(), isIn(data)))
      data.insert(op.result_begin(), op.result_end());
    auto load = dyn_cast<LoadOp>(op);
    if (isa<StopGradientOp>(op) || (load ? !parameters.contains(load.getSymbolAttr().getAttr())
                                         : llvm::none_of(op.getOperands(), isIn(active))))
      continue;
    for (Value result : op.getResults())
      if (isa<FloatType>(tensorType(result).getElementType()))
        active.insert(result);
  }

  DenseSet<Value> needed{loss};
  for (Operation &op : llvm::reverse(block)) {
    if (llvm::none_of(op.getResults(), [&](Value value) {
          return needed.contains(value) && active.contains(value);
        }))
      continue;
    if (isa<LoadOp>(op))
      continue;
    relevant.push_back(&op);
    isRelevant.insert(&op);
    for (Value operand : op.getOperands())
      if (active.contains(operand)) {
        needed.insert(operand);
        ++pending[operand];
      }
  }
  std::reverse(relevant.begin(), relevant.end());

  for (Operation *op : relevant) {
    if (!isa<DifferentiableOpInterface>(op))
      return emitModelError(op) << "no derivative of " << op->getName()
                                << " is known, and the loss depends on parameters through it";
    if (auto custom = dyn_cast<CustomOp>(op); custom && custom.getDerivative().empty())
      return emitModelError(op) << "kernel '" << custom.getName()
                                << "' has no derivative, and the loss depends on parameters "
                                   "through it; give it .derivative, or what it reads to "
                                   "stopGradient";
    for (Value result : op->getResults())
      if (isFloat8(tensorType(result).getElementType()) && !isa<QuantizeOp, TransposeOp>(op))
        return emitModelError(op)
               << "no derivative flows through " << result.getType()
               << "; cast what no parameter leads to, or ask for products in FP8 (fp8Products)";
  }
  return success();
}

void Backward::contribute(Value value, Value contribution, Location location) {
  Value &whole = gradients[value].whole;
  whole = whole ? GraphBuilder(builder, location).add(whole, contribution) : contribution;
}

/// The gradient of `value` once every contribution is there; null when nothing of the loss depends
/// on it.
Value Backward::complete(Value value) {
  Gradient &gradient = gradients[value];
  Location location = value.getLoc();
  GraphBuilder g(builder, location);
  RankedTensorType type = tensorType(value);
  // Parts of one dimension that do not overlap lie side by side in one concat; gaps are zero.
  auto part = gradient.parts.begin();
  while (!gradient.parts.empty()) {
    int64_t dim = std::get<0>(gradient.parts.begin()->first), end = 0;
    SmallVector<Value> pieces;
    auto fillUpTo = [&](int64_t start) {
      SmallVector<int64_t> shape(type.getShape());
      shape[dim] = start - end;
      if (start > end)
        pieces.push_back(g.constant(0, type.clone(shape)));
    };
    for (part = gradient.parts.begin();
         part != gradient.parts.end() && std::get<0>(part->first) == dim;) {
      auto [partDim, start, size] = part->first;
      if (start < end) {
        ++part;
        continue;
      }
      fillUpTo(start);
      pieces.push_back(part->second);
      end = start + size;
      part = gradient.parts.erase(part);
    }
    fillUpTo(type.getDimSize(dim));
    contribute(value,
               pieces.size() == 1
                   ? pieces.front()
                   : ConcatOp::create(builder, location, type, pieces, dim).getResult(),
               location);
  }
  return gradient.whole;
}

/// `gradient` in f32, for the accumulator: what made it in bf16 is made in f32 instead where that
/// costs nothing. `onlyUse` says that nothing else reads `gradient`, so that its op may be
/// replaced; the replacement stands at the op's place.
Value Backward::widen(Value gradient, bool onlyUse) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *op = gradient.getDefiningOp();
  RankedTensorType type = tensorType(gradient), wide = type.clone(builder.getF32Type());
  auto asIs = [&] { return GraphBuilder(builder, gradient.getLoc()).toF32(gradient); };
  if (!op)
    return asIs();
  builder.setInsertionPointAfter(op);
  if (!onlyUse)
    return asIs();
  if (auto cast = dyn_cast<CastOp>(op)) {
    Type source = tensorType(cast.getX()).getElementType();
    if (source.isF32())
      return cast.getX();
    return source.isBF16() ? widen(cast.getX(), cast.getX().hasOneUse()) : asIs();
  }
  if (isa<ReshapeOp, AddOp, NegOp, ConcatOp>(op) ||
      (isa<ReduceOp>(op) && cast<ReduceOp>(op).getCombiner() == Combiner::sum)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(widen(operand, operand.hasOneUse()));
    if (operands == SmallVector<Value>(op->getOperands()))
      return gradient;
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    copy->getResult(0).setType(wide);
    return copy->getResult(0);
  }
  if (type == wide)
    return gradient;
  if (isa<MatmulOp>(op) ? !cast<MatmulOp>(op).getAddend() : isa<ScatterAddOp, ConstantOp>(op)) {
    Operation *copy = builder.clone(*op);
    copy->getResult(0).setType(wide);
    return copy->getResult(0);
  }
  return asIs();
}

void Backward::accumulate(LoadOp load) {
  Value gradient = complete(load.getResult());
  if (!gradient)
    return;
  StringAttr name = load.getSymbolAttr().getAttr();
  auto op = AccumulateOp::create(builder, load.getLoc(), gradient, gradientSymbol(name));
  accumulated.insert({name, op});
}

/// Whether the loss depends on a parameter through a `nano.stop_gradient`.
bool Backward::isStopped(StringAttr parameter) {
  DenseSet<Value> reached, stopped; // those also through one
  for (Operation &op : block.without_terminator()) {
    auto isIn = [&](const DenseSet<Value> &set) {
      return llvm::any_of(op.getOperands(), [&](Value value) { return set.contains(value); });
    };
    auto load = dyn_cast<LoadOp>(op);
    if (load ? load.getSymbolAttr().getAttr() != parameter : !isIn(reached))
      continue;
    reached.insert(op.result_begin(), op.result_end());
    if (isa<StopGradientOp>(op) || isIn(stopped))
      stopped.insert(op.result_begin(), op.result_end());
  }
  return stopped.contains(block.getTerminator()->getOperand(0));
}

/// A product of what is quantised beside it: the derivative is that of the plain product of what
/// was quantised, to which it contributes. False where it is none.
bool Backward::visitRounded(Operation *op, Value gradient) {
  auto product = dyn_cast<ScaledMatmulOp>(op);
  if (!product || !gradient || product.getAddend())
    return false;
  auto a = product.getA().getDefiningOp<QuantizeOp>(),
       b = product.getB().getDefiningOp<QuantizeOp>();
  if (!a || !b || a.getX().getType().getElementType() != b.getX().getType().getElementType())
    return false;
  auto plain = MatmulOp::create(builder, op->getLoc(), product.getType(), a.getX(), b.getX(),
                                product.getTransposeA(), product.getTransposeB());
  plain.setAlpha(product.getAlpha());
  const SmallVector<Value> contributions = plain.buildDerivative(builder, gradient);
  for (auto [operand, contribution] : llvm::zip(plain->getOperands(), contributions))
    if (active.contains(operand))
      contribute(operand, contribution, op->getLoc());
  plain.erase();
  return true;
}

/// Adds `op`'s contributions to its operands' gradients.
LogicalResult Backward::visit(Operation *op) {
  if (!visited.insert(op).second)
    return success();
  SmallVector<Value> resultGradients;
  for (Value result : op->getResults())
    resultGradients.push_back(active.contains(result) ? complete(result) : Value());
  if (auto slice = dyn_cast<SliceOp>(op); slice && resultGradients[0]) {
    auto dim = static_cast<int64_t>(slice.getDim());
    Value &part =
        gradients[slice.getX()]
            .parts[{dim, slice.getStart(), tensorType(slice.getResult()).getDimSize(dim)}];
    part = part ? GraphBuilder(builder, op->getLoc()).add(part, resultGradients[0])
                : resultGradients[0];
  } else if (!visitRounded(op, resultGradients.empty() ? Value() : resultGradients[0]) &&
             llvm::any_of(resultGradients, [](Value gradient) { return gradient != nullptr; })) {
    SmallVector<Value> contributions =
        cast<DifferentiableOpInterface>(op).buildDerivative(builder, resultGradients);
    for (auto [operand, contribution] : llvm::zip_equal(op->getOperands(), contributions)) {
      if (!contribution || !active.contains(operand))
        continue;
      if (contribution.getType() != gradientType(operand.getType()))
        return op->emitError() << "derivative of type " << contribution.getType()
                               << " for an operand of type " << operand.getType();
      contribute(operand, contribution, op->getLoc());
    }
  }
  for (Value operand : op->getOperands()) {
    if (!active.contains(operand) || --pending[operand] > 0)
      continue;
    Operation *definition = operand.getDefiningOp();
    if (auto load = dyn_cast<LoadOp>(definition))
      accumulate(load);
    else if (!data.contains(operand) && llvm::all_of(definition->getResults(), [&](Value value) {
               return pending.lookup(value) == 0;
             }))
      ready.push_back(definition);
  }
  return success();
}

LogicalResult Backward::run() {
  auto loss = block.getTerminator()->getOperand(0);
  if (failed(mergeLoads()) || failed(findRelevant(loss)))
    return failure();
  Operation *lastForward = block.getTerminator()->getPrevNode();
  if (active.contains(loss))
    gradients[loss].whole = GraphBuilder(builder, loss.getLoc()).constant(1, loss.getType());
  if (auto load = loss.getDefiningOp<LoadOp>(); load && active.contains(loss))
    accumulate(load);
  for (Operation *op : llvm::reverse(relevant)) {
    if (failed(visit(op)))
      return failure();
    while (!ready.empty())
      if (failed(visit(ready.pop_back_val())))
        return failure();
  }
  auto module = function->getParentOfType<ModuleOp>();
  for (auto &[name, op] : accumulated) {
    Value gradient = op.getValue();
    if (gradientElement(module, parameters.lookup(name)).isF32())
      gradient = widen(gradient, gradient.hasOneUse());
    op.getValueMutable().assign(gradient);
    if (Operation *definition = gradient.getDefiningOp())
      op->moveAfter(definition);
  }
  for (Operation *op = block.getTerminator()->getPrevNode(); op != lastForward;) {
    Operation *dead = op;
    op = op->getPrevNode();
    if (isOpTriviallyDead(dead))
      dead->erase();
  }
  bool complete = true;
  for (auto &[name, state] : parameters)
    if (!accumulated.contains(name)) {
      emitModelError(state)
          << "parameter \"" << name.getValue() << "\": "
          << (isStopped(name) ? "stopGradient stands on every way to the loss, so that it has no "
                                "gradient; declare it with frozen(...)"
                              : "the loss does not depend on it; use it in the training function "
                                "or remove it");
      complete = false;
    }
  return success(complete);
}

struct DifferentiatePass : nano::impl::DifferentiateBase<DifferentiatePass> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    if (failed(differentiate()))
      signalPassFailure();
  }

  LogicalResult differentiate() {
    ModuleOp module = getOperation();
    ProgramOp function = programWithRole(module, "train");
    if (!function)
      return module.emitError("no function of role \"train\" to differentiate");
    auto isLoss = [](Type type) {
      return type == RankedTensorType::get({}, Float32Type::get(type.getContext()));
    };
    // Behind the loss it may return integers, which have no gradient.
    if (!function.getBody().hasOneBlock() || function.getNumResults() < 1 ||
        !isLoss(function.getResultTypes()[0]) ||
        llvm::any_of(function.getResultTypes().drop_front(), [](Type type) {
          auto tensor = dyn_cast<RankedTensorType>(type);
          return !tensor || !tensor.getElementType().isInteger(32);
        }))
      return function.emitError(
          "the training function must be one block that returns the loss, a tensor<f32>");
    llvm::MapVector<StringAttr, StateOp> parameters;
    for (auto state : module.getOps<StateOp>()) {
      if (state.getRole() == Role::Gradient)
        return state.emitError("the training function has been differentiated already");
      if (state.isTrained())
        parameters.insert({state.getSymNameAttr(), state});
    }
    if (failed(Backward(function, parameters).run()))
      return failure();
    module.walk([](StopGradientOp stop) {
      stop.replaceAllUsesWith(stop.getX());
      stop.erase();
    });
    module.walk([](CustomOp custom) {
      for (Region *region : {&custom.getDerivative(), &custom.getRow()}) {
        region->dropAllReferences();
        region->getBlocks().clear();
      }
      custom.setGradientOf({});
      custom.setRowInputs({});
      custom.setKeptInputs({});
    });
    OpBuilder builder(&getContext());
    for (auto &[name, state] : parameters) {
      builder.setInsertionPointAfter(state);
      StateOp::create(builder, state.getLoc(), gradientSymbol(name),
                      state.getTensorType().clone(gradientElement(module, state)), Role::Gradient,
                      InitAttr::get(&getContext(), "constant", builder.getDenseF64ArrayAttr(0.0)),
                      FlatSymbolRefAttr());
    }
    return success();
  }
};

} // namespace
