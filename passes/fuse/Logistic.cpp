// 1 + tanh x = 2σ(2x) and 1 − tanh² x = 4σ(2x)·(1 − σ(2x)), with the factors around them.
#include "passes/fuse/Logistic.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"

using namespace mlir;
using namespace nano::graph;

namespace {

/// The number that every element of the value is known to be.
std::optional<double> numberOf(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getX();
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? std::optional(constant.getValue().convertToDouble()) : std::nullopt;
}
bool is(Value value, double number) { return numberOf(value) == number; }

/// Of a·b where one of them is `value`, the other.
Value otherFactor(MulOp product, Value value) {
  return product.getLhs() == value ? product.getRhs() : product.getLhs();
}

/// a in a·number, for a number; null for other values.
struct Scaled {
  Value value;
  double number = 1;
};
Scaled scaledBy(Value value) {
  if (auto product = value.getDefiningOp<MulOp>())
    for (auto [a, b] : {std::pair(product.getLhs(), product.getRhs()),
                        std::pair(product.getRhs(), product.getLhs())})
      if (std::optional<double> number = numberOf(b))
        return {a, *number};
  return {};
}

/// The product that alone reads the value.
MulOp onlyProductOf(Value value) {
  return value.hasOneUse() ? dyn_cast<MulOp>(*value.user_begin()) : MulOp();
}

struct TanhByLogistic : OpRewritePattern<TanhOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TanhOp op, PatternRewriter &rewriter) const override {
    if (!tensorType(op).getElementType().isF32() || op->use_empty())
      return failure();
    SmallVector<AddOp> sums;
    SmallVector<SubOp> slopes;
    for (Operation *user : op->getUsers())
      if (!takesSum(user, sums) && !takesSlopes(user, slopes))
        return failure();
    if (sums.empty() && slopes.empty()) // only what is dead
      return failure();

    GraphBuilder g(rewriter, op.getLoc());
    const Scaled argument = scaledBy(op.getX());
    // A product with 2 is exact, and so is a constant's.
    const Value twice =
        argument.value ? g.mul(argument.value, 2 * argument.number) : g.mul(op.getX(), 2.0);
    const Value logistic = SigmoidOp::create(rewriter, op.getLoc(), op.getType(), twice);
    for (AddOp sum : sums)
      replaceSum(sum, logistic, rewriter);
    for (SubOp slope : slopes)
      replaceSlope(slope, logistic, rewriter);
    return success();
  }

private:
  /// 1 + t.
  static bool takesSum(Operation *user, SmallVectorImpl<AddOp> &sums) {
    auto sum = dyn_cast<AddOp>(user);
    if (!sum || !(is(sum.getLhs(), 1) || is(sum.getRhs(), 1)))
      return false;
    sums.push_back(sum);
    return true;
  }
  /// t·t, which is subtracted from 1.
  static bool takesSlopes(Operation *user, SmallVectorImpl<SubOp> &slopes) {
    auto square = dyn_cast<MulOp>(user);
    if (!square || square.getLhs() != square.getRhs())
      return false;
    for (Operation *reader : square->getUsers()) {
      auto slope = dyn_cast<SubOp>(reader);
      if (!slope || !is(slope.getLhs(), 1))
        return false;
      // The tangent has the square among its users twice.
      if (!llvm::is_contained(slopes, slope))
        slopes.push_back(slope);
    }
    return true;
  }

  /// Writes 2σ, as σ where it is halved.
  static void replaceSum(AddOp sum, Value logistic, PatternRewriter &rewriter) {
    for (OpOperand &use : llvm::make_early_inc_range(sum->getUses()))
      if (auto product = dyn_cast<MulOp>(use.getOwner());
          product && product.getLhs() != product.getRhs())
        replaceHalf(product, sum, logistic, rewriter);
    if (!sum->use_empty()) {
      rewriter.setInsertionPoint(sum);
      rewriter.replaceOp(sum, GraphBuilder(rewriter, sum.getLoc()).mul(logistic, 2.0));
    } else {
      rewriter.eraseOp(sum);
    }
  }
  /// (2σ)·(a·½), (2σ·a)·½ and (2σ)·½ as σ·a and σ.
  static void replaceHalf(MulOp product, Value sum, Value logistic, PatternRewriter &rewriter) {
    const Value factor = otherFactor(product, sum);
    GraphBuilder g(rewriter, product.getLoc());
    rewriter.setInsertionPoint(product);
    if (is(factor, 0.5)) {
      rewriter.replaceOp(product, logistic);
    } else if (Scaled half = scaledBy(factor); half.value && half.number == 0.5) {
      rewriter.replaceOp(product, g.mul(half.value, logistic));
    } else if (MulOp halved = onlyProductOf(product);
               halved && is(otherFactor(halved, product), 0.5)) {
      rewriter.replaceOp(halved, g.mul(factor, logistic));
      rewriter.eraseOp(product);
    }
  }

  /// Writes 4σ·(1 − σ), with the 4 as part of a later constant factor where there is one.
  static void replaceSlope(SubOp slope, Value logistic, PatternRewriter &rewriter) {
    GraphBuilder g(rewriter, slope.getLoc());
    rewriter.setInsertionPoint(slope);
    const Value quarter = g.mul(logistic, g.sub(g.constant(1, logistic.getType()), logistic));
    MulOp product = onlyProductOf(slope);
    MulOp scaled =
        product && product.getLhs() != product.getRhs() ? onlyProductOf(product) : MulOp();
    std::optional<double> number = scaled ? numberOf(otherFactor(scaled, product)) : std::nullopt;
    if (!number) {
      rewriter.replaceOp(slope, g.mul(quarter, 4.0));
      return;
    }
    rewriter.setInsertionPoint(product);
    const Value unscaled = g.mul(otherFactor(product, slope), quarter);
    rewriter.setInsertionPoint(scaled);
    rewriter.replaceOp(scaled, g.mul(unscaled, 4 * *number));
    rewriter.eraseOp(product);
    rewriter.eraseOp(slope);
  }
};

} // namespace

void nano::populateLogisticPatterns(RewritePatternSet &patterns) {
  patterns.add<TanhByLogistic>(patterns.getContext());
}
