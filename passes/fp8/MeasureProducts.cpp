// nano-measure-products: adds a program that says how well the scales of 8-bit products fit what
// they see.
//
// `measure` is a copy of `first` as nano-scale-products leaves it, without stores. Beside each
// product of 8-bit operands stands the one that it replaces, of what the operands were converted
// from, and beside each conversion the counts of what it cut off and what it lost. Everything is
// reduced within rows first, so that wide tensors can still be walked in chunks of rows.
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/Passes.h"
#include "passes/fp8/Scaling.h"

#include "llvm/ADT/MapVector.h"

namespace nano {
#define GEN_PASS_DEF_MEASUREPRODUCTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;
using namespace nano::fp8;

namespace {

/// Of a weight's row: four numbers an operand, then the error of each product.
constexpr size_t numbersPerOperand = 4, firstError = 3 * numbersPerOperand,
                 columns = firstError + 3;

/// How an 8-bit operand came about.
struct Conversion {
  QuantizeOp op;
  int64_t zeroRows = 0;    ///< behind what was converted
  bool transposed = false; ///< exchanged after the conversion
};

Conversion conversionOf(Value operand) {
  Conversion found;
  if (auto transpose = operand.getDefiningOp<TransposeOp>()) {
    found.transposed = true;
    operand = transpose.getX();
  }
  if (auto rows = operand.getDefiningOp<ConcatOp>()) {
    operand = rows.getInputs().front();
    found.zeroRows = tensorType(rows).getDimSize(0) - tensorType(operand).getDimSize(0);
  }
  found.op = operand.getDefiningOp<QuantizeOp>();
  return found;
}

class Measurement {
public:
  explicit Measurement(ProgramOp function)
      : builder(function.getBody().front().getTerminator()), function(function) {}

  /// Of a row: its weight, and whether its input, weight and gradient are converted at all.
  struct Row {
    StringAttr weight;
    SmallVector<bool> converted;
  };
  /// Rewrites the function to return the report of these rows, in order.
  FailureOr<SmallVector<Row>> run();

private:
  LogicalResult measureOperands(const ScaledProduct &product);
  void measureError(const ScaledProduct &product);

  /// Σ x over all elements, rows first.
  Value total(GraphBuilder &g, Value x) {
    for (int64_t rank = tensorType(x).getRank(); rank > 0; --rank)
      x = g.reduce(Combiner::sum, x, {rank - 1});
    return x;
  }
  std::array<Value, columns> &row(const ScaledProduct &product) { return rows[product.weight]; }

