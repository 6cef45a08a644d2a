// scatter_add: y[v, :] = Σ of the rows x[t, :] with ids[t] = v, in order of t, accumulated in f32
// registers. Every call sorts the positions by id (counting sort, stable), so that each row of y is
// written once and each of x read once.
#include "ir/graph/TableOps.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/Loops.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace nano::kernels {

namespace {

/// Iteration i of n has the rows v of y with i/n ≤ (v + number of ids below v) / (V + T) < (i +
/// 1)/n: about equal numbers of rows written and read whatever the ids are, and the same rows
/// however the range is split. Besides these rows a call takes O(T + V) steps.
class ScatterAddEmitter {
public:
  ScatterAddEmitter(KernelFrame &frame, graph::ScatterAddOp op)
      : frame(frame), op(op), v(frame.builder, frame.loc, frame.options.lanes), b(frame.builder),
        loc(frame.loc) {}

  LogicalResult emit();

private:
  SmallVector<Value> loop(Value from, Value to, int64_t step, ValueRange inits, LoopBody body) {
    return emitLoop(b, loc, from, to, step, inits, body);
  }
  /// Sorts the positions of the calls' rows; returns the first of these rows, the one behind the
  /// last, and the first's first position.
  SmallVector<Value> emitSort();
  void emitRow(Value row, Value from, Value to);
  /// y[row, column … column + columns) ← the sum of x at positions [from, to).
  void emitSums(Value row, Value from, Value to, Value column, int64_t columns);
  Value toIndex(Value i32) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), i32); }
  Value toI32(Value index) { return arith::IndexCastOp::create(b, loc, b.getI32Type(), index); }

  KernelFrame &frame;
  graph::ScatterAddOp op;
  VectorOps v;
  OpBuilder &b;
  Location loc;
  int64_t tokens = 0, rows = 0, size = 0;

  Value x, ids;
  SmallVector<Value> results;
  SmallVector<int64_t> xStrides, idStrides;
  Value ends, positions; // one past the positions of each id; positions in order of id, then t
};

} // namespace

LogicalResult ScatterAddEmitter::emit() {
  if (failed(verifyNotInPlace(frame)))
    return failure();
  Value source = argumentOf(frame, op.getX()), numbers = argumentOf(frame, op.getIds());
  x = frame.flat(source);
  ids = frame.flat(numbers);
  xStrides = stridesOf(cast<MemRefType>(source.getType()));
  idStrides = stridesOf(cast<MemRefType>(numbers.getType()));
  results = argumentsOfResult(frame, op.getResult());
  tokens = op.getX().getType().getDimSize(0);
  rows = op.getResult().getType().getDimSize(0);
  size = op.getResult().getType().getDimSize(1);
  ends = frame.allocate(llvm::alignTo(rows, v.lanes), b.getI32Type());
  positions = frame.allocate(tokens, b.getI32Type());

  // Enough work for the sort to count little.
  constexpr int64_t iterationBytes = int64_t(2) << 20, mostIterations = 16;
  frame.iterations =
      std::clamp<int64_t>((rows + tokens) * size * 4 / iterationBytes, 1, mostIterations);
  frame.grain = 1;
  SmallVector<Value> sorted = emitSort();
  loop(sorted[0], sorted[1], 1, sorted[2], [&](Value row, ValueRange from) -> SmallVector<Value> {
    Value to = toIndex(v.loadScalar(ends, row));
    emitRow(row, from[0], to);
    return {to};
  });
  return success();
}

