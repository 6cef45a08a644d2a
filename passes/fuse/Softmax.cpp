// Bounds of softcapped logits, and what a loss and its gradient share.
#include "passes/fuse/Softmax.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// e^−60 ≈ 10⁻²⁶ is far from the smallest f32, and so are sums and products of such numbers.
constexpr double widestRange = 60;
/// Ops that a bound is followed through at most.
constexpr int maxDepth = 16;

struct Range {
  double low, high;
};

std::optional<Range> rangeOf(Value value, int depth);

/// The range of a function of two operands that has its extremes at the ends of theirs.
template <typename Function>
std::optional<Range> atEnds(Operation *op, int depth, Function function) {
  std::optional<Range> a = rangeOf(op->getOperand(0), depth), b = rangeOf(op->getOperand(1), depth);
  if (!a || !b)
    return std::nullopt;
  auto [low, high] = std::minmax({function(a->low, b->low), function(a->low, b->high),
                                  function(a->high, b->low), function(a->high, b->high)});
  return Range{low, high};
}

std::optional<Range> rangeOf(Value value, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  --depth;
  if (const std::optional<FunctionTraits> traits = traitsOf(op))
    if (std::isfinite(traits->low) && std::isfinite(traits->high))
      return Range{traits->low, traits->high};
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    double x = constant.getValue().convertToDouble();
    return Range{x, x};
  }
  if (isa<CastOp, BroadcastOp, ReshapeOp, SliceOp>(op))
    return rangeOf(op->getOperand(0), depth);
  if (isa<NegOp>(op)) {
    std::optional<Range> x = rangeOf(op->getOperand(0), depth);
    return x ? std::optional(Range{-x->high, -x->low}) : std::nullopt;
  }
  if (isa<AddOp>(op))
    return atEnds(op, depth, [](double a, double b) { return a + b; });
  if (isa<SubOp>(op))
    return atEnds(op, depth, [](double a, double b) { return a - b; });
  if (isa<MulOp>(op))
    return atEnds(op, depth, [](double a, double b) { return a * b; });
  if (auto div = dyn_cast<DivOp>(op)) {
    auto divisor = div.getRhs().getDefiningOp<ConstantOp>();
    if (divisor && !divisor.getValue().isZero())
      return atEnds(op, depth, [](double a, double b) { return a / b; });
  }
  return std::nullopt;
}

/// x and y where value = x − y, and y is one number a row or the same for all.
struct Difference {
  Value x, y;
};

std::optional<Difference> shiftedExp(Value value) {
  auto exp = value.getDefiningOp<ExpOp>();
  auto sub = exp ? exp.getX().getDefiningOp<SubOp>() : SubOp();
  return sub ? std::optional(Difference{sub.getLhs(), sub.getRhs()}) : std::nullopt;
}

/// True when the full tensor `wide` repeats the row values `narrow` along the columns.
bool repeats(Value wide, Value narrow) {
  if (auto broadcast = wide.getDefiningOp<BroadcastOp>())
    return broadcast.getX() == narrow;
  auto a = wide.getDefiningOp<ConstantOp>(), b = narrow.getDefiningOp<ConstantOp>();
  return a && b && a.getValue() == b.getValue();
}

/// Σ e^(x − m) and the exponentials in it, where `lse` = m + ln Σ e^(x − m).
struct SoftmaxSum {
  Value sum, exponentials;
};

