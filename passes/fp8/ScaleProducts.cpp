// nano-scale-products: computes the products of linear layers from 8-bit operands, in training.
//
//   %w = nano.cast %W : f32 → bf16                  %wq = nano.quantize %W, %sw       once a step
//   %z = nano.matmul %x, %w {transpose_b}      ⇒    %xq = nano.quantize %x, %sx
//                                                   %z = nano.scaled_matmul %xq, %wq scales(%sx,
//                                                   %sw)
//
// and so the two products of the backward pass, each by the policy of its weight (`Policy`):
// static, current, delayed or block scaling.
//
// - A weight is converted in the program of the step's first micro-batch, straight from what is
//   stored, and kept for the others in a state that lives no longer: so nothing about it needs to
//   be saved, and a run may begin anywhere. Validation reads the weight itself.
// - A gradient is converted without the rounding to the compute type that the product would ask
// for.
// - delayed: every program takes the largest magnitudes of inputs and gradients; `update` enters
//   the largest of all ranks in the history and makes the scales of the next step. Scales and
//   histories are optimizer states: checkpoints carry them. Weights are at hand whole when they are
//   converted; their scale is their own.
// - An input that several weights multiply is converted once where their policies scale it alike:
//   each keeps its scale, which is the same number, and all take that of the first. With delayed
//   scaling these weights have one scale too, and so have their gradients, of the largest magnitude
//   of all: nano-merge-products can then make one product of theirs.
// - With `k-major`, operands whose inner dimension is not the last in memory are transposed in 8
//   bits: Hopper's products take no others. Of weights the transposed copy is kept as well. Scales
//   of blocks must then lie as the library reads them: the module is marked for nano-bufferize, and
//   what is kept of a weight's scales has rows of a multiple of 4: one scale is repeated, several
//   are filled up with zeros.
//
// A product that 8-bit operands do not allow stays as it is, and a remark says why. Casts,
// transposes and magnitudes are ordinary ops that nano-fuse puts into the kernels that make their
// operands; nano-report-casts says what remains.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/Program.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/Passes.h"
#include "passes/fp8/Scaling.h"
#include "passes/optimizer/UpdateProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace nano {
#define GEN_PASS_DEF_SCALEPRODUCTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;
using namespace nano::fp8;

namespace {

/// What delayed scaling uses in the first step, when nothing has been seen: inputs of a product are
/// near 1; gradients may be anything from 1e-8 to 10.
double firstScale(Operand operand) { return operand == Operand::Gradient ? 0x1p-12 : 1; }

/// A tensor whose largest magnitudes in the last steps decide its scale.
struct Watched {
  StateOp weight;
  Operand operand;
  llvm::SetVector<Value> values; ///< in the present function

  std::string symbol() const { return amaxSymbol(StateOp(weight).getSymName(), operand); }
};

class ModuleScaler {
public:
  ModuleScaler(ModuleOp module, bool kMajor)
      : module(module), kMajor(kMajor), declarations(module.getContext()) {}

  LogicalResult run();

private:
  /// The products of a function that will be scaled; `report` says of the others why not.
  SmallVector<Product> scalable(ProgramOp function, bool report);
  void checkScales(const Product &product);
  void rewrite(ProgramOp function, bool isFirst);
  Scaled weightCopy(ProgramOp function, const Product &product, ArrayRef<Product> products,
                    bool transposed, bool isFirst);
  Value sharedWeightScale(OpBuilder &builder, StringRef owner, ArrayRef<Product> products,
                          bool isFirst);
  void watch(ProgramOp function, ArrayRef<Product> products, bool isFirst);
  void updateScales(ProgramOp update);
  void turnOperands();
  /// Declares a state whose elements are `init` at first, behind its weight.
  void declare(StateOp weight, const std::string &name, Type type, Role role, double init);
  /// Declares the scalars of the given scales.
  void declareScales(StateOp weight);
  /// True when the name is new to the module; else tells so.
  bool claim(StateOp weight, const std::string &name);

  const Policy &policyOf(StateOp weight) const {
    return policies.find(weight.getSymName())->second;
  }