SmallVector<Value> ScatterAddEmitter::emitSort() {
  loop(v.index(0), v.index(rows), v.lanes, {}, [&](Value row, ValueRange) {
    v.store(v.splat(v.i32(0)), ends, row);
    return SmallVector<Value>();
  });
  auto idOf = [&](Value t) { return toIndex(v.loadScalar(ids, v.mul(t, idStrides[0]))); };
  loop(v.index(0), v.index(tokens), 1, {}, [&](Value t, ValueRange) {
    Value id = idOf(t);
    v.store(v.addi(v.loadScalar(ends, id), v.i32(1)), ends, id);
    return SmallVector<Value>();
  });

  // Counts become each row's first position; rows before this call's first and before its end are
  // counted.
  auto bound = [&](Value iteration) {
    return v.div(v.mul(iteration, rows + tokens), frame.iterations);
  };
  Value bounds[] = {bound(frame.begin), bound(frame.end)};
  SmallVector<Value> ranges = loop(
      v.index(0), v.index(rows), 1, {v.i32(0), v.index(0), v.index(0)},
      [&](Value row, ValueRange state) {
        Value count = v.loadScalar(ends, row), weight = v.add(row, toIndex(state[0]));
        v.store(state[0], ends, row);
        SmallVector<Value> next = {v.addi(state[0], count)};
        for (int i = 0; i < 2; ++i) {
          Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, weight, bounds[i]);
          next.push_back(
              v.add(state[i + 1], arith::IndexCastUIOp::create(b, loc, b.getIndexType(), below)));
        }
        return next;
      });
  Value first = ranges[1], end = ranges[2], size = v.sub(end, first);
  Value inRange = arith::MinUIOp::create(b, loc, first, v.index(rows - 1));
  Value firstPosition = toIndex(v.loadScalar(ends, inRange));

  loop(v.index(0), v.index(tokens), 1, {}, [&](Value t, ValueRange) {
    Value id = idOf(t),
          mine = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, v.sub(id, first), size);
    auto ifOp = scf::IfOp::create(b, loc, mine, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Value position = v.loadScalar(ends, id);
    v.store(toI32(t), positions, toIndex(position));
    v.store(v.addi(position, v.i32(1)), ends, id);
    return SmallVector<Value>();
  });
  return {first, end, firstPosition};
}

void ScatterAddEmitter::emitRow(Value row, Value from, Value to) {
  int64_t width = v.lanes * std::min<int64_t>(8, llvm::divideCeil(size, v.lanes)),
          whole = size / width;
  if (whole > 0)
    loop(v.index(0), v.index(whole), 1, {}, [&](Value block, ValueRange) {
      emitSums(row, from, to, v.mul(block, width), width);
      return SmallVector<Value>();
    });
  if (whole * width < size)
    emitSums(row, from, to, v.index(whole * width), size - whole * width);
}

void ScatterAddEmitter::emitSums(Value row, Value from, Value to, Value column, int64_t columns) {
  int64_t vectors = llvm::divideCeil(columns, v.lanes);
  auto maskOf = [&](int64_t j) {
    return columns - j * v.lanes >= v.lanes ? Value() : v.maskBelow(v.index(columns - j * v.lanes));
  };
  auto offsets = [&](int64_t stride) { return v.muli(v.laneNumbers(), v.i32(stride)); };
  SmallVector<Value> sums = loop(
      from, to, 1, SmallVector<Value>(vectors, v.splat(v.f32(0))),
      [&](Value i, ValueRange partial) {
        Value t = toIndex(v.loadScalar(positions, i));
        Value at = v.add(v.mul(t, xStrides[0]), v.mul(column, xStrides[1]));
        SmallVector<Value> next;
        for (int64_t j = 0; j < vectors; ++j) {
          Value place = v.add(at, v.index(j * v.lanes * xStrides[1]));
          next.push_back(v.addf(
              partial[j], xStrides[1] == 1 ? v.load(x, place, maskOf(j))
                                           : v.gather(x, place, offsets(xStrides[1]), maskOf(j))));
        }
        return next;
      });
  for (Value result : results) {
    SmallVector<int64_t> strides = stridesOf(cast<MemRefType>(result.getType()));
    Value at = v.add(v.mul(row, strides[0]), v.mul(column, strides[1])), flat = frame.flat(result);
    for (int64_t j = 0; j < vectors; ++j) {
      Value place = v.add(at, v.index(j * v.lanes * strides[1]));
      if (strides[1] == 1)
        v.store(sums[j], flat, place, maskOf(j));
      else
        v.scatter(sums[j], flat, place, offsets(strides[1]), maskOf(j));
    }
  }
}

LogicalResult emitScatterAddKernel(KernelFrame &frame) {
  return ScatterAddEmitter(frame, onlyOp<graph::ScatterAddOp>(frame)).emit();
}

} // namespace nano::kernels
