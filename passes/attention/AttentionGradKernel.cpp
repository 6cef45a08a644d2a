// The derivative of blocked attention, without atomics: an iteration makes dq of one block of
// queries, or dk and dv of one block of keys. Both recompute the scores from lse:
// 8·Dh + 6·Dv flops a visible pair, where one pass with shared sums would take 6·Dh + 4·Dv.
#include "ir/graph/AttentionOps.h"
#include "passes/attention/AttentionKernels.h"
#include "passes/attention/AttentionTiles.h"
#include "passes/emit/TaskOperands.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nano::kernels {

namespace {

/// Iteration i is number i mod (H/Hk + 1)·blocks of head i / ((H/Hk + 1)·blocks) of keys: first the
/// blocks of queries of the heads that share it, then those of keys. One code serves both kinds.
/// The rows of its tiles are the iteration's own block
/// ("mine"): q and dy, or k and v. The columns walk over blocks of the other kind ("theirs"): k and
/// v that the queries see, or q and dy of the queries that see the keys, of one head after the
/// other. These are contiguous because `first` and `last` do not decrease: queries t with last[t] ≥
/// the first key and first[t] ≤ the last one, found by binary search.
///
///   scores = mine₀·theirs₀ᵀ, products = mine₁·theirs₁ᵀ (dy·v), both turned into dS = gradient of
///   the score, and P; sums₀ += dS·theirs₀ (dq or dk), and for keys sums₁ += P·theirs₁ (dv).
class AttentionGradEmitter {
public:
  AttentionGradEmitter(KernelFrame &frame, graph::AttentionGradOp op)
      : op(op), t(frame, op.getQ().getType(), op.getV().getType(),
                  {argumentOf(frame, op.getQ()), argumentOf(frame, op.getK()),
                   argumentOf(frame, op.getV()), argumentOf(frame, op.getDy())}),
        v(t.v), b(t.b), loc(t.loc), mine(t.rowTokens()), theirs(t.columnTokens()),
        blocks(llvm::divideCeil(t.tokens, mine)) {}

  LogicalResult emit();

private:
  void emitBlock(Value iteration);
  void emitColumns(Value myHead, Value theirHead);
  void emitRanges();
  void emitStatistics(Value count);
  void emitTile(Value row);
  void emitGradient(IndexRange columns, Value row);
  void emitMask(IndexRange columns, Value row);
  void emitShares(IndexRange columns, Value number);
  void store(const RowTile &sums, Value number, ArrayRef<HeadOperand> results, Value ofHead,
             double scale);

