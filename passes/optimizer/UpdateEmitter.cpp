// Equations of an update as ops of a program.
#include "passes/optimizer/UpdateEmitter.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/fuse/MatmulEpilogues.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {

RankedTensorType UpdateEmitter::typeOf(Value value) const {
  return units == 0 ? tensorType(value) : form.typeOf(value, units);
}

Value UpdateEmitter::get(Value value) {
  if (Value known = values.lookup(value))
    return known;
  if (auto found = deferred.find(value); found != deferred.end())
    return values[value] = found->second();
  return write(value.getDefiningOp());
}

Value UpdateEmitter::spread(Value value, RankedTensorType type, int64_t axis) {
  Operation *op = value.getDefiningOp();
  if (isSplat(value)) {
    if (tensorType(value).getRank() == 0 && !isa<ConstantOp>(op))
      return GraphBuilder(builder, location).broadcast(get(value), type.getShape());
    if (isa<BroadcastOp, ReshapeOp>(op))
      return spread(op->getOperand(0), type, axis);
  } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    SmallVector<int64_t> dims =
        llvm::map_to_vector(broadcast.getDims(), [&](int64_t dim) { return dim - axis + 1; });
    return BroadcastOp::create(builder, location, type, get(broadcast.getX()), dims);
  }
  IRMapping none;
  SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return spread(operand, type.clone(tensorType(operand).getElementType()), axis);
  });
  Operation *copy = op->clone(none);
  copy->setLoc(location);
  copy->setOperands(operands);
  copy->getResult(0).setType(type);
  if (auto iota = dyn_cast<IotaOp>(copy))
    iota.setDim(iota.getDim() - axis + 1);
  builder.insert(copy);
  return copy->getResult(0);
}

Value UpdateEmitter::result(Value yielded, Value argument) {
  if (units == 0 || form.isVarying(yielded))
    return get(yielded);
  return spread(yielded, typeOf(argument), form.axisOf(argument));
}

Value UpdateEmitter::operand(Operation *op, Value value) {
  if (units == 0 || form.isVarying(value))
    return get(value);
  const Value result = op->getResult(0);
  return spread(value, typeOf(result).clone(tensorType(value).getElementType()),
                form.axisOf(result));
}

Value UpdateEmitter::write(Operation *op) {
  const Value result = op->getResult(0);
  const bool isMapped = units != 0 && form.isVarying(result);
  SmallVector<Value> operands = llvm::map_to_vector(
      op->getOperands(), [&](Value value) { return isMapped ? operand(op, value) : get(value); });
  Operation *copy = op->clone();
  copy->setLoc(location);
  copy->setOperands(operands);
  if (isMapped) {
    copy->getResult(0).setType(typeOf(result));
    const int64_t shift = 1 - form.axisOf(op->getOperand(0));
    if (auto broadcast = dyn_cast<BroadcastOp>(copy)) {
      SmallVector<int64_t> dims{0};
      for (int64_t dim : cast<BroadcastOp>(op).getDims())
        if (dim >= form.axisOf(result))
          dims.push_back(dim + shift);
      broadcast.setDims(dims);
    } else if (auto reduce = dyn_cast<ReduceOp>(copy)) {
      reduce.setDims(llvm::map_to_vector(cast<ReduceOp>(op).getDims(),
                                         [&](int64_t dim) { return dim + shift; }));
    } else if (auto slice = dyn_cast<SliceOp>(copy)) {
      slice.setDim(slice.getDim() + shift);
    } else if (auto concat = dyn_cast<ConcatOp>(copy)) {
      concat.setDim(concat.getDim() + shift);
    }
  }
  builder.insert(copy);
  return values[result] = copy->getResult(0);
}

//===- Simplification ----------------------------------------------------===//

namespace {

/// True when the shapes differ in dimensions of size 1 alone.
bool differInOnes(Value a, Value b) {
  auto kept = [](Value value) {
    return llvm::filter_to_vector(tensorType(value).getShape(), [](int64_t s) { return s != 1; });
  };
  return kept(a) == kept(b);
}

/// op(reshape(x), c) ⇒ reshape(op(x, c)) where the reshape adds dimensions of size 1, so that what
/// a sum over rows has kept of them does not part the kernel that goes on with the rows.
struct SinkReshape : RewritePattern {
  SinkReshape(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<ElementwiseOp>() || op->getNumOperands() == 0)
      return failure();
    Value source;
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      if (!reshape)
        continue;
      if (!differInOnes(reshape.getX(), operand) ||
          (source && tensorType(source).getShape() != tensorType(reshape.getX()).getShape()))
        return failure();
      source = reshape.getX();
    }
    if (!source || tensorType(source).getRank() >= tensorType(op->getResult(0)).getRank())
      return failure();
    ArrayRef<int64_t> shape = tensorType(source).getShape();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      if (reshape && tensorType(reshape.getX()).getShape() == shape)
        operands.push_back(reshape.getX());
      else if (auto constant = operand.getDefiningOp<ConstantOp>())
        operands.push_back(ConstantOp::create(
            rewriter, op->getLoc(), tensorType(operand).clone(shape), constant.getValueAttr()));
      else if (auto broadcast = operand.getDefiningOp<BroadcastOp>();
               broadcast && tensorType(broadcast.getX()).getRank() == 0)
        operands.push_back(shape.empty()
                               ? broadcast.getX()
                               : BroadcastOp::create(rewriter, op->getLoc(),
                                                     tensorType(operand).clone(shape),
                                                     broadcast.getX(), ArrayRef<int64_t>())
                                     .getResult());
      else
        return failure();
    }
    const RankedTensorType type = tensorType(op->getResult(0));
    Operation *moved = rewriter.clone(*op);
    moved->setOperands(operands);
    moved->getResult(0).setType(type.clone(shape));
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, type, moved->getResult(0));
    return success();
  }
};

/// broadcast(reshape(x)) ⇒ broadcast(x) where the reshape adds or takes dimensions of size 1.
struct BroadcastSource : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    if (!reshape || !differInOnes(reshape.getX(), op.getX()))
      return failure();
    SmallVector<int64_t> kept;
    for (int64_t size : tensorType(reshape.getX()).getShape())
      if (size == 1)
        return failure();
    for (auto [size, dim] : llvm::zip_equal(tensorType(op.getX()).getShape(), op.getDims()))
      if (size != 1)
        kept.push_back(dim);
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), reshape.getX(), kept);
    return success();
  }
};

} // namespace

void simplifyEquations(OptimizerOp op) {
  RewritePatternSet patterns(op.getContext());
  // What a target's library can narrow, nano-fold-matmul-epilogues narrows later.
  populateMatmulEpilogues(patterns, /*narrows=*/false);
  patterns.add<SinkReshape, BroadcastSource>(op.getContext());
  // Regions of one op: nothing here can fail but by not converging, which changes nothing.
  (void)applyPatternsGreedily(op.getBody(), std::move(patterns));
}

} // namespace nano
