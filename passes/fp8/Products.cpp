// Finds products by the parameter that they read or whose gradient they give.
#include "passes/fp8/Products.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Values.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::fp8 {

StringRef nameOf(Part part) {
  switch (part) {
  case Part::Forward:
    return "forward product";
  case Part::InputGradient:
    return "gradient of the input";
  case Part::WeightGradient:
    return "gradient of the weight";
  }
  return {};
}

namespace {

/// What a concatenation puts in front of rows of zeros; `value` itself where none does.
Value withoutZeros(Value value) {
  auto rows = value.getDefiningOp<ConcatOp>();
  const bool hasZeros =
      rows && rows.getDim() == 0 && rows.getInputs().size() == 2 && isZero(rows.getInputs().back());
  return hasZeros ? rows.getInputs().front() : value;
}

/// The name of the state that `value` shows whole; empty when it shows none.
StringRef loadedState(Value value) {
  LoadOp load = weightOf(withoutZeros(value));
  return load ? load.getSymbol() : StringRef();
}

/// True for a slice that leaves out rows at the end: the gradients of a weight's rows of zeros.
bool isFirstRows(Operation *op) {
  auto slice = dyn_cast<SliceOp>(op);
  return slice && slice.getDim() == 0 && slice.getStart() == 0;
}

/// Of the readers of a weight's gradient the one that goes on with it: where numbers multiply the
/// weight's rows, these numbers' own gradients are computed of it too.
Operation *readerOf(Value value) {
  if (value.hasOneUse())
    return *value.user_begin();
  Operation *reader = nullptr;
  for (Operation *user : value.getUsers()) {
    auto mul = dyn_cast<MulOp>(user);
    if (!mul || (multiplied(mul) == value && reader))
      return nullptr;
    if (multiplied(mul) == value)
      reader = user;
  }
  return reader;
}

/// The parameter whose gradient `value` is added to; empty when it is none's.
StringRef gradientOf(Value value) {
  while (Operation *user = readerOf(value)) {
    StringRef symbol;
    if (auto store = dyn_cast<StoreOp>(user))
      symbol = store.getSymbol();
    else if (auto accumulate = dyn_cast<AccumulateOp>(user))
      symbol = accumulate.getSymbol();
    else if (!isa<CastOp, ReshapeOp, AddOp>(user) && !isFirstRows(user) &&
             !(isa<MulOp>(user) && multiplied(cast<MulOp>(user)) == value))
      return {};
    if (!symbol.empty())
      return symbol.consume_front("grad.") ? symbol : StringRef();
    value = user->getResult(0);
  }
  return {};
}

} // namespace

Value storedWeight(OpBuilder &builder, const Product &product) {
  StateOp weight = product.weight;
  MatmulOp op = product.op;
  GraphBuilder g(builder, weight.getLoc());
  if (MulOp scaled = scaledRows(withoutZeros(op.getB()))) {
    llvm::SetVector<Operation *> ops;
    isOfParameters(scaled, ops);
    IRMapping mapping;
    for (Operation *each : ops)
      builder.clone(*each, mapping);
    return mapping.lookup(scaled.getResult());
  }
  const int64_t columns = tensorType(op.getB()).getDimSize(1);
  return g.reshape(g.load(weight.getSymName(), weight.getTensorType()),
                   {weight.getTensorType().getNumElements() / columns, columns});
}

SmallVector<Product> findProducts(ProgramOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  llvm::StringMap<StateOp> parameters;
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == Role::Parameter)
      parameters[state.getSymName()] = state;

  SmallVector<Product> products;
  /// How the forward product reads a weight.
  struct Reading {
    bool transposed;
    Type type;
  };
  llvm::StringMap<Reading> readings;
  for (auto op : function.getOps<MatmulOp>()) {
    if (tensorType(op).getRank() != 2)
      continue;
    StateOp readA = parameters.lookup(loadedState(op.getA())),
            readB = parameters.lookup(loadedState(op.getB()));
    if (readB && !readA && !op.getTransposeA()) {
      Reading reading{op.getTransposeB(), op.getB().getType()};
      const Reading &first = readings.try_emplace(readB.getSymName(), reading).first->second;
      if (reading.type != first.type)
        continue;
      const bool isForward = reading.transposed == first.transposed;
      products.push_back({op, readB, isForward ? Part::Forward : Part::InputGradient,
                          isForward ? Operand::Input : Operand::Gradient, Operand::Weight});
    } else if (!readA && !readB && op.getTransposeA() && !op.getTransposeB()) {
      StringRef name = gradientOf(op);
      auto known = readings.find(name);
      if (known == readings.end())
        continue;
      // W is [out, in] where the forward product transposes it, and so is its gradient.
      const bool outFirst = known->second.transposed;
      products.push_back({op, parameters.lookup(name), Part::WeightGradient,
                          outFirst ? Operand::Gradient : Operand::Input,
                          outFirst ? Operand::Input : Operand::Gradient});
    }
  }
  return products;
}

FailureOr<SmallVector<Product>> chosenProducts(ProgramOp function) {
  SmallVector<Product> chosen;
  for (const Product &product : findProducts(function)) {
    FailureOr<Policy> policy = Policy::of(product.weight);
    if (failed(policy))
      return failure();
    if (policy->recipe != Recipe::Off && (policy->backward || product.part == Part::Forward))
      chosen.push_back(product);
  }
  return chosen;
}

void markScaled(ScaledMatmulOp op, const Product &product) {
  Builder builder(op.getContext());
  auto entry = [&](StringRef name, StringRef value) {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  };
  op.setLayerAttr(builder.getDictionaryAttr(
      {entry("weight", StateOp(product.weight).getSymName()), entry("part", nameOf(product.part)),
       entry("a", nameOf(product.a)), entry("b", nameOf(product.b))}));
}

SmallVector<ScaledProduct> scaledProducts(ProgramOp function) {
  auto operandOf = [](StringAttr name) {
    for (Operand operand : {Operand::Input, Operand::Weight})
      if (name && name == nameOf(operand))
        return operand;
    return Operand::Gradient;
  };
  SmallVector<ScaledProduct> products;
  for (auto op : function.getOps<ScaledMatmulOp>()) {
    const DictionaryAttr mark = op.getLayerAttr();
    if (!mark)
      continue;
    ScaledProduct product;
    product.op = op;
    product.weight = mark.getAs<StringAttr>("weight");
    for (Part part : allParts)
      if (mark.getAs<StringAttr>("part") == nameOf(part))
        product.part = part;
    product.a = operandOf(mark.getAs<StringAttr>("a"));
    product.b = operandOf(mark.getAs<StringAttr>("b"));
    products.push_back(product);
  }
  return products;
}

} // namespace nano::fp8
