// Blocked attention with an online softmax: an iteration is one block of queries of one head, and
// walks over the blocks of keys that they see. Dao 2023 (FlashAttention-2), with f32 tiles in
// scratch, products in registers and statistics in f32.
#include "ir/graph/AttentionOps.h"
#include "passes/attention/AttentionKernels.h"
#include "passes/attention/AttentionTiles.h"
#include "passes/emit/TaskOperands.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace nano::kernels {

namespace {

/// Iteration i: head i / queryBlocks, queries [i mod queryBlocks]·queryRows and on. Blocks of keys
/// start at the first key that the block's first query sees, so that only the last one is shorter.
/// Inside a block, `registerRows` queries at a time meet only the keys between their own first and
/// last; panels of keys that all of them see are not masked. 2·(Dh + Dv) flops a visible pair.
class AttentionEmitter {
public:
  AttentionEmitter(KernelFrame &frame, graph::AttentionOp op)
      : op(op), t(frame, op.getQ().getType(), op.getV().getType(),
                  {argumentOf(frame, op.getQ()), argumentOf(frame, op.getK()),
                   argumentOf(frame, op.getV())}),
        v(t.v), b(t.b), loc(t.loc), queryRows(t.rowTokens()), keyRows(t.columnTokens()),
        queryBlocks(llvm::divideCeil(t.tokens, queryRows)) {}

  LogicalResult emit();

private:
  void emitBlock(Value iteration);
  void emitTile(Value row);
  void emitScores(IndexRange whole, Value row);
  void emitSoftmax(IndexRange columns, Value row);
  void emitResults();

  graph::AttentionOp op;
  AttentionTiles t;
  VectorOps &v;
  OpBuilder &b;
  Location loc;
  const int64_t queryRows, keyRows, queryBlocks;

  HeadOperand q, k, value;
  Value first, last; // arguments
  SmallVector<HeadOperand> y, lse;
  RowTile queries, scores, shares, sums,
      weights; // weights: a row's lanes hold partial sums of its softmax's denominator, shares its
               // numerators, in place of scores but where these are no factors
  PanelTile keys, values;
  Value maxima, factors; // of all queries of the block; of those in registers

  // Of the block: index, and as i32 where a score region reads them.
  Value head, keyHead, headNumber, firstQuery, rows, lastQuery, firstKey, endKey;
  bool failed = false;
};

} // namespace

LogicalResult AttentionEmitter::emit() {
  if (mlir::failed(verifyNotInPlace(t.frame)))
    return failure();
  q = t.headOperand(argumentOf(t.frame, op.getQ()));
  k = t.headOperand(argumentOf(t.frame, op.getK()));
  value = t.headOperand(argumentOf(t.frame, op.getV()));
  first = argumentOf(t.frame, op.getFirst());
  last = argumentOf(t.frame, op.getLast());
  y = t.resultsOf(op.getY());
  lse = t.resultsOf(op.getLse());

  Type f32 = b.getF32Type();
  queries = t.allocateFactors(queryRows, t.keySize);
  sums = t.allocateRows(queryRows, t.valueSize);
  keys = t.allocateTransposed(keyRows, t.keySize);
  values = t.allocatePanels(keyRows, t.valueSize);
  scores = {t.frame.allocate(t.registerRows * keyRows, f32), keyRows};
  shares = t.inPairs ? t.allocateFactors(t.registerRows, keyRows) : scores;
  weights = {t.frame.allocate(queryRows * t.lanes, f32), t.lanes};
  maxima = t.frame.allocate(queryRows, f32);
  factors = t.frame.allocate(t.registerRows, f32);

  t.frame.iterations = t.heads * queryBlocks;
  // Scores; their weights times the values.
  t.frame.function.setFlopsType(op.getQ().getType().getElementType());
  t.frame.function.setFlopsPerKeyAttr(
      kernel::flopsPerKey(op.getQ().getType(), t.keySize + t.valueSize, t.frame.iterations));
  t.loop(t.frame.begin, t.frame.end, 1, [&](Value iteration) { emitBlock(iteration); });
  return failure(failed);
}