  Value choose(Value a, Value c) { return arith::SelectOp::create(b, loc, ofQueries, a, c); }
  Value asIndex(Value i32) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), i32); }
  Value statistic(const HeadOperand &x, Value token) {
    return v.loadScalar(x.flat, t.placeOf(x, head, token, v.index(0)));
  }
  /// Whether what is multiplied together begins at x.
  Value isWhole(Value x) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, v.rem(x, t.together),
                                 v.index(0));
  }
  /// Of the scores, and of dy·v.
  Value scaleOf(Value number) {
    return v.select(t.less(number, v.index(1)), v.f32(scale), v.f32(1));
  }
  /// body(number) for both tiles of a pair: a loop where heads of keys and of values have one size.
  void forBoth(function_ref<void(Value)> body) {
    if (t.keySize == t.valueSize)
      return t.loop(v.index(0), v.index(2), 1, body);
    body(v.index(0));
    body(v.index(1));
  }
  /// For the first, and the second where the block is of keys.
  void forSums(function_ref<void(Value)> body) {
    if (t.keySize == t.valueSize)
      return t.loop(v.index(0), passes, 1, body);
    body(v.index(0));
    t.branch(ofQueries, [] {}, [&] { body(v.index(1)); });
  }
  /// Of a head in the tile with number `number`.
  int64_t sizeOf(Value number) {
    const auto constant = getConstantIntValue(number);
    return constant && *constant == 1 ? t.valueSize : t.keySize;
  }
  /// The tile with number `number` of two.
  RowTile part(RowTile tile, Value number, int64_t rows) {
    tile.offset = v.mul(number, rows * tile.stride);
    tile.size = sizeOf(number);
    return tile;
  }
  PanelTile part(PanelTile tile, Value number, int64_t elements) {
    tile.offset = v.mul(number, elements);
    tile.size = sizeOf(number);
    return tile;
  }
  /// The first of two where `number` is 0.
  HeadOperand part(const HeadOperand (&pair)[2], Value number) {
    if (const auto constant = getConstantIntValue(number))
      return pair[*constant];
    return t.pick(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, number, v.index(0)),
                  pair[0], pair[1]);
  }

  graph::AttentionGradOp op;
  AttentionTiles t;
  VectorOps &v;
  OpBuilder &b;
  Location loc;
  const int64_t mine, theirs,
      blocks; // tokens of a block of rows, of a block of columns; blocks of rows

  HeadOperand queries[2], keys[2], lse, delta; // q and dy; k and v
  Value first, last;                           // arguments
  SmallVector<HeadOperand> dq, dk, dv;
  double scale = 1;

  // Each holds two tiles, of as many elements as the larger one has.
  RowTile rows, sums, scores;
  RowTile shares; // what `scores` has become, as factors
  PanelTile columns, turned;
  int64_t columnElements = 0, turnedElements = 0;
  Value logarithms, deltas, firsts, lasts; // of a block of columns, when these are queries
  Value rangeBegins, rangeEnds;            // i32: tokens that `registerRows` rows meet

  // Of the iteration.
  Value ofQueries;        // i1
  Value head, headNumber; // of queries
  Value begin, end, count, passes, columnBegin, columnEnd;
  HeadOperand myOperands[2], theirOperands[2];
  bool failed = false;
};

} // namespace

LogicalResult AttentionGradEmitter::emit() {
  if (mlir::failed(verifyNotInPlace(t.frame)))
    return failure();
  auto operand = [&](Value value) { return t.headOperand(argumentOf(t.frame, value)); };
  queries[0] = operand(op.getQ());
  queries[1] = operand(op.getDy());
  keys[0] = operand(op.getK());
  keys[1] = operand(op.getV());
  lse = operand(op.getLse());
  delta = operand(op.getDelta());
  first = argumentOf(t.frame, op.getFirst());
  last = argumentOf(t.frame, op.getLast());
  dq = t.resultsOf(op.getDq());
  dk = t.resultsOf(op.getDk());
  dv = t.resultsOf(op.getDv());
  scale = op.getScale().convertToDouble();

  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  rows = t.allocateFactors(mine, t.largerSize, 2);
  sums = t.allocateRows(mine, t.largerSize, 2);
  columns = t.allocatePanels(theirs, t.largerSize, 2);
  columnElements = t.panelElements(theirs, t.largerSize);
  turned = t.allocateTransposed(theirs, t.largerSize, 2);
  turnedElements = t.transposedElements(theirs, t.largerSize);
  scores = {t.frame.allocate(2 * t.registerRows * theirs, f32), theirs};
  shares = t.inPairs ? t.allocateFactors(t.registerRows, theirs, 2) : scores;
  logarithms = t.frame.allocate(theirs, f32);
  deltas = t.frame.allocate(theirs, f32);
  firsts = t.frame.allocate(theirs, i32);
  lasts = t.frame.allocate(theirs, i32);
  rangeBegins = t.frame.allocate(mine / t.registerRows, i32);
  rangeEnds = t.frame.allocate(mine / t.registerRows, i32);

  t.frame.iterations = (t.heads + t.heads / t.sharing) * blocks;
  // Queries' blocks: scores, dp, dq. Keys': scores, dp, dk, dv.
  t.frame.function.setFlopsType(op.getQ().getType().getElementType());
  t.frame.function.setFlopsPerKeyAttr(kernel::flopsPerKey(
      op.getQ().getType(), 4 * t.keySize + 3 * t.valueSize, t.frame.iterations));
  t.loop(t.frame.begin, t.frame.end, 1, [&](Value iteration) { emitBlock(iteration); });
  return failure(failed);
}