std::optional<SoftmaxSum> sumOf(Value lse, Value x) {
  auto add = lse.getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  for (auto [m, logarithm] :
       {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
    auto log = logarithm.getDefiningOp<LogOp>();
    auto sum = log ? log.getX().getDefiningOp<ReduceOp>() : ReduceOp();
    if (!sum || sum.getCombiner() != Combiner::sum)
      continue;
    std::optional<Difference> inside = shiftedExp(sum.getX());
    if (inside && inside->x == x && repeats(inside->y, m))
      return SoftmaxSum{sum, sum.getX()};
  }
  return std::nullopt;
}

//===- Products with an exception in one column ---------------------------===//

/// A factor of a product, or a divisor.
struct Factor {
  Value value;
  bool divides;
};

/// Of a product of very many factors, such as a square of squares, some are products themselves.
void factorsOf(Value value, bool divides, SmallVectorImpl<Factor> &factors) {
  constexpr size_t many = 32;
  Operation *op = value.getDefiningOp();
  if (factors.size() < many && op && isa<MulOp, DivOp>(op) &&
      tensorType(value).getElementType().isF32()) {
    factorsOf(op->getOperand(0), divides, factors);
    factorsOf(op->getOperand(1), divides != isa<DivOp>(op), factors);
    return;
  }
  factors.push_back({value, divides});
}

/// True for select(eq, column, a number a row, …) of rank 2.
bool choosesOneColumn(SelectOp select) {
  auto column = select.getLhs().getDefiningOp<IotaOp>();
  auto target = select.getRhs().getDefiningOp<BroadcastOp>();
  return select.getPredicate() == Predicate::eq && tensorType(select).getRank() == 2 && column &&
         column.getDim() == 1 && target && target.getDims() == ArrayRef<int64_t>{0};
}

/// One number a row, or one for all: what such a tensor repeats.
bool isRowFactor(Value value) {
  if (value.getDefiningOp<ConstantOp>())
    return true;
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && !llvm::is_contained(broadcast.getDims(), 1);
}

/// Reductions that the value needs one after the other.
int64_t reductionsBefore(Value value, llvm::DenseMap<Value, int64_t> &known) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0;
  if (auto it = known.find(value); it != known.end())
    return it->second;
  int64_t most = 0;
  for (Value operand : op->getOperands())
    most = std::max(most, reductionsBefore(operand, known));
  return known[value] = most + isa<ReduceOp>(op);
}

/// The product of the factors that are one number a row, as such; null when none is.
Value rowProduct(GraphBuilder &g, ArrayRef<Factor> factors, RankedTensorType rowType) {
  Value product;
  for (bool divides : {false, true})
    for (const Factor &factor : factors) {
      if (factor.divides != divides || !isRowFactor(factor.value))
        continue;
      auto broadcast = factor.value.getDefiningOp<BroadcastOp>();
      Value row =
          broadcast
              ? broadcast.getX()
              : g.constant(factor.value.getDefiningOp<ConstantOp>().getValue().convertToDouble(),
                           rowType);
      if (broadcast && row.getType() != rowType)
        row = g.broadcast(row, rowType.getShape(), broadcast.getDims());
      if (!product && divides)
        product = g.constant(1, rowType);
      product = !product ? row : divides ? g.div(product, row) : g.mul(product, row);
    }
  return product;
}

/// The product of the other factors; null when there is none, or only divisors.
Value elementProduct(GraphBuilder &g, ArrayRef<Factor> factors) {
  Value product;
  for (bool divides : {false, true})
    for (const Factor &factor : factors)
      if (factor.divides == divides && !isRowFactor(factor.value)) {
        if (!product && divides)
          return {};
        product = !product  ? factor.value
                  : divides ? g.div(product, factor.value)
                            : g.mul(product, factor.value);
      }
  return product;
}

/// The ops from `value` down to the only choice of one column among its factors, that first; empty
/// when there is none, or something else needs what is between.
SmallVector<Operation *> pathToChoice(Value value) {
  SmallVector<Operation *> path;
  for (;;) {
    Operation *op = value.getDefiningOp();
    if (!op || !op->hasOneUse() || !tensorType(value).getElementType().isF32())
      return {};
    path.push_back(op);
    if (auto select = dyn_cast<SelectOp>(op)) {
      std::reverse(path.begin(), path.end());
      return choosesOneColumn(select) ? path : SmallVector<Operation *>();
    }
    if (!isa<MulOp, DivOp>(op))
      return {};
    auto holds = [](Value operand) {
      SmallVector<Factor> factors;
      factorsOf(operand, false, factors);
      return llvm::any_of(factors, [](const Factor &factor) {
        return factor.value.getDefiningOp<SelectOp>() != nullptr;
      });
    };
    bool inFirst = holds(op->getOperand(0)), inSecond = holds(op->getOperand(1));
    if (inFirst == inSecond || (inSecond && isa<DivOp>(op)))
      return {};
    value = op->getOperand(inFirst ? 0 : 1);
  }
}