void AttentionEmitter::emitBlock(Value iteration) {
  head = v.div(iteration, queryBlocks);
  keyHead = v.div(head, t.sharing);
  headNumber = t.toI32(head);
  firstQuery = v.mul(v.rem(iteration, queryBlocks), queryRows);
  rows = t.minimum(v.index(queryRows), v.sub(v.index(t.tokens), firstQuery));
  lastQuery = v.sub(v.add(firstQuery, rows), v.index(1));
  Value allKeys = t.maximum(t.indexAt(first, firstQuery), v.index(0));
  Value allEnd = t.minimum(v.add(t.indexAt(last, lastQuery), v.index(1)), v.index(t.tokens));

  t.packRows(queries, q, head, firstQuery, rows,
             v.mul(v.div(v.add(rows, v.index(t.registerRows - 1)), t.registerRows), t.registerRows),
             v.f32(op.getScale().convertToDouble()));
  t.loop(v.index(0), v.index(queryRows), 1, [&](Value row) {
    v.store(v.f32(-std::numeric_limits<double>::infinity()), maxima, row);
    v.store(v.splat(v.f32(0)), weights.memory, v.mul(row, weights.stride));
    for (int64_t j = 0; j < t.vectorsOf(t.valueSize); ++j)
      v.store(v.splat(v.f32(0)), sums.memory, v.add(v.mul(row, sums.stride), v.index(j * t.lanes)));
  });

  t.loop(allKeys, allEnd, keyRows, [&](Value blockKey) {
    firstKey = blockKey;
    endKey = t.minimum(v.add(firstKey, v.index(keyRows)), allEnd);
    Value count = v.sub(endKey, firstKey);
    t.packTransposed(keys, k, keyHead, firstKey, count);
    t.packPanels(values, value, keyHead, firstKey, count);
    t.loop(v.index(0), rows, t.registerRows, [&](Value row) { emitTile(row); });
  });
  emitResults();
}

void AttentionEmitter::emitTile(Value row) {
  Value top = v.add(firstQuery, row),
        bottom = t.minimum(v.add(top, v.index(t.registerRows - 1)), lastQuery);
  Value from = t.maximum(t.indexAt(first, top), firstKey),
        to = t.minimum(v.add(t.indexAt(last, bottom), v.index(1)), endKey);
  t.branch(t.less(from, to), [&] {
    IndexRange columns{v.sub(from, firstKey), v.sub(to, firstKey)};
    t.multiply(scores, queries, row, keys, columns, v.f32(op.getScale().convertToDouble()));
    IndexRange whole = t.wholePanels(columns);
    emitScores(whole, row);
    emitSoftmax(whole, row);
    t.accumulate(sums, row, shares, values, columns, factors);
  });
}

/// The score region, and −∞ for what is not seen.
void AttentionEmitter::emitScores(IndexRange whole, Value row) {
  Value top = v.add(firstQuery, row),
        bottom = t.minimum(v.add(top, v.index(t.registerRows - 1)), lastQuery);
  Value firstNumber = t.toI32(firstKey);
  auto forScores = [&](function_ref<Value(Value score, Value query, Value key)> body) {
    t.loop(v.index(0), v.index(t.registerRows), 1, [&](Value r) {
      Value query = t.minimum(v.add(top, r), lastQuery);
      t.loop(whole.begin, whole.end, t.lanes, [&](Value column) {
        Value place = v.add(v.mul(r, scores.stride), column),
              key = v.addi(v.addi(firstNumber, t.toI32(column)), v.laneNumbers());
        v.store(body(v.load(scores.memory, place), query, key), scores.memory, place);
      });
    });
  };
  if (!op.getScore().empty())
    forScores([&](Value score, Value query, Value key) {
      FailureOr<Value> mapped =
          t.apply(op.getScore(), {score, t.toI32(query), key, headNumber}, score);
      failed |= mlir::failed(mapped);
      return failed ? score : *mapped;
    });
  // All of these queries see all of these keys: the last one starts at the first key or before, the
  // first one ends at the last key or behind.
  Value seesFirst = t.lessEqual(t.indexAt(first, bottom), v.add(firstKey, whole.begin));
  Value seesLast = t.less(v.add(firstKey, whole.end), v.add(t.indexAt(last, top), v.index(2)));
  t.branch(
      t.both(seesFirst, seesLast), [] {},
      [&] {
        forScores([&](Value score, Value query, Value key) {
          Value seen = arith::AndIOp::create(
              b, loc, v.compare(graph::Predicate::ge, key, t.toI32(t.indexAt(first, query))),
              v.compare(graph::Predicate::le, key, t.toI32(t.indexAt(last, query))));
          return v.select(seen, score, v.f32(-std::numeric_limits<double>::infinity()));
        });
      });
}