void AttentionGradEmitter::emitBlock(Value iteration) {
  const int64_t ofKeyHead = (t.sharing + 1) * blocks;
  Value keyHead = v.div(iteration, ofKeyHead), number = v.rem(iteration, ofKeyHead);
  ofQueries = t.less(number, v.index(t.sharing * blocks));
  begin = v.mul(v.rem(number, blocks), mine);
  end = t.minimum(v.add(begin, v.index(mine)), v.index(t.tokens));
  count = v.sub(end, begin);
  passes = choose(v.index(1), v.index(2));
  for (int i = 0; i < 2; ++i) {
    myOperands[i] = t.pick(ofQueries, queries[i], keys[i]);
    theirOperands[i] = t.pick(ofQueries, keys[i], queries[i]);
  }
  // The head of the block, and of queries that meet it the first.
  Value firstHead = v.mul(keyHead, t.sharing), myHead = keyHead;
  if (t.sharing > 1)
    myHead = choose(v.add(firstHead, v.div(number, blocks)), keyHead);
  Value one = v.index(1), zero = v.index(0);
  forBoth([&](Value i) {
    t.packRows(part(rows, i, mine), part(myOperands, i), myHead, begin, count, v.index(mine),
               scaleOf(i));
  });
  t.loop(zero, v.index(2 * mine * sums.stride), t.lanes,
         [&](Value at) { v.store(v.splat(v.f32(0)), sums.memory, at); });
  emitRanges();

  if (t.sharing == 1)
    emitColumns(myHead, keyHead);
  else
    t.loop(zero, choose(one, v.index(t.sharing)), 1,
           [&](Value shared) { emitColumns(myHead, choose(keyHead, v.add(firstHead, shared))); });
  t.branch(
      ofQueries, [&] { store(sums, zero, dq, myHead, scale); },
      [&] {
        store(sums, zero, dk, myHead, scale);
        store(sums, one, dv, myHead, 1);
      });
}

/// Adds what the blocks of columns of `theirHead` give.
void AttentionGradEmitter::emitColumns(Value myHead, Value theirHead) {
  head = t.sharing == 1 ? myHead : choose(myHead, theirHead);
  headNumber = t.toI32(head);
  Value one = v.index(1), zero = v.index(0);
  Value from = asIndex(v.loadScalar(rangeBegins, zero));
  Value to = asIndex(v.loadScalar(rangeEnds, v.div(v.sub(count, one), t.registerRows)));
  t.loop(from, to, theirs, [&](Value column) {
    columnBegin = column;
    columnEnd = t.minimum(v.add(column, v.index(theirs)), to);
    Value size = v.sub(columnEnd, columnBegin);
    forBoth([&](Value i) {
      t.packTransposed(part(turned, i, turnedElements), part(theirOperands, i), theirHead,
                       columnBegin, size);
    });
    forSums([&](Value i) {
      t.packPanels(part(columns, i, columnElements), part(theirOperands, i), theirHead, columnBegin,
                   size);
    });
    t.branch(ofQueries, [] {}, [&] { emitStatistics(size); });
    t.loop(zero, count, t.registerRows, [&](Value row) { emitTile(row); });
  });
}

/// Tokens that each group of rows in registers meets. Both ends do not decrease from group to
/// group.
void AttentionGradEmitter::emitRanges() {
  t.loop(v.index(0), count, t.registerRows, [&](Value row) {
    Value top = v.add(begin, row), past = t.minimum(v.add(top, v.index(t.registerRows)), end),
          at = v.div(row, t.registerRows);
    t.branch(
        ofQueries,
        [&] {
          Value to = v.add(t.indexAt(last, v.sub(past, v.index(1))), v.index(1));
          v.store(t.toI32(t.maximum(t.indexAt(first, top), v.index(0))), rangeBegins, at);
          v.store(t.toI32(t.minimum(to, v.index(t.tokens))), rangeEnds, at);
        },
        [&] {
          v.store(t.toI32(t.countBelow(last, t.toI32(top))), rangeBegins, at);
          v.store(t.toI32(t.countBelow(first, t.toI32(past))), rangeEnds, at);
        });
  });
}

