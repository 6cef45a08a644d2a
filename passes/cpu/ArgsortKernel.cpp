// argsort: the columns of a row in the order of its numbers, the largest first. An iteration is one
// row, sorted by the network of nano_argsort.h, a vector of pairs at a time.
#include "ir/graph/ReduceOps.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/Loops.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorOps.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace nano::kernels {

namespace {

/// Integers that are larger where the numbers are, equal where these are, and largest of a NaN.
Value keysOf(VectorOps &v, Value x) {
  using graph::Predicate;
  if (getElementTypeOrSelf(x).isInteger())
    return x;
  const Value bits = v.bits(x), most = v.i32(INT32_MAX), zero = v.i32(0);
  Value key = v.select(v.compare(Predicate::lt, bits, zero), v.xori(bits, most), bits);
  key = v.select(v.compare(Predicate::eq, x, v.f32(0)), zero, key); // of either sign
  return v.select(v.compare(Predicate::ne, x, x), most, key);
}

/// Rows of a matrix, a vector of neighbouring columns at a time.
struct Rows {
  Value flat;
  SmallVector<int64_t> strides;

  Rows(KernelFrame &frame, Value argument)
      : flat(frame.flat(argument)), strides(stridesOf(cast<MemRefType>(argument.getType()))) {}
  Value place(VectorOps &v, Value row, Value column) const {
    return v.add(v.mul(row, strides[0]), v.mul(column, strides[1]));
  }
  Value offsets(VectorOps &v) const { return v.muli(v.laneNumbers(), v.i32(strides[1])); }
};

} // namespace

LogicalResult emitArgsortKernel(KernelFrame &frame) {
  auto op = onlyOp<graph::ArgsortOp>(frame);
  if (failed(verifyNotInPlace(frame)))
    return failure();
  OpBuilder &b = frame.builder;
  VectorOps v(b, frame.loc, frame.options.lanes);
  const Rows x(frame, argumentOf(frame, op.getX()));
  SmallVector<Rows> results;
  for (Value argument : argumentsOfResult(frame, op.getResult()))
    results.emplace_back(frame, argument);
  const int64_t columns = op.getX().getType().getDimSize(1), levels = llvm::Log2_64_Ceil(columns),
                pairs = int64_t(1) << std::max<int64_t>(0, levels - 1);
  const Type i32 = b.getI32Type();
  const Value keys = frame.allocate(columns, i32), order = frame.allocate(columns, i32);

  constexpr int64_t pairsOf10Microseconds = 4096;
  frame.iterations = op.getX().getType().getDimSize(0);
  frame.grain =
      std::max<int64_t>(1, pairsOf10Microseconds / (pairs * std::max<int64_t>(1, levels * levels)));
  const Value zero = v.index(0);
  auto loop = [&](Value to, int64_t step, llvm::function_ref<void(Value)> body) {
    emitLoop(b, frame.loc, zero, to, step, {}, [&](Value i, ValueRange) {
      body(i);
      return SmallVector<Value>();
    });
  };
  auto numberOf = [&](Value index) {
    return arith::IndexCastOp::create(b, frame.loc, i32, index).getResult();
  };
  /// Goes over a row's columns: the first one of a vector, and which of its lanes there are.
  auto overColumns = [&](llvm::function_ref<void(Value, Value)> body) {
    loop(v.index(columns), v.lanes,
         [&](Value first) { body(first, v.maskBelow(v.sub(v.index(columns), first))); });
  };

  emitLoop(b, frame.loc, frame.begin, frame.end, 1, {}, [&](Value row, ValueRange) {
    overColumns([&](Value first, Value mask) {
      const Value at = x.place(v, row, first);
      const Value numbers =
          x.strides[1] == 1 ? v.load(x.flat, at, mask) : v.gather(x.flat, at, x.offsets(v), mask);
      v.store(keysOf(v, numbers), keys, first, mask);
      v.store(v.addi(v.splat(numberOf(first)), v.laneNumbers()), order, first, mask);
    });
    // Runs of 2^level sorted columns become runs of twice as many.
    loop(v.index(levels), 1, [&](Value level) {
      loop(v.add(level, v.index(1)), 1, [&](Value stage) {
        const Value distance = v.shiftLeft(v.i32(1), numberOf(v.sub(level, stage)));
        const Value turned = v.subi(v.addi(distance, distance), v.i32(1));
        const Value across =
            v.select(v.compare(graph::Predicate::eq, numberOf(stage), v.i32(0)), turned, distance);
        const Value upper = v.subi(v.i32(0), distance);
        loop(v.index(pairs), v.lanes, [&](Value pair) {
          const Value number = v.addi(v.splat(numberOf(pair)), v.laneNumbers());
          const Value low = v.addi(number, v.andi(number, upper)), high = v.xori(low, across);
          const Value mask = v.compare(graph::Predicate::lt, high, v.i32(columns));
          const Value lowKey = v.gather(keys, zero, low, mask),
                      highKey = v.gather(keys, zero, high, mask),
                      lowColumn = v.gather(order, zero, low, mask),
                      highColumn = v.gather(order, zero, high, mask);
          const Value isTie = v.andi(v.compare(graph::Predicate::eq, highKey, lowKey),
                                     v.compare(graph::Predicate::lt, highColumn, lowColumn));
          const Value changes =
              v.andi(mask, v.ori(isTie, v.compare(graph::Predicate::gt, highKey, lowKey)));
          v.scatter(highKey, keys, zero, low, changes);
          v.scatter(lowKey, keys, zero, high, changes);
          v.scatter(highColumn, order, zero, low, changes);
          v.scatter(lowColumn, order, zero, high, changes);
        });
      });
    });
    overColumns([&](Value first, Value mask) {
      const Value sorted = v.load(order, first, mask);
      for (const Rows &y : results) {
        const Value at = y.place(v, row, first);
        if (y.strides[1] == 1)
          v.store(sorted, y.flat, at, mask);
        else
          v.scatter(sorted, y.flat, at, y.offsets(v), mask);
      }
    });
    return SmallVector<Value>();
  });
  return success();
}

} // namespace nano::kernels