  ModuleOp module;
  bool kMajor, isBroken = false;
  OpBuilder declarations;
  llvm::StringMap<Policy> policies;    ///< of the weights with another recipe than off
  Owners owners;                       ///< of scales of weights and gradients
  llvm::StringMap<Scaled> copies;      ///< of weights in the present function, by symbol
  llvm::StringMap<Value> sharedScales; ///< of weights in the present function, by owner
  Operation *lastConversion = nullptr; ///< of a weight in the present function
  SmallVector<Watched> watched;        ///< in the order of their first products
};

/// Brings the operands of the model's own products in 8 bits to the inner dimension last.
void ModuleScaler::turnOperands() {
  module.walk([&](ScaledMatmulOp op) {
    OpBuilder builder(op);
    GraphBuilder g(builder, op.getLoc());
    auto turn = [&](OpOperand &operand, OpOperand &scale) {
      for (OpOperand *each : {&operand, &scale})
        if (tensorType(each->get()).getRank() == 2)
          each->set(g.transpose(each->get()));
    };
    if (op.getTransposeA())
      turn(op.getAMutable(), op.getScaleAMutable());
    if (!op.getTransposeB())
      turn(op.getBMutable(), op.getScaleBMutable());
    op.setTransposeA(false);
    op.setTransposeB(true);
  });
}

LogicalResult ModuleScaler::run() {
  if (kMajor)
    turnOperands();
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter)
      continue;
    FailureOr<Policy> policy = Policy::of(state);
    if (failed(policy))
      return failure();
    if (policy->recipe != Recipe::Off)
      policies[state.getSymName()] = *policy;
  }
  if (policies.empty())
    return success();
  ProgramOp first = programWithRole(module, "first"), next = programWithRole(module, "next");
  if (!first || !next)
    return module.emitError("products are scaled in the programs first and next: "
                            "nano-split-accumulation runs before");
  const bool hasBlocks = llvm::any_of(
      policies, [](const auto &policy) { return policy.second.recipe == Recipe::Block; });
  if (kMajor && hasBlocks)
    modelOrNew(module).setGpuScales(true);
  rewrite(first, true);
  rewrite(next, false);
  if (!watched.empty())
    updateScales(updateProgram(module));
  return failure(isBroken);
}

SmallVector<Product> ModuleScaler::scalable(ProgramOp function, bool report) {
  SmallVector<Product> products;
  llvm::StringSet<> found;
  FailureOr<SmallVector<Product>> chosen = chosenProducts(function);
  isBroken |= failed(chosen);
  if (failed(chosen))
    return products;
  for (const Product &product : *chosen) {
    StateOp weight = product.weight;
    MatmulOp op = product.op;
    found.insert(weight.getSymName());
    std::string reason = obstacle(product, policyOf(weight).recipe, kMajor);
    if (reason.empty() && report)
      checkScales(product);
    if (reason.empty())
      products.push_back(product);
    else if (report)
      op.emitRemark() << "'" << weight.getSymName() << "': the " << nameOf(product.part)
                      << " stays in " << tensorType(op.getA()).getElementType() << ": " << reason;
  }
  for (auto state : module.getOps<StateOp>())
    if (report && policies.contains(state.getSymName()) && !found.contains(state.getSymName()))
      state.emitRemark() << "'" << state.getSymName()
                         << "': no product reads it whole, so that nothing of it runs in FP8";
  return products;
}

/// A product in 8 bits needs the static scales of what it reads.
void ModuleScaler::checkScales(const Product &product) {
  StateOp weight = product.weight;
  const Policy &policy = policyOf(weight);
  for (Operand operand : {product.a, product.b}) {
    if (policy.recipe != Recipe::Static || policy.scale(operand) > 0)
      continue;
    MatmulOp op = product.op;
    emitModelError(op) << "FP8: the " << nameOf(product.part) << " of '" << weight.getSymName()
                       << "' needs a static scale of the " << nameOf(operand)
                       << ", which is not known; measure it with this plan's sizes, or choose "
                          "another recipe";
    isBroken = true;
    return;
  }
}

bool ModuleScaler::claim(StateOp weight, const std::string &name) {
  Operation *holder = SymbolTable::lookupSymbolIn(module, name);
  if (!holder)
    return true;
  InFlightDiagnostic error = emitModelError(weight)
                             << "the name @" << name << " is taken: FP8 scaling needs it";
  error.attachNote(holder->getLoc()) << "taken here";
  isBroken = true;
  return false;
}

