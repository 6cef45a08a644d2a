// Rewrites that bring a function into the form that nano-fuse groups.
#include "passes/fuse/DecomposeReductions.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/fuse/DecomposeQuantize.h"
#include "passes/fuse/Logistic.h"
#include "passes/fuse/Softmax.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace nano::graph;

namespace {

/// Parts into which a reduction over many rows is split at most: enough for a processor's cores, or
/// as many more as have `rowsOfPart` rows. A block of a GPU makes a part, and a multiprocessor
/// waits for memory unless it has two or more of them: H100 and H200 have 132.
constexpr int64_t fewParts = 64, mostParts = 256, rowsOfPart = 64;

/// The largest divisor of `rows` up to that.
int64_t partsOf(int64_t rows) {
  const int64_t most = std::clamp(rows / rowsOfPart, fewParts, mostParts);
  for (int64_t parts = std::min(most, rows); parts > 1; --parts)
    if (rows % parts == 0)
      return parts;
  return 1;
}

/// loss = lse − logits[target], lse = ln Σ e^logits.
struct DecomposeCrossEntropy : OpRewritePattern<CrossEntropyOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CrossEntropyOp op, PatternRewriter &rewriter) const override {
    GraphBuilder g(rewriter, op.getLoc());
    Value logits = op.getLogits();
    RankedTensorType type = tensorType(logits);
    ArrayRef<int64_t> shape = type.getShape();
    Value lse;
    if (std::optional<double> bound = nano::softmaxShift(logits)) {
      // bound + ln Σ e^(logits − bound): the sum needs no largest logit.
      Value shifted = g.sub(logits, g.constant(*bound, type));
      Value sum = g.reduce(Combiner::sum, ExpOp::create(rewriter, op.getLoc(), type, shifted), {1});
      lse = g.add(g.constant(*bound, op.getLse().getType()),
                  LogOp::create(rewriter, op.getLoc(), sum.getType(), sum).getResult());
    } else {
      lse = g.reduce(Combiner::logsumexp, logits, {1});
    }
    Value column = IotaOp::create(rewriter, op.getLoc(), type.clone(rewriter.getI32Type()), 1);
    Value target = g.broadcast(op.getTargets(), shape, {0});
    Value picked = g.reduce(
        Combiner::sum, g.select(Predicate::eq, column, target, logits, g.constant(0, type)), {1});
    rewriter.replaceOp(op, {g.sub(lse, picked), lse});
    return success();
  }
};

/// True for what the parts of a reduction have come to.
bool isOfParts(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  return reshape && reshape.getX().getDefiningOp<ReduceOp>();
}

/// m + ln Σ e^(x − m) with the maxima m over one dimension; 0 for those that are infinite.
Value shiftedLogSumExp(PatternRewriter &rewriter, ReduceOp op) {
  GraphBuilder g(rewriter, op.getLoc());
  RankedTensorType type = tensorType(op.getX()), kept = tensorType(op);
  Value largest = g.reduce(Combiner::max, op.getX(), op.getDims());
  Value infinity = g.constant(std::numeric_limits<double>::infinity(), kept);
  Value m = g.select(Predicate::lt, g.abs(largest), infinity, largest, g.constant(0, kept));
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(op.getDims(), dim))
      dims.push_back(dim);
  Value shifted = g.sub(op.getX(), g.broadcast(m, type.getShape(), dims));
  Value sum =
      g.reduce(Combiner::sum, ExpOp::create(rewriter, op.getLoc(), type, shifted), op.getDims());
  return g.add(m, LogOp::create(rewriter, op.getLoc(), kept, sum).getResult());
}

/// Reductions over several dimensions, or over leading ones, as a chain of simple ones. A
/// log-sum-exp takes one pass over rows alone; over other dimensions the maxima come first.
struct DecomposeReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    GraphBuilder g(rewriter, op.getLoc());
    RankedTensorType type = tensorType(op.getX());
    ArrayRef<int64_t> shape = type.getShape(), dims = op.getDims();
    int64_t rank = type.getRank();
    bool last = dims.back() == rank - 1;
    if (dims.size() > 1) {
      // One dimension at a time, the last first: rows, then what remains of them.
      Value partial = g.reduce(op.getCombiner(), op.getX(), dims.take_back(1));
      rewriter.replaceOp(op, g.reduce(op.getCombiner(), partial, dims.drop_back(1)));
      return success();
    }
    if (last && rank == 1) {
      // A vector is a single row.
      Value row = g.reshape(op.getX(), {1, shape[0]});
      rewriter.replaceOp(op, g.reshape(g.reduce(op.getCombiner(), row, {1}), {}));
      return success();
    }
    if (last)
      return failure();
    if (op.getCombiner() == Combiner::logsumexp) {
      rewriter.replaceOp(op, shiftedLogSumExp(rewriter, op));
      return success();
    }
    // [A, R, C…] → [A, C…]: as [A, R, C], split over rows when there are many.
    int64_t dim = dims[0], rows = shape[dim], outer = 1, inner = 1;
    for (int64_t size : shape.take_front(dim))
      outer *= size;
    for (int64_t size : shape.drop_front(dim + 1))
      inner *= size;
    SmallVector<int64_t> resultShape(tensorType(op).getShape());
    if (int64_t parts = partsOf(rows);
        outer == 1 && parts > 1 && rows > parts && !(rows <= mostParts && isOfParts(op.getX()))) {
      Value partial =
          g.reduce(op.getCombiner(), g.reshape(op.getX(), {parts, rows / parts, inner}), {1});
      rewriter.replaceOp(
          op, g.reshape(g.reduce(op.getCombiner(), g.reshape(partial, {1, parts, inner}), {1}),
                        resultShape));
      return success();
    }
    if (rank == 3 && dim == 1)
      return failure();
    Value folded = g.reduce(op.getCombiner(), g.reshape(op.getX(), {outer, rows, inner}), {1});
    rewriter.replaceOp(op, g.reshape(folded, resultShape));
    return success();
  }
};

