// nano-fold-matmul-epilogues: folds scales, residual adds, accumulation and casts into matrix
// products.
//
// clang-format off
//   %p = nano.matmul %x, %w      %s = nano.add %r, %p     ⇒   %s = nano.matmul %x, %w add %r
//                                %q = nano.mul %p, 2.0    ⇒   %q = nano.matmul %x, %w {alpha = 2.0}
// clang-format on
//
// The library computes alpha·A·B + beta·C and rounds once, so the product itself never crosses
// memory. It runs before fusion, which would otherwise pay a kernel for each of these, and after
// nano-split-accumulation, whose adds it turns into products that accumulate.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/Passes.h"
#include "passes/fuse/MatmulEpilogues.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace nano {
#define GEN_PASS_DEF_FOLDMATMULEPILOGUES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

/// The one value that all elements of `value` have, when it is a constant.
std::optional<double> uniformConstant(Value value) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return constant.getValue().convertToDouble();
  return std::nullopt;
}

/// x and c where value = x·c for a constant c; else value and 1.
std::pair<Value, double> scaled(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>()) {
    if (auto c = uniformConstant(mul.getRhs()))
      return {mul.getLhs(), *c};
    if (auto c = uniformConstant(mul.getLhs()))
      return {mul.getRhs(), *c};
  }
  return {value, 1.0};
}

/// A product, nano.matmul or nano.scaled_matmul, that only one op reads and that can still take a
/// scale.
template <typename Product> Product foldableProduct(Value value) {
  auto matmul = value.getDefiningOp<Product>();
  return matmul && value.hasOneUse() ? matmul : Product();
}

/// Whether the library may read `value` as its C operand at no extra cost: not when it would have
/// to be written out for that.
bool isAddend(Value value) {
  return !value.getDefiningOp() || !isa<BroadcastOp, ConstantOp, IotaOp>(value.getDefiningOp());
}

/// `matmul` with another result type, addend, alpha and beta, where `at` stands.
template <typename Product>
Value rebuild(PatternRewriter &rewriter, Operation *at, Product matmul, Type type, Value addend,
              double alpha, double beta) {
  auto op = cast<Product>(rewriter.clone(*matmul));
  op->setLoc(rewriter.getFusedLoc({matmul.getLoc(), at->getLoc()}));
  op.getResult().setType(cast<RankedTensorType>(type));
  op.getAddendMutable().assign(addend ? ValueRange(addend) : ValueRange());
  op.setAlphaAttr(rewriter.getF64FloatAttr(alpha));
  op.setBetaAttr(rewriter.getF64FloatAttr(beta));
  return op;
}

/// True for a value that a few element-wise ops make into what a state keeps in the same type, as
/// the gradient of a weight whose rows numbers multiply; also where it is summed over ranks, alone
/// or beside others, on the way.
bool isKept(Value value, int64_t ops = 4, int64_t moves = 8) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (auto store = dyn_cast<StoreOp>(user))
      return store.getValue() == value;
    const bool computes = user->hasTrait<ElementwiseOp>(),
               isMove = isa<AllReduceOp, ConcatOp, ReduceScatterOp, ReshapeOp, SliceOp>(user);
    return ((computes && ops > 0) || (isMove && moves > 0)) &&
           getElementTypeOrSelf(user->getResult(0)) == getElementTypeOrSelf(value) &&
           isKept(user->getResult(0), ops - computes, moves - isMove);
  });
}

/// True for a cast to a wider type that kernels alone read, and of which no product can be made
/// part: they widen a narrow result for nothing, unless a state keeps what they make of it.
bool isWidenedInKernels(CastOp op) {
  if (tensorType(op).getElementTypeBitWidth() <= tensorType(op.getX()).getElementTypeBitWidth() ||
      isKept(op))
    return false;
  auto takesProduct = [&](Operation *user) {
    if (isa<MulOp>(user))
      return scaled(user->getResult(0)).second != 1.0;
    return isa<AddOp>(user) && isAddend(user->getOperand(user->getOperand(0) == op ? 1 : 0));
  };
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return (user->hasTrait<ElementwiseOp>() ||
            isa<CrossEntropyOp, QuantizeOp, ReduceOp, RotateOp>(user)) &&
           !(op->hasOneUse() && takesProduct(user));
  });
}