/// What belongs to the queries of a block of columns.
void AttentionGradEmitter::emitStatistics(Value count) {
  t.loop(v.index(0), count, 1, [&](Value i) {
    Value query = v.add(columnBegin, i);
    v.store(statistic(lse, query), logarithms, i);
    v.store(statistic(delta, query), deltas, i);
    v.store(t.toI32(t.indexAt(first, query)), firsts, i);
    v.store(t.toI32(t.indexAt(last, query)), lasts, i);
  });
}

void AttentionGradEmitter::emitTile(Value row) {
  Value group = v.div(row, t.registerRows);
  Value from = t.maximum(asIndex(v.loadScalar(rangeBegins, group)), columnBegin);
  Value to = t.minimum(asIndex(v.loadScalar(rangeEnds, group)), columnEnd);
  t.branch(t.less(from, to), [&] {
    IndexRange range{v.sub(from, columnBegin), v.sub(to, columnBegin)};
    forBoth([&](Value i) {
      t.multiply(part(scores, i, t.registerRows), part(rows, i, mine), row,
                 part(turned, i, turnedElements), range, scaleOf(i));
    });
    emitGradient(range, row);

    // All of these queries see all of these keys: the last query starts at the first key or before,
    // the first one ends at the last key or behind.
    Value top = v.add(begin, row),
          bottom = v.sub(t.minimum(v.add(top, v.index(t.registerRows)), end), v.index(1)),
          right = v.sub(to, v.index(1));
    Value seesFirst = t.lessEqual(t.indexAt(first, choose(bottom, right)), choose(from, top));
    Value seesLast = t.lessEqual(choose(right, bottom), t.indexAt(last, choose(top, from)));
    Value seesAll = t.both(seesFirst, seesLast);
    if (t.inPairs) // what completes elements that are multiplied together is not of the range
      seesAll = t.both(seesAll, t.both(isWhole(range.begin), isWhole(range.end)));
    t.branch(seesAll, [] {}, [&] { emitMask(range, row); });
    if (t.inPairs)
      forSums([&](Value i) { emitShares(range, i); });

    forSums([&](Value i) {
      t.accumulate(part(sums, i, mine), row, part(shares, i, t.registerRows),
                   part(columns, i, columnElements), range);
    });
  });
}

/// From s = scale·q·k and dy·v to the gradient of s and p = e^(f(s) − lse), for whole panels.
/// Nothing reads what is outside `range`.
void AttentionGradEmitter::emitGradient(IndexRange range, Value row) {
  IndexRange whole = t.wholePanels(range);
  Value second = v.index(t.registerRows * scores.stride);
  auto orFail = [&](FailureOr<Value> result, Value otherwise) {
    failed |= mlir::failed(result);
    return mlir::failed(result) ? otherwise : *result;
  };
  t.loop(v.index(0), v.index(t.registerRows), 1, [&](Value r) {
    Value token = t.minimum(v.add(v.add(begin, row), r), v.sub(end, v.index(1)));
    Value rowLogarithm = v.splat(statistic(lse, token)),
          rowDelta = v.splat(statistic(delta, token));
    Value rowNumber = v.splat(t.toI32(token)), firstNumber = t.toI32(columnBegin);
    t.loop(whole.begin, whole.end, t.lanes, [&](Value column) {
      Value place = v.add(v.mul(r, scores.stride), column),
            columnNumbers = v.addi(v.addi(firstNumber, t.toI32(column)), v.laneNumbers());
      Value query = choose(rowNumber, columnNumbers), key = choose(columnNumbers, rowNumber);
      Value logarithm = choose(rowLogarithm, v.load(logarithms, column)),
            difference = choose(rowDelta, v.load(deltas, column));
      Value raw = v.load(scores.memory, place),
            product = v.load(scores.memory, v.add(place, second));
      Value score = orFail(t.apply(op.getScore(), {raw, query, key, headNumber}, raw), raw);
      Value weight = v.exp(v.subf(score, logarithm));
      Value gradient = v.mulf(weight, v.subf(product, difference));
      gradient = orFail(
          t.apply(op.getScoreGrad(), {raw, query, key, headNumber, gradient}, gradient), raw);
      v.store(gradient, scores.memory, place);
      v.store(weight, scores.memory, v.add(place, second));
    });
  });
}

