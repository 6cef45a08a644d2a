// Bounds of softcapped logits, and the exponentials that a loss and its gradient share.
#include "passes/fuse/Softmax.h"

#include "ir/graph/GraphBuilder.h"

#include <algorithm>

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
  if (isa<SigmoidOp>(op))
    return Range{0, 1};
  if (isa<TanhOp, SinOp, CosOp>(op))
    return Range{-1, 1};
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

} // namespace nano
