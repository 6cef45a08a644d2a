// band_scores: dot products of a token with those of the band before it. band_product: weighted
// sums over a band, vectors of columns at a time. An iteration is one head of one token.
#include "ir/graph/Sequence.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/Loops.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace nano::kernels {

namespace {

/// What both kernels have in common: iterations of a token's heads, loops, and the band.
class BandEmitter {
public:
  BandEmitter(KernelFrame &frame, RankedTensorType rows, int64_t width)
      : v(frame.builder, frame.loc, frame.options.lanes), b(frame.builder), loc(frame.loc),
        tokens(rows.getDimSize(0)), heads(rows.getDimSize(1)), size(rows.getDimSize(2)),
        width(width) {
    constexpr int64_t productsOf10Microseconds = 32768;
    frame.iterations = tokens * heads;
    frame.grain = std::max<int64_t>(1, productsOf10Microseconds / (width * size));
    auto calls = scf::ForOp::create(b, loc, frame.begin, frame.end, v.index(1));
    b.setInsertionPointToStart(calls.getBody());
    t = v.div(calls.getInductionVar(), heads);
    h = v.rem(calls.getInductionVar(), heads);
  }

  /// for i = from, from + step, … below `to`: the loop's values from `inits`.
  SmallVector<Value> loop(Value from, Value to, int64_t step, ValueRange inits, LoopBody body) {
    return emitLoop(b, loc, from, to, step, inits, body);
  }
  /// The first w whose token, t − W + 1 + w, is one.
  Value firstOfBand() {
    return arith::MaxSIOp::create(b, loc, v.index(0), v.sub(v.index(width - 1), t));
  }
  /// The lanes from `begin` on that are below `end`; none where all are.
  Value maskFrom(int64_t begin, int64_t end) {
    return end - begin >= v.lanes ? Value() : v.maskBelow(v.index(end - begin));
  }

  VectorOps v;
  OpBuilder &b;
  Location loc;
  int64_t tokens, heads, size, width;
  Value t, h;
};

} // namespace

LogicalResult emitBandScoresKernel(KernelFrame &frame) {
  auto op = onlyOp<graph::BandScoresOp>(frame);
  if (failed(verifyNotInPlace(frame)))
    return failure();
  const VectorRows q(frame, argumentOf(frame, op.getQ())), k(frame, argumentOf(frame, op.getK()));
  SmallVector<VectorRows> results;
  for (Value argument : argumentsOfResult(frame, op.getResult()))
    results.emplace_back(frame, argument);
  OpBuilder::InsertionGuard guard(frame.builder);
  BandEmitter e(frame, cast<RankedTensorType>(op.getQ().getType()),
                cast<RankedTensorType>(op.getType()).getDimSize(2));
  VectorOps &v = e.v;
  auto store = [&](Value w, Value score) {
    for (const VectorRows &result : results)
      v.store(score, result.flat, result.place(v, e.t, e.h, w));
  };
  Value first = e.firstOfBand();
  e.loop(v.index(0), first, 1, {}, [&](Value w, ValueRange) {
    store(w, v.f32(0));
    return SmallVector<Value>();
  });
  e.loop(first, v.index(e.width), 1, {}, [&](Value w, ValueRange) {
    Value other = v.sub(v.add(e.t, w), v.index(e.width - 1));
    auto added = [&](Value d, Value sums, Value mask) {
      return v.fma(q.load(v, q.place(v, e.t, e.h, d), mask),
                   k.load(v, k.place(v, other, e.h, d), mask), sums);
    };
    const int64_t whole = e.size / v.lanes * v.lanes;
    Value sums = v.splat(v.f32(0));
    if (whole > 0)
      sums = e.loop(v.index(0), v.index(whole), v.lanes, sums, [&](Value d, ValueRange partial) {
        return SmallVector<Value>{added(d, partial[0], Value())};
      })[0];
    if (whole < e.size)
      sums = added(v.index(whole), sums, e.maskFrom(whole, e.size));
    store(w, v.sumLanes(sums));
    return SmallVector<Value>();
  });
  return success();
}

LogicalResult emitBandProductKernel(KernelFrame &frame) {
  auto op = onlyOp<graph::BandProductOp>(frame);
  if (failed(verifyNotInPlace(frame)))
    return failure();
  const VectorRows p(frame, argumentOf(frame, op.getP())),
      rows(frame, argumentOf(frame, op.getV()));
  SmallVector<VectorRows> results;
  for (Value argument : argumentsOfResult(frame, op.getResult()))
    results.emplace_back(frame, argument);
  OpBuilder::InsertionGuard guard(frame.builder);
  BandEmitter e(frame, cast<RankedTensorType>(op.getType()),
                cast<RankedTensorType>(op.getP().getType()).getDimSize(2));
  VectorOps &v = e.v;
  // Transposed, token t + u has the weight W − 1 − u for t.
  const bool isTransposed = op.getTranspose();
  Value from = isTransposed ? v.index(0) : e.firstOfBand(), to = v.index(e.width);
  if (isTransposed)
    to = arith::MinSIOp::create(e.b, e.loc, to, v.sub(v.index(e.tokens), e.t));
  constexpr int64_t vectorsAtATime = 4;
  for (int64_t begin = 0; begin < e.size; begin += vectorsAtATime * v.lanes) {
    SmallVector<int64_t> columns;
    for (int64_t i = 0; i < vectorsAtATime && begin + i * v.lanes < e.size; ++i)
      columns.push_back(begin + i * v.lanes);
    SmallVector<Value> sums =
        e.loop(from, to, 1, SmallVector<Value>(columns.size(), v.splat(v.f32(0))),
               [&](Value u, ValueRange partial) {
                 Value other = v.add(e.t, u);
                 if (!isTransposed)
                   other = v.sub(other, v.index(e.width - 1));
                 Value at = isTransposed ? p.place(v, other, e.h, v.sub(v.index(e.width - 1), u))
                                         : p.place(v, e.t, e.h, u);
                 Value weight = v.splat(v.loadScalar(p.flat, at));
                 SmallVector<Value> next;
                 for (auto [i, column] : llvm::enumerate(columns))
                   next.push_back(v.fma(weight,
                                        rows.load(v, rows.place(v, other, e.h, v.index(column)),
                                                  e.maskFrom(column, e.size)),
                                        partial[i]));
                 return next;
               });
    for (const VectorRows &result : results)
      for (auto [column, sum] : llvm::zip_equal(columns, sums))
        result.store(v, sum, result.place(v, e.t, e.h, v.index(column)),
                     e.maskFrom(column, e.size));
  }
  return success();
}

} // namespace nano::kernels