/// f([m] as a number, …) ⇒ f(m, …) as a number, for the one result m of a reduction over a vector
/// and what is known without another, where a call or a state takes what comes of it: the kernel
/// that reduces then writes that too. Kernels that read such numbers compute them where they need
/// them.
struct ReducedNumber : RewritePattern {
  explicit ReducedNumber(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isNumberOp(op) || !isWritten(op))
      return failure();
    Value row;
    for (Value operand : op->getOperands()) {
      if (Value reduced = reducedRow(operand)) {
        if (row && row != reduced)
          return failure();
        row = reduced;
      } else if (tensorType(operand).getRank() != 0 ||
                 !isa_and_present<ConstantOp, LoadOp>(operand.getDefiningOp())) {
        return failure();
      }
    }
    if (!row)
      return failure();
    GraphBuilder g(rewriter, op->getLoc());
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand, asRow(g, operand));
    Operation *copy = rewriter.clone(*op, mapping);
    RankedTensorType type = tensorType(op->getResult(0));
    copy->getResult(0).setType(type.clone({1}));
    rewriter.replaceOp(op, g.reshape(copy->getResult(0), {}));
    return success();
  }

private:
  static bool isNumberOp(Operation *op) {
    return op->hasTrait<ElementwiseOp>() && op->getNumResults() == 1 &&
           tensorType(op->getResult(0)).getRank() == 0;
  }

  /// True when a number that comes of the op's result alone, or with others, must lie in memory.
  static bool isWritten(Operation *op) {
    llvm::SmallSetVector<Operation *, 8> numbers;
    numbers.insert(op);
    for (size_t i = 0; i < numbers.size(); ++i)
      for (Operation *user : numbers[i]->getUsers()) {
        if (isa<StoreOp, ScaledMatmulOp>(user))
          return true;
        if (isNumberOp(user))
          numbers.insert(user);
      }
    return false;
  }

  /// The reduction of a vector from which alone a number of shape [1] behind `number` is made.
  static Value reducedRow(Value number) {
    auto reshape = number.getDefiningOp<ReshapeOp>();
    return reshape && tensorType(number).getRank() == 0 ? reducedFrom(reshape.getX()) : Value();
  }
  static Value reducedFrom(Value row) {
    Operation *op = row.getDefiningOp();
    if (auto reduce = dyn_cast_if_present<ReduceOp>(op))
      return tensorType(reduce.getX()).getRank() == 2 && reduce.getDims().back() == 1 ? row
                                                                                      : Value();
    if (!op || !op->hasTrait<ElementwiseOp>())
      return {};
    Value found;
    for (Value operand : op->getOperands())
      if (Value reduced = reducedFrom(operand)) {
        if (found && found != reduced)
          return {};
        found = reduced;
      }
    return found;
  }

  static Value asRow(GraphBuilder &g, Value number) {
    if (auto constant = number.getDefiningOp<ConstantOp>())
      return g.constant(constant.getValue().convertToDouble(), tensorType(number).clone({1}));
    if (auto reshape = number.getDefiningOp<ReshapeOp>())
      return reshape.getX();
    return g.reshape(number, {1});
  }
};

/// A piece of a concat: `size` elements along its dimension; no value where they are zeros.
struct Piece {
  int64_t size;
  Value value;
};

std::optional<SmallVector<Piece>> piecesOf(Value value, int64_t &dim) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (!concat || !concat->hasOneUse())
    return std::nullopt;
  dim = concat.getDim();
  SmallVector<Piece> pieces;
  for (Value input : concat.getInputs())
    pieces.push_back({tensorType(input).getDimSize(dim), isZero(input) ? Value() : input});
  return pieces;
}

/// add(concat(a, 0), concat(0, b)) ⇒ concat(a, b).
struct JoinPaddedPieces : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    int64_t dim = 0, otherDim = 0;
    auto left = piecesOf(op.getLhs(), dim), right = piecesOf(op.getRhs(), otherDim);
    if (!left || !right || dim != otherDim)
      return failure();
    SmallVector<Piece> joined;
    size_t i = 0, j = 0;
    while (i < left->size() && j < right->size()) {
      Piece &a = (*left)[i], &b = (*right)[j];
      int64_t size = std::min(a.size, b.size);
      // A piece with values is taken whole, against zeros only.
      if ((a.value && (b.value || a.size != size)) || (b.value && b.size != size))
        return failure();
      joined.push_back({size, a.value ? a.value : b.value});
      if ((a.size -= size) == 0)
        ++i;
      if ((b.size -= size) == 0)
        ++j;
    }
    GraphBuilder g(rewriter, op.getLoc());
    SmallVector<Value> values;
    for (Piece &piece : joined) {
      SmallVector<int64_t> shape(tensorType(op).getShape());
      shape[dim] = piece.size;
      values.push_back(piece.value ? piece.value : g.constant(0, tensorType(op).clone(shape)));
    }
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), values,
                                          rewriter.getI64IntegerAttr(dim));
    return success();
  }
};

} // namespace

LogicalResult nano::decomposeReductions(ProgramOp function) {
  RewritePatternSet patterns(function.getContext());
  patterns.add<DecomposeCrossEntropy, DecomposeReduce, ReducedNumber, JoinPaddedPieces>(
      function.getContext());
  nano::populateDecomposeQuantizePatterns(patterns);
  nano::populateLogisticPatterns(patterns);
  // No constant folding or CSE: recomputed forward values must stay apart from the originals.
  GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false);
  return applyPatternsGreedily(function, std::move(patterns), config);
}