/// Scores of the tile become weights e^(score − maximum of the row so far), and `factors` what
/// earlier sums must be multiplied by.
void AttentionEmitter::emitSoftmax(IndexRange columns, Value row) {
  Value infinity = v.f32(-std::numeric_limits<double>::infinity());
  t.loop(v.index(0), v.index(t.registerRows), 1, [&](Value r) {
    Value inBlock = v.add(row, r), at = v.mul(r, scores.stride);
    Value largest =
        t.loop(columns.begin, columns.end, t.lanes, v.splat(infinity),
               [&](Value column, ValueRange maximum) {
                 Value score = v.load(scores.memory, v.add(at, column));
                 return SmallVector<Value>{v.select(
                     v.compare(graph::Predicate::gt, score, maximum[0]), score, maximum[0])};
               })[0];
    Value before = v.loadScalar(maxima, inBlock), maximum = v.max(before, v.maxLanes(largest));
    v.store(maximum, maxima, inBlock);
    // A row that has seen no key yet keeps weights of 0.
    Value subtracted =
        v.select(v.compare(graph::Predicate::eq, maximum, infinity), v.f32(0), maximum);
    Value factor = v.exp(v.subf(before, subtracted));
    v.store(factor, factors, r);
    Value partial = v.mulf(v.load(weights.memory, v.mul(inBlock, weights.stride)), factor);
    partial =
        t.loop(columns.begin, columns.end, t.lanes, partial, [&](Value column, ValueRange sum) {
          Value place = v.add(at, column),
                weight = v.exp(v.subf(v.load(scores.memory, place), subtracted));
          t.storeFactor(weight, shares, r, column);
          return SmallVector<Value>{v.addf(sum[0], weight)};
        })[0];
    v.store(partial, weights.memory, v.mul(inBlock, weights.stride));
  });
}

void AttentionEmitter::emitResults() {
  t.loop(v.index(0), rows, 1, [&](Value row) {
    Value query = v.add(firstQuery, row),
          denominator = v.sumLanes(v.load(weights.memory, v.mul(row, weights.stride)));
    Value inverse = v.divf(v.f32(1), denominator);
    for (int64_t j = 0; j < t.vectorsOf(t.valueSize); ++j) {
      Value result = v.mulf(
          v.load(sums.memory, v.add(v.mul(row, sums.stride), v.index(j * t.lanes))), inverse);
      for (const HeadOperand &out : y)
        t.storeVector(result, out, head, query, j);
    }
    Value logarithm = lse.empty() ? Value() : v.addf(v.loadScalar(maxima, row), v.log(denominator));
    for (const HeadOperand &out : lse)
      v.store(logarithm, out.flat, t.placeOf(out, head, query, v.index(0)));
  });
}

LogicalResult emitAttentionKernel(KernelFrame &frame) {
  return AttentionEmitter(frame, onlyOp<graph::AttentionOp>(frame)).emit();
}

} // namespace nano::kernels
