// scatter_add: y[v, :] = Σ of the rows x[t, :] with ids[t] = v, in order of t, accumulated in f32 registers.
// Every call sorts the positions by id (counting sort, stable), so that each row of y is written once and each row of x read once.
#include "passes/kernels/TaskOperands.h"
#include "passes/kernels/VectorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nano::kernels {

namespace {

/// Iterations are blocks of columns: equal work whatever the ids are. O(T + V) beside the T·D sums and V·D results.
class ScatterAddEmitter {
public:
  ScatterAddEmitter(KernelFrame &frame, graph::ScatterAddOp op)
      : frame(frame), op(op), v(frame.builder, frame.loc, frame.options.lanes), b(frame.builder), loc(frame.loc) {}

  LogicalResult emit();

private:
  using LoopBody = function_ref<SmallVector<Value>(Value, ValueRange)>;
  SmallVector<Value> loop(Value from, Value to, int64_t step, ValueRange inits, LoopBody body);
  void emitSort();
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

SmallVector<Value> ScatterAddEmitter::loop(Value from, Value to, int64_t step, ValueRange inits, LoopBody body) {
  auto forOp = scf::ForOp::create(b, loc, from, to, v.index(step), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  SmallVector<Value> next = body(forOp.getInductionVar(), forOp.getRegionIterArgs());
  if (!inits.empty()) {
    b.setInsertionPointToEnd(forOp.getBody());
    scf::YieldOp::create(b, loc, next);
  }
  return SmallVector<Value>(forOp.getResults());
}

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

  int64_t width = v.lanes * std::min<int64_t>(8, llvm::divideCeil(size, v.lanes));
  frame.iterations = llvm::divideCeil(size, width);
  frame.grain = 1;
  emitSort();
  loop(v.index(0), v.index(rows), 1, v.index(0), [&](Value row, ValueRange from) -> SmallVector<Value> {
    Value to = toIndex(v.loadScalar(ends, row));
    int64_t whole = size / width;
    auto minimum = [&](Value a, Value c) -> Value { return arith::MinSIOp::create(b, loc, a, c); };
    loop(frame.begin, minimum(frame.end, v.index(whole)), 1, {}, [&](Value block, ValueRange) {
      emitSums(row, from[0], to, v.mul(block, width), width);
      return SmallVector<Value>();
    });
    if (whole * width < size) {
      Value isLast = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, frame.end, v.index(whole));
      auto ifOp = scf::IfOp::create(b, loc, isLast, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(ifOp.thenBlock());
      emitSums(row, from[0], to, v.index(whole * width), size - whole * width);
    }
    return {to};
  });
  return success();
}

void ScatterAddEmitter::emitSort() {
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
  // Counts become the first position of each id.
  loop(v.index(0), v.index(rows), 1, v.i32(0), [&](Value row, ValueRange sum) -> SmallVector<Value> {
    Value count = v.loadScalar(ends, row);
    v.store(sum[0], ends, row);
    return {v.addi(sum[0], count)};
  });
  loop(v.index(0), v.index(tokens), 1, {}, [&](Value t, ValueRange) {
    Value id = idOf(t), position = v.loadScalar(ends, id);
    v.store(toI32(t), positions, toIndex(position));
    v.store(v.addi(position, v.i32(1)), ends, id);
    return SmallVector<Value>();
  });
}

void ScatterAddEmitter::emitSums(Value row, Value from, Value to, Value column, int64_t columns) {
  int64_t vectors = llvm::divideCeil(columns, v.lanes);
  auto maskOf = [&](int64_t j) { return columns - j * v.lanes >= v.lanes ? Value() : v.maskBelow(v.index(columns - j * v.lanes)); };
  auto offsets = [&](int64_t stride) { return v.muli(v.laneNumbers(), v.i32(stride)); };
  SmallVector<Value> sums = loop(from, to, 1, SmallVector<Value>(vectors, v.splat(v.f32(0))), [&](Value i, ValueRange partial) {
    Value t = toIndex(v.loadScalar(positions, i));
    Value at = v.add(v.mul(t, xStrides[0]), v.mul(column, xStrides[1]));
    SmallVector<Value> next;
    for (int64_t j = 0; j < vectors; ++j) {
      Value place = v.add(at, v.index(j * v.lanes * xStrides[1]));
      next.push_back(v.addf(partial[j], xStrides[1] == 1 ? v.load(x, place, maskOf(j)) : v.gather(x, place, offsets(xStrides[1]), maskOf(j))));
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

LogicalResult emitScatterAddKernel(KernelFrame &frame) { return ScatterAddEmitter(frame, onlyOp<graph::ScatterAddOp>(frame)).emit(); }

} // namespace nano::kernels