/// Zeros where a query does not see a key, in pairs also beside the range.
void AttentionGradEmitter::emitMask(IndexRange range, Value row) {
  IndexRange whole = t.wholePanels(range);
  t.loop(v.index(0), v.index(t.registerRows), 1, [&](Value r) {
    Value token = t.minimum(v.add(v.add(begin, row), r), v.sub(end, v.index(1)));
    Value rowFirst = v.splat(t.toI32(t.indexAt(first, token))),
          rowLast = v.splat(t.toI32(t.indexAt(last, token)));
    Value rowNumber = v.splat(t.toI32(token)), firstNumber = t.toI32(columnBegin);
    t.loop(whole.begin, whole.end, t.lanes, [&](Value column) {
      Value key = choose(v.addi(v.addi(firstNumber, t.toI32(column)), v.laneNumbers()), rowNumber);
      Value from = choose(rowFirst, v.load(firsts, column)),
            to = choose(rowLast, v.load(lasts, column));
      auto both = [&](Value a, Value c) -> Value { return arith::AndIOp::create(b, loc, a, c); };
      Value seen = both(v.compare(graph::Predicate::ge, key, from),
                        v.compare(graph::Predicate::le, key, to));
      if (t.inPairs) {
        Value number = v.addi(t.toI32(column), v.laneNumbers());
        seen = both(seen, both(v.compare(graph::Predicate::ge, number, t.toI32(range.begin)),
                               v.compare(graph::Predicate::lt, number, t.toI32(range.end))));
      }
      for (int64_t i = 0; i < 2; ++i) {
        Value place = v.add(v.add(v.mul(r, scores.stride), column),
                            v.index(i * t.registerRows * scores.stride));
        v.store(v.select(seen, v.load(scores.memory, place), v.f32(0)), scores.memory, place);
      }
    });
  });
}

/// The tile with number `number` of scores, as factors.
void AttentionGradEmitter::emitShares(IndexRange range, Value number) {
  const IndexRange whole = t.wholePanels(range);
  const RowTile from = part(scores, number, t.registerRows),
                to = part(shares, number, t.registerRows);
  t.loop(v.index(0), v.index(t.registerRows), 1, [&](Value r) {
    t.loop(whole.begin, whole.end, t.lanes, [&](Value column) {
      Value place = v.add(t.offsetBy(from.offset, v.mul(r, from.stride)), column);
      t.storeFactor(v.load(from.memory, place), to, r, column);
    });
  });
}

void AttentionGradEmitter::store(const RowTile &tile, Value number, ArrayRef<HeadOperand> results,
                                 Value ofHead, double scale) {
  if (results.empty())
    return;
  Value base = v.mul(number, mine * tile.stride);
  t.loop(v.index(0), count, 1, [&](Value row) {
    for (int64_t j = 0; j < t.vectorsOf(results.front().size); ++j) {
      Value result = v.mulf(
          v.load(tile.memory, v.add(v.add(base, v.mul(row, tile.stride)), v.index(j * t.lanes))),
          v.f32(scale));
      for (const HeadOperand &out : results)
        t.storeVector(result, out, ofHead, v.add(begin, row), j);
    }
  });
}

LogicalResult emitAttentionGradKernel(KernelFrame &frame) {
  return AttentionGradEmitter(frame, onlyOp<graph::AttentionGradOp>(frame)).emit();
}

} // namespace nano::kernels
