// Conversions between 8-bit floats with scales and other floats, as element-wise ops.
//
//   %q = nano.quantize %x, %s : tensor<8x256xbf16>, tensor<8x2xf32>
//   ⇒
//   %v = nano.reshape %x : tensor<8x256xbf16> -> tensor<8x2x128xbf16>
//   %p = nano.mul (cast %v to f32), (broadcast of 1/%s)
//   %q = nano.reshape (cast %p to f8) : tensor<8x2x128xf8E4M3FN> -> tensor<8x256xf8E4M3FN>
//
// nano-fuse walks over rows: a reshape that splits them separates kernels. Hence, where %x comes
// from element-wise ops on tensors that lie in memory, those ops take the shape [8, 2, 128].
#include "passes/fuse/DecomposeQuantize.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Traffic.h"

using namespace mlir;
using namespace nano::graph;

namespace {

/// Element-wise ops at most that are given another shape for one conversion.
constexpr int64_t maxSplitOps = 32;

/// Tensors that lie in memory whatever shape kernels see them in.
bool isInMemory(Value value) {
  Operation *op = value.getDefiningOp();
  return !op || nano::isCall(op) || isa<LoadOp>(op);
}

/// Gives a tensor that element-wise ops alone make from tensors in memory another shape, by giving
/// it to all of them.
class Reshaper {
public:
  Reshaper(PatternRewriter &rewriter, ArrayRef<int64_t> from, ArrayRef<int64_t> to)
      : rewriter(rewriter), from(from), to(to) {}

  /// The tensor in its new shape; null where nothing was done. Other readers read a view of it.
  Value run(Value value) {
    if (isInMemory(value) || !canReshape(value))
      return {};
    Value result = reshape(value);
    // The last op first: what only these ops read has no reader then, and disappears.
    for (Operation *op : llvm::reverse(copied))
      replace(op, reshaped.lookup(op->getResult(0)));
    return result;
  }

private:
  bool canReshape(Value value) {
    if (tensorType(value).getShape() != from)
      return false;
    if (isInMemory(value) || value.getDefiningOp<ConstantOp>())
      return true;
    Operation *op = value.getDefiningOp();
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return tensorType(broadcast.getX()).getRank() == 0;
    if (!op->hasTrait<ElementwiseOp>() || isa<IotaOp>(op))
      return false;
    if (!seen.insert(op).second)
      return true;
    return static_cast<int64_t>(seen.size()) <= maxSplitOps &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return canReshape(operand); });
  }

  Value reshape(Value value) {
    if (Value done = reshaped.lookup(value))
      return done;
    OpBuilder::InsertionGuard guard(rewriter);
    Operation *op = value.getDefiningOp();
    if (isInMemory(value)) {
      rewriter.setInsertionPointAfterValue(value);
      return reshaped[value] = GraphBuilder(rewriter, value.getLoc()).reshape(value, to);
    }
    // A broadcast number keeps its operand.
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isa<BroadcastOp>(op) ? operand : reshape(operand));
    rewriter.setInsertionPoint(op);
    Operation *copy = rewriter.clone(*op);
    copy->setOperands(operands);
    Value result = copy->getResult(0);
    result.setType(tensorType(result).clone(to));
    reshaped[value] = result;
    copied.push_back(op);
    return result;
  }

  /// Lets what reads `op` read its copy, as the views that it sees.
  void replace(Operation *op, Value copy) {
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      if (isa<ReshapeOp>(user) && user->getResult(0).getType() == copy.getType())
        rewriter.replaceOp(user, copy);
    if (!op->use_empty()) {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPoint(op);
      rewriter.replaceAllUsesWith(op->getResult(0),
                                  GraphBuilder(rewriter, op->getLoc()).reshape(copy, from));
    }
    rewriter.eraseOp(op);
  }

  PatternRewriter &rewriter;
  ArrayRef<int64_t> from, to;
  llvm::SmallDenseSet<Operation *> seen;
  llvm::DenseMap<Value, Value> reshaped;
  SmallVector<Operation *> copied; ///< in program order
};

/// x reshaped: the view that an op before `at` has made already, or a new one, so that a kernel of
/// both reads one operand.
Value viewOf(PatternRewriter &rewriter, Value x, ArrayRef<int64_t> shape, Operation *at) {
  for (Operation *user : x.getUsers())
    if (isa<ReshapeOp>(user) && user->getBlock() == at->getBlock() && user->isBeforeInBlock(at) &&
        tensorType(user->getResult(0)).getShape() == shape)
      return user->getResult(0);
  return GraphBuilder(rewriter, at->getLoc()).reshape(x, shape);
}

/// x with the dimensions that `scale` has blocks of split (GraphBuilder::splitBlocks), and the
/// scale of each element; `at` is the conversion.
std::pair<Value, Value> splitByScale(PatternRewriter &rewriter, Value x, Value scale,
                                     Operation *at) {
  GraphBuilder g(rewriter, at->getLoc());
  SmallVector<int64_t> shape(tensorType(x).getShape());
  ArrayRef<int64_t> blocks = tensorType(scale).getShape();
  if (blocks.empty())
    return {x, g.broadcast(scale, shape)};
  SmallVector<int64_t> split, dims;
  GraphBuilder::splitBlocks(shape, blocks, split, dims);
  bool ofRows =
      ArrayRef<int64_t>(shape).drop_back() == blocks.drop_back() && split.size() > shape.size();
  Value view = ofRows ? Reshaper(rewriter, shape, split).run(x) : Value();
  if (!view)
    view = viewOf(rewriter, x, split, at);
  return {view, g.broadcast(scale, split, dims)};
}

/// q = f8(f32(x)·(1/scale)).
struct DecomposeQuantize : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    GraphBuilder g(rewriter, op.getLoc());
    Value inverse = g.div(g.constant(1, op.getScale().getType()), op.getScale());
    auto [x, factor] = splitByScale(rewriter, op.getX(), inverse, op);
    Value q = g.cast(g.mul(g.toF32(x), factor), tensorType(op).getElementType());
    rewriter.replaceOp(op, g.reshape(q, tensorType(op).getShape()));
    return success();
  }
};

/// x = f32(q)·scale.
struct DecomposeDequantize : OpRewritePattern<DequantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DequantizeOp op, PatternRewriter &rewriter) const override {
    GraphBuilder g(rewriter, op.getLoc());
    auto [q, factor] = splitByScale(rewriter, op.getQ(), op.getScale(), op);
    Value x = g.cast(g.mul(g.toF32(q), factor), tensorType(op).getElementType());
    rewriter.replaceOp(op, g.reshape(x, tensorType(op).getShape()));
    return success();
  }
};

} // namespace

void nano::populateDecomposeQuantizePatterns(RewritePatternSet &patterns) {
  patterns.add<DecomposeDequantize, DecomposeQuantize>(patterns.getContext());
}