/// Whether a result of `element` is narrower than the product's factors, which are of f32.
template <typename Product> bool isNarrowed(Product product, Type element) {
  return tensorType(product.getA()).getElementType().isF32() && !element.isF32();
}

/// cast(matmul) ⇒ matmul with the cast's type: one rounding instead of two. A wider result that
/// only fused ops read stays narrow in memory; one that the library does not narrow stays wide.
template <typename Product> struct FoldCast : OpRewritePattern<CastOp> {
  FoldCast(MLIRContext *context, bool narrows) : OpRewritePattern(context), narrows(narrows) {}
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    Product matmul = foldableProduct<Product>(op.getX());
    Type element = tensorType(op).getElementType();
    if (!matmul || matmul.getAddend() || !(element.isF32() || element.isBF16()) ||
        (!narrows && isNarrowed(matmul, element)) || isWidenedInKernels(op))
      return failure();
    rewriter.replaceOp(op, rebuild(rewriter, op, matmul, op.getType(), Value(),
                                   matmul.getAlpha().convertToDouble(), 1.0));
    return success();
  }

private:
  bool narrows;
};

/// Sums of outer products that are read by casts to one type alone, also of parts of them ⇒ such
/// sums of that type: one rounding instead of two.
struct FoldCastsOfOuter : OpRewritePattern<GroupedOuterOp> {
  using OpRewritePattern<GroupedOuterOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(GroupedOuterOp op, PatternRewriter &rewriter) const override {
    Type element;
    if (!areCasts(op.getResult(), element) || !(element.isF32() || element.isBF16()))
      return failure();
    const auto type = RankedTensorType::get(tensorType(op).getShape(), element);
    rewriter.setInsertionPoint(op);
    replace(
        rewriter, op.getResult(),
        GroupedOuterOp::create(rewriter, op.getLoc(), type, op.getA(), op.getB(), op.getEnds()));
    return success();
  }

private:
  /// Whether all that reads the value is casts to `element`, which the first one sets.
  static bool areCasts(Value value, Type &element) {
    return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) {
      if (isa<ReshapeOp, SliceOp>(user))
        return areCasts(user->getResult(0), element);
      if (!isa<CastOp>(user))
        return false;
      const Type to = tensorType(user->getResult(0)).getElementType();
      if (!element)
        element = to;
      return element == to;
    });
  }
  /// Puts `by` in the place of `value`: the same parts of it, and itself where a cast was.
  static void replace(PatternRewriter &rewriter, Value value, Value by) {
    for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
      if (isa<CastOp>(user)) {
        rewriter.replaceOp(user, by);
        continue;
      }
      rewriter.setInsertionPoint(user);
      Operation *part = rewriter.clone(*user);
      rewriter.modifyOpInPlace(part, [&] {
        part->setOperand(0, by);
        part->getResult(0).setType(
            tensorType(part->getResult(0)).clone(tensorType(by).getElementType()));
      });
      replace(rewriter, user->getResult(0), part->getResult(0));
      rewriter.eraseOp(user);
    }
    if (Operation *op = value.getDefiningOp<GroupedOuterOp>())
      rewriter.eraseOp(op);
  }
};

/// A product of f32 factors with a narrower result ⇒ one of f32, and a cast of it: the sum is
/// rounded once either way.
struct WidenResult : OpRewritePattern<MatmulOp> {
  using OpRewritePattern<MatmulOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    const RankedTensorType type = tensorType(op);
    if (!isNarrowed(op, type.getElementType()))
      return failure();
    const auto wide = RankedTensorType::get(type.getShape(), rewriter.getF32Type());
    Value addend = op.getAddend();
    if (addend)
      addend = CastOp::create(rewriter, op.getLoc(), wide, addend);
    const Value product = rebuild(rewriter, op, op, wide, addend, op.getAlpha().convertToDouble(),
                                  op.getBeta().convertToDouble());
    rewriter.replaceOpWithNewOp<CastOp>(op, type, product);
    return success();
  }
};