void ModuleScaler::declareScales(StateOp weight) {
  for (Operand operand : {Operand::Gradient, Operand::Weight, Operand::Input}) {
    const std::string name = scaleSymbol(weight.getSymName(), operand);
    if (!(policyOf(weight).scale(operand) > 0) || !claim(weight, name))
      continue;
    declarations.setInsertionPointAfter(weight);
    ImplicitLocOpBuilder builder(weight.getLoc(), declarations);
    auto scalar = ScalarOp::create(builder, name, builder.getF32Type());
    SmallVector<Type> types(4, builder.getF64Type());
    builder.createBlock(&scalar.getBody(), {}, types, SmallVector<Location>(4, weight.getLoc()));
    Value number = arith::ConstantOp::create(
        builder, builder.getF64FloatAttr(policyOf(weight).scale(operand)));
    YieldOp::create(builder, number);
  }
}

void ModuleScaler::declare(StateOp weight, const std::string &name, Type type, Role role,
                           double init) {
  if (!claim(weight, name))
    return;
  declarations.setInsertionPointAfter(weight);
  auto zero =
      InitAttr::get(module.getContext(), "constant", declarations.getDenseF64ArrayAttr({init}));
  StateOp::create(declarations, weight.getLoc(), name, cast<RankedTensorType>(type), role, zero,
                  FlatSymbolRefAttr());
}

/// Scales of blocks in rows of a multiple of gpuScaleUnit: with zeros behind them, or, of one
/// column, again and again.
Value padded(OpBuilder &builder, Location location, Value scales) {
  RankedTensorType type = tensorType(scales);
  const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1),
                whole = llvm::alignTo(columns, gpuScaleUnit);
  if (whole == columns)
    return scales;
  GraphBuilder g(builder, location);
  if (columns == 1)
    return g.broadcast(g.reshape(scales, {rows}), {rows, whole}, {0});
  return g.withZeros(scales, 1, whole - columns);
}

/// The first `columns` of such scales.
Value unpadded(OpBuilder &builder, Location location, Value scales, int64_t columns) {
  RankedTensorType type = tensorType(scales);
  if (type.getDimSize(1) == columns)
    return scales;
  return SliceOp::create(builder, location, type.clone({type.getDimSize(0), columns}), scales,
                         builder.getI64IntegerAttr(1), builder.getI64IntegerAttr(0));
}

/// The scale that weights have together; null where the owner shares none.
Value ModuleScaler::sharedWeightScale(OpBuilder &builder, StringRef owner,
                                      ArrayRef<Product> products, bool isFirst) {
  if (llvm::none_of(owners, [&](const auto &entry) { return entry.second == owner; }))
    return {};
  Value &scale = sharedScales[owner];
  if (scale)
    return scale;
  auto state = cast<StateOp>(SymbolTable::lookupSymbolIn(module, owner));
  const std::string symbol = quantizedScaleSymbol(owner);
  const Location location = state.getLoc();
  GraphBuilder g(builder, location);
  if (!isFirst)
    return scale = g.load(symbol, RankedTensorType::get({}, builder.getF32Type()));
  Value largest;
  for (const Product &product : products) {
    StateOp weight = product.weight;
    if (product.part != Part::Forward || ownerOf(owners, weight.getSymName()) != owner)
      continue;
    Value amax = amaxOf(builder, weight.getLoc(), storedWeight(builder, product));
    largest = largest ? MaxOp::create(builder, location, amax.getType(), largest, amax).getResult()
                      : amax;
  }
  const Policy &policy = policyOf(state);
  scale = scaleOf(builder, location, largest,
                  formatOf(Operand::Weight, policy.recipe, builder.getContext()), policy.margin,
                  g.scalar(1));
  declare(state, symbol, scale.getType(), Role::Gradient, 0);
  g.store(scale, symbol);
  return scale;
}