  OpBuilder builder;
  ProgramOp function;
  llvm::MapVector<StringAttr, std::array<Value, columns>> rows;
};

LogicalResult Measurement::measureOperands(const ScaledProduct &product) {
  ScaledMatmulOp op = product.op;
  Value operands[] = {op.getA(), op.getB()};
  for (unsigned index : {0, 1}) {
    const auto operand = static_cast<size_t>(product.operand(index));
    Value *numbers = &row(product)[operand * numbersPerOperand];
    QuantizeOp quantize = conversionOf(operands[index]).op;
    if (!quantize)
      return op.emitOpError("has an operand that is not converted in this program");
    if (numbers[0])
      continue;
    GraphBuilder g(builder, op.getLoc());
    Type f32 = builder.getF32Type();
    Value x = g.toF32(quantize.getX()), code = g.cast(quantize.getResult(), f32);
    Value zero = g.constant(0, x.getType()), one = g.constant(1, x.getType());
    Value largest = g.constant(largestOf(tensorType(quantize).getElementType()), x.getType());
    Value back = g.dequantize(quantize.getResult(), quantize.getScale(), f32);
    // The largest number stands for what lies within rounding of it, too.
    Value cut = g.select(Predicate::gt, g.abs(x), g.mul(g.abs(back), 1 + 0x1p-10), one, zero);
    cut = g.select(Predicate::eq, g.abs(code), largest, cut, zero);
    Value lost = g.select(Predicate::eq, code, zero, one, zero);
    lost = g.select(Predicate::ne, x, zero, lost, zero);
    const double share = 1.0 / static_cast<double>(tensorType(x).getNumElements());
    numbers[0] = amaxOf(builder, op.getLoc(), quantize.getX());
    numbers[1] = tensorType(quantize.getScale()).getRank() == 0 ? quantize.getScale() : g.scalar(0);
    numbers[2] = g.mul(total(g, cut), share);
    numbers[3] = g.mul(total(g, lost), share);
  }
  return success();
}

/// ‖y₈ − y‖/‖y‖, 0 where y is.
void Measurement::measureError(const ScaledProduct &product) {
  ScaledMatmulOp op = product.op;
  Value &error = row(product)[firstError + static_cast<size_t>(product.part)];
  if (error)
    return;
  GraphBuilder g(builder, op.getLoc());
  // The compute type: of the results, or where those are accumulated in f32, of the input.
  Value sources[2];
  bool transpose[2] = {op.getTransposeA(), op.getTransposeB()};
  Type type = tensorType(op).getElementType();
  for (unsigned index : {0, 1}) {
    Conversion conversion = conversionOf(index == 0 ? op.getA() : op.getB());
    sources[index] = conversion.op.getX();
    sources[index] = g.withZeros(sources[index], 0, conversion.zeroRows);
    transpose[index] ^= conversion.transposed;
    if (product.part == Part::WeightGradient && product.operand(index) == Operand::Input)
      type = tensorType(sources[index]).getElementType();
  }
  Value exact = MatmulOp::create(builder, op.getLoc(), op.getType(), g.cast(sources[0], type),
                                 g.cast(sources[1], type), op.getAddend(), transpose[0],
                                 transpose[1], op.getAlpha(), op.getBeta());
  exact = g.toF32(exact);
  Value difference = g.sub(g.toF32(op.getResult()), exact);
  Value square = total(g, g.mul(difference, difference)), norm = total(g, g.mul(exact, exact));
  Value zero = g.scalar(0);
  error = g.select(Predicate::gt, norm, zero, g.sqrt(g.div(square, norm)), zero);
}

FailureOr<SmallVector<Measurement::Row>> Measurement::run() {
  for (auto store : llvm::make_early_inc_range(function.getOps<StoreOp>()))
    store.erase();
  for (const ScaledProduct &product : scaledProducts(function)) {
    builder.setInsertionPointAfter(product.op);
    if (failed(measureOperands(product)))
      return failure();
    measureError(product);
  }
  Operation *end = function.getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  GraphBuilder g(builder, function.getLoc());
  SmallVector<Value> parts;
  SmallVector<Row> weights;
  for (auto &[weight, numbers] : rows) {
    Row &row = weights.emplace_back(Row{weight, {}});
    for (size_t operand = 0; operand < 3; ++operand)
      row.converted.push_back(bool(numbers[operand * numbersPerOperand]));
    for (Value number : numbers)
      parts.push_back(g.reshape(number ? number : g.scalar(0), {1}));
  }
  if (weights.empty())
    return weights;
  const auto count = static_cast<int64_t>(weights.size());
  auto flat = RankedTensorType::get({count * int64_t(columns)}, builder.getF32Type());
  Value report =
      ConcatOp::create(builder, function.getLoc(), flat, parts, builder.getI64IntegerAttr(0));
  report = g.reshape(report, {count, int64_t(columns)});
  end->setOperands(report);
  function.setType(
      builder.getFunctionType(function.getArgumentTypes(), TypeRange(report.getType())));
  eraseDead(function);
  return weights;
}

struct MeasureProducts : public nano::impl::MeasureProductsBase<MeasureProducts> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    ProgramOp first = programWithRole(module, "first");
    if (!first || scaledProducts(first).empty())
      return;
    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto measure = cast<ProgramOp>(builder.clone(*first));
    measure.setSymName("measure");
    measure.setRole("measure");
    FailureOr<SmallVector<Measurement::Row>> weights = Measurement(measure).run();
    if (failed(weights))
      return signalPassFailure();
    SmallVector<Attribute> list;
    for (const auto &[weight, converted] : *weights) {
      auto state = cast<StateOp>(SymbolTable::lookupSymbolIn(module, weight));
      FailureOr<Policy> policy = Policy::of(state);
      if (failed(policy))
        return signalPassFailure();
      list.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("weight", weight),
           builder.getNamedAttr("recipe", builder.getStringAttr(nameOf(policy->recipe))),
           builder.getNamedAttr("converted", builder.getDenseBoolArrayAttr(converted))}));
    }
    modelOrNew(module).setFp8ProductsAttr(builder.getArrayAttr(list));
  }
};

} // namespace