/// c·matmul ⇒ matmul with alpha.
template <typename Product> struct FoldScale : OpRewritePattern<MulOp> {
  using OpRewritePattern<MulOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    auto [product, scale] = scaled(op.getResult());
    Product matmul = product != op.getResult() ? foldableProduct<Product>(product) : Product();
    if (!matmul || matmul.getAddend())
      return failure();
    rewriter.replaceOp(op, rebuild(rewriter, op, matmul, op.getType(), Value(),
                                   matmul.getAlpha().convertToDouble() * scale, 1.0));
    return success();
  }
};

/// c·x + matmul ⇒ matmul with addend x and beta c. Of two products the later one takes the other as
/// its addend.
template <typename Product> struct FoldAdd : OpRewritePattern<AddOp> {
  using OpRewritePattern<AddOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    if (isa<IntegerType>(tensorType(op).getElementType()))
      return failure();
    Product left = foldableProduct<Product>(op.getLhs()),
            right = foldableProduct<Product>(op.getRhs());
    if (left && left.getAddend())
      left = Product();
    if (right && right.getAddend())
      right = Product();
    if (!left && !right)
      return failure();
    bool takeRight = right && (!left || left->isBeforeInBlock(right));
    Product matmul = takeRight ? right : left;
    auto [addend, beta] = scaled(takeRight ? op.getLhs() : op.getRhs());
    if (!isAddend(addend))
      return failure();
    rewriter.replaceOp(op, rebuild(rewriter, op, matmul, op.getType(), addend,
                                   matmul.getAlpha().convertToDouble(), beta));
    return success();
  }
};

/// bf16(f32(x) + f32(matmul)) ⇒ matmul with addend x, all in bf16: the sum is formed in f32 and
/// rounded once either way.
template <typename Product> struct FoldMixedAdd : OpRewritePattern<CastOp> {
  using OpRewritePattern<CastOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    auto add = op.getX().getDefiningOp<AddOp>();
    if (!add || !add->hasOneUse())
      return failure();
    for (bool right : {true, false}) {
      Value productSide = right ? add.getRhs() : add.getLhs();
      Value addendSide = right ? add.getLhs() : add.getRhs();
      auto productCast = productSide.getDefiningOp<CastOp>();
      auto addendCast = addendSide.getDefiningOp<CastOp>();
      if (!productCast || !addendCast || !productCast->hasOneUse() ||
          addendCast.getX().getType() != op.getType())
        continue;
      Product matmul = foldableProduct<Product>(productCast.getX());
      if (!matmul || matmul.getAddend() || !isAddend(addendCast.getX()))
        continue;
      rewriter.replaceOp(op, rebuild(rewriter, op, matmul, op.getType(), addendCast.getX(),
                                     matmul.getAlpha().convertToDouble(), 1.0));
      return success();
    }
    return failure();
  }
};

struct FoldMatmulEpilogues : public nano::impl::FoldMatmulEpiloguesBase<FoldMatmulEpilogues> {
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    nano::populateMatmulEpilogues(patterns, narrows);
    if (!narrows)
      patterns.add<WidenResult>(&getContext());
    // No constant folding or CSE: recomputed forward values must stay apart from the originals.
    GreedyRewriteConfig config;
    config.enableFolding(false).enableConstantCSE(false);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace

void nano::populateMatmulEpilogues(RewritePatternSet &patterns, bool narrows) {
  patterns.add<FoldAdd<MatmulOp>, FoldMixedAdd<MatmulOp>, FoldScale<MatmulOp>,
               FoldAdd<ScaledMatmulOp>, FoldMixedAdd<ScaledMatmulOp>, FoldScale<ScaledMatmulOp>>(
      patterns.getContext());
  patterns.add<FoldCast<MatmulOp>, FoldCast<ScaledMatmulOp>>(patterns.getContext(), narrows);
  patterns.add<FoldCastsOfOuter>(patterns.getContext());
}