void separateTarget(Value output) {
  auto cast = output.getDefiningOp<CastOp>();
  if (cast && !cast->hasOneUse())
    return;
  Value product = cast ? cast.getX() : output;
  SmallVector<Operation *> path = pathToChoice(product);
  if (path.size() < 2)
    return;
  auto choice = ::cast<SelectOp>(path.front());

  SmallVector<Factor> factors;
  factorsOf(product, false, factors);
  llvm::erase_if(factors, [&](const Factor &factor) { return factor.value == choice; });
  factorsOf(choice.getOnFalse(), false, factors);
  llvm::DenseMap<Value, int64_t> known;
  int64_t ofElements = 0, ofRows = 0;
  for (const Factor &factor : factors) {
    int64_t &most = isRowFactor(factor.value) ? ofRows : ofElements;
    most = std::max(most, reductionsBefore(factor.value, known));
  }
  // Of a softmax: worth it for what the loss can leave behind, or for the columns without a choice.
  if (ofElements == 0 && ofRows == 0)
    return;

  RankedTensorType type = tensorType(product);
  OpBuilder builder(product.getDefiningOp());
  GraphBuilder g(builder, product.getLoc());
  Value elements = elementProduct(g, factors);
  Value rows = rowProduct(g, factors, type.clone({type.getDimSize(0)}));
  if (!elements || !rows)
    return;
  IRMapping mapping;
  mapping.map(choice.getResult(), choice.getOnTrue());
  for (Operation *op : llvm::drop_begin(path))
    builder.clone(*op, mapping);
  Value separated =
      g.select(Predicate::eq, choice.getLhs(), choice.getRhs(), mapping.lookup(product),
               g.mul(elements, g.broadcast(rows, type.getShape(), {0})));
  product.replaceAllUsesWith(separated);
  for (Operation *op : llvm::reverse(path))
    op->erase();
}

} // namespace

std::optional<double> softmaxShift(Value x) {
  std::optional<Range> range = rangeOf(x, maxDepth);
  if (!range || !(range->high - range->low <= widestRange))
    return std::nullopt;
  return range->high;
}

void reuseExponentials(Block &body) {
  SmallVector<ExpOp> exps(body.getOps<ExpOp>());
  for (ExpOp exp : exps) {
    std::optional<Difference> difference = shiftedExp(exp);
    auto broadcast = difference ? difference->y.getDefiningOp<BroadcastOp>() : BroadcastOp();
    std::optional<SoftmaxSum> softmax =
        broadcast ? sumOf(broadcast.getX(), difference->x) : std::nullopt;
    if (!softmax)
      continue;
    OpBuilder builder(exp);
    GraphBuilder g(builder, exp.getLoc());
    Value inverse = g.div(g.constant(1, softmax->sum.getType()), softmax->sum);
    exp.replaceAllUsesWith(
        g.mul(softmax->exponentials,
              g.broadcast(inverse, tensorType(exp).getShape(), broadcast.getDims())));
    Operation *sub = exp.getX().getDefiningOp();
    exp.erase();
    for (Operation *op : {sub, broadcast.getOperation()})
      if (op->use_empty())
        op->erase();
  }
}

void separateTargets(Block &body) {
  for (Value output : SmallVector<Value>(body.getTerminator()->getOperands()))
    separateTarget(output);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace nano