/// In `first` the weight is converted and stored before anything else; in `next` it is loaded.
Scaled ModuleScaler::weightCopy(ProgramOp function, const Product &product,
                                ArrayRef<Product> products, bool transposed, bool isFirst) {
  StateOp weight = product.weight;
  StringRef name = weight.getSymName();
  const std::string symbol = quantizedSymbol(name) + (transposed ? ".t" : "");
  if (Scaled copy = copies.lookup(symbol); copy.value)
    return copy;
  Scaled straight;
  if (transposed)
    straight = weightCopy(function, product, products, false, isFirst);
  const Policy &policy = policyOf(weight);
  const bool perBlock = policy.recipe == Recipe::Block;
  const std::string scaleName = quantizedScaleSymbol(name) + (transposed ? ".t" : "");

  // Behind the conversions that are there already.
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  if (lastConversion)
    builder.setInsertionPointAfter(lastConversion);
  GraphBuilder g(builder, weight.getLoc());
  auto keep = [&](Value value, const std::string &state) {
    if (isFirst) {
      declare(weight, state, value.getType(), Role::Gradient, 0);
      g.store(value, state);
    }
  };
  auto load = [&](const std::string &state) {
    auto declared = cast<StateOp>(SymbolTable::lookupSymbolIn(module, state));
    return g.load(state, declared.getTensorType());
  };
  Value given, shared;
  if (policy.recipe == Recipe::Static && !transposed)
    given =
        g.load(scaleSymbol(name, Operand::Weight), RankedTensorType::get({}, builder.getF32Type()));
  else if (!transposed)
    given = shared = sharedWeightScale(builder, ownerOf(owners, name), products, isFirst);

  Scaled copy = straight;
  if (transposed && isFirst) {
    copy.value = g.transpose(straight.value);
    if (perBlock)
      copy.scale = g.transpose(straight.scale);
  } else if (isFirst) {
    MatmulOp op = product.op;
    Value stored = storedWeight(builder, product);
    const int64_t zeros = tensorType(op.getB()).getDimSize(0) - tensorType(stored).getDimSize(0);
    // A block of scales may reach into the rows of zeros; else they are the same in 8 bits.
    if (perBlock)
      stored = g.withZeros(stored, 0, zeros);
    copy = quantizeWeight(builder, weight.getLoc(), stored, policy, given);
    if (!perBlock)
      copy.value = g.withZeros(copy.value, 0, zeros);
  } else {
    copy.value = load(symbol);
    if (given)
      copy.scale = given;
    else if (!transposed || perBlock)
      copy.scale = load(scaleName);
    if (perBlock && kMajor)
      copy.scale = unpadded(builder, weight.getLoc(), copy.scale,
                            tensorType(copy.value).getDimSize(1) / ScaledMatmulOp::blockSize);
  }
  keep(copy.value, symbol);
  if (policy.recipe != Recipe::Static && !shared && (!transposed || perBlock)) {
    if (perBlock && kMajor && isFirst) {
      const int64_t columns = tensorType(copy.scale).getDimSize(1);
      Value whole = padded(builder, weight.getLoc(), copy.scale);
      keep(whole, scaleName);
      // The kernel that makes a column writes only what is kept.
      if (columns == 1)
        copy.scale = unpadded(builder, weight.getLoc(), whole, columns);
    } else {
      keep(copy.scale, scaleName);
    }
  }
  lastConversion = &*std::prev(builder.getInsertionPoint());
  return copies[symbol] = copy;
}

/// Takes the largest magnitudes of what delayed scaling converts, over the step's micro-batches.
void ModuleScaler::watch(ProgramOp function, ArrayRef<Product> products, bool isFirst) {
  llvm::StringSet<> forward; // weights whose forward product is scaled: it sees the input first
  for (const Product &product : products)
    if (product.part == Part::Forward)
      forward.insert(StateOp(product.weight).getSymName());
  SmallVector<Watched> tensors;
  auto tensorOf = [&](StateOp weight, Operand operand) -> Watched & {
    auto *found = llvm::find_if(tensors, [&](const Watched &tensor) {
      return tensor.weight == weight && tensor.operand == operand;
    });
    return found != tensors.end() ? *found : tensors.emplace_back(Watched{weight, operand, {}});
  };
  for (const Product &product : products)
    for (unsigned index : {0, 1}) {
      StateOp weight = product.weight;
      const Operand operand = product.operand(index);
      const bool seen = operand == Operand::Input && product.part == Part::WeightGradient &&
                        forward.contains(weight.getSymName());
      if (policyOf(weight).recipe != Recipe::Delayed || operand == Operand::Weight || seen)
        continue;
      tensorOf(weight, operand).values.insert(ProductScaler::source(product, index));
    }

  OpBuilder end(function.getBody().front().getTerminator());
  for (Watched &tensor : tensors) {
    const std::string symbol = tensor.symbol();
    Location location = tensor.weight.getLoc();
    GraphBuilder g(end, location);
    auto larger = [&](Value a, Value b) -> Value {
      return a ? MaxOp::create(end, location, a.getType(), a, b).getResult() : b;
    };
    Value largest;
    for (Value value : tensor.values) {
      // Where the value is made, so that it need not live longer for this.
      OpBuilder builder(module.getContext());
      builder.setInsertionPointAfterValue(value);
      largest = larger(largest, amaxOf(builder, value.getLoc(), value));
    }
    if (!isFirst)
      largest = larger(g.load(symbol, largest.getType()), largest);
    if (isFirst) {
      StringRef name = tensor.weight.getSymName();
      const int64_t history = policyOf(tensor.weight).history;
      auto ages = RankedTensorType::get({history}, end.getF32Type());
      declare(tensor.weight, symbol, largest.getType(), Role::Gradient, 0);
      declare(tensor.weight, historySymbol(name, tensor.operand), ages, Role::Optimizer, 0);
      declare(tensor.weight, scaleSymbol(name, tensor.operand), largest.getType(), Role::Optimizer,
              firstScale(tensor.operand));
    }
    g.store(largest, symbol);
  }
  if (isFirst)
    watched = std::move(tensors);
}

void ModuleScaler::rewrite(ProgramOp function, bool isFirst) {
  copies.clear();
  sharedScales.clear();
  lastConversion = nullptr;
  SmallVector<Product> products = scalable(function, isFirst);
  if (isFirst)
    owners = scaleOwners(policies, products);
  llvm::SetVector<Operation *> weights;
  for (const Product &product : products)
    weights.insert(product.weight);
  for (Operation *weight : weights)
    if (isFirst && policyOf(cast<StateOp>(weight)).recipe == Recipe::Static)
      declareScales(cast<StateOp>(weight));
  watch(function, products, isFirst);
  ProductScaler scaler(policies, products, owners, kMajor,
                       [&](const Product &product, bool transposed) {
                         return weightCopy(function, product, products, transposed, isFirst);
                       });
  for (const Product &product : products) {
    MatmulOp op = product.op;
    op.replaceAllUsesWith(scaler.scale(product, op.getType()).getResult());
    op.erase();
  }
  eraseDead(function);
}

/// history ← (this step's magnitude, all but the oldest); scale ← the largest of them over the
/// format's largest number, or what it was where nothing but zeros was seen.
void ModuleScaler::updateScales(ProgramOp update) {
  OpBuilder builder(update.getBody().front().getTerminator());
  auto number = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<Value> seen; // on all ranks; distribution removes the op where there is one
  for (Watched &tensor : watched) {
    Location location = tensor.weight.getLoc();
    Value here = GraphBuilder(builder, location).load(tensor.symbol(), number);
    seen.push_back(AllReduceOp::create(builder, location, number, here, Combiner::max));
  }
  // Gradients that have one scale have the history of the largest of them.
  llvm::StringMap<Value> shared;
  for (auto [tensor, amax] : llvm::zip_equal(watched, seen))
    if (tensor.operand == Operand::Gradient) {
      Value &largest = shared[ownerOf(owners, tensor.weight.getSymName())];
      largest =
          largest
              ? MaxOp::create(builder, tensor.weight.getLoc(), number, largest, amax).getResult()
              : amax;
    }
  for (auto [tensor, own] : llvm::zip_equal(watched, seen)) {
    const Value amax = tensor.operand == Operand::Gradient
                           ? shared.lookup(ownerOf(owners, tensor.weight.getSymName()))
                           : own;
    StringRef name = tensor.weight.getSymName();
    const Policy &policy = policyOf(tensor.weight);
    Location location = tensor.weight.getLoc();
    GraphBuilder g(builder, location);
    const std::string history = historySymbol(name, tensor.operand),
                      scale = scaleSymbol(name, tensor.operand);
    auto ages = RankedTensorType::get({policy.history}, builder.getF32Type());
    Value newest = g.broadcast(amax, ages.getShape()), steps = newest;
    if (policy.history > 1) {
      Value older = RotateOp::create(builder, location, ages, g.load(history, ages),
                                     builder.getI64IntegerAttr(policy.history - 1));
      auto places = ages.clone(builder.getI32Type());
      Value place = IotaOp::create(builder, location, places, builder.getI64IntegerAttr(0));
      steps = g.select(Predicate::eq, place, g.constant(0, places), newest, older);
    }
    g.store(steps, history);
    g.store(scaleOf(builder, location, g.reduce(Combiner::max, steps, {0}),
                    formatOf(tensor.operand, policy.recipe, builder.getContext()), policy.margin,
                    g.load(scale, number)),
            scale);
  }
}

struct ScaleProducts : public nano::impl::ScaleProductsBase<ScaleProducts> {
  using ScaleProductsBase::ScaleProductsBase;

  void runOnOperation() override {
    if (failed(ModuleScaler(getOperation(), kMajor).run()))
      signalPassFailure();
  }
};

} // namespace
