// sparsemax: rows projected onto the simplex. An iteration is one row, whose threshold is found as
// nano_sparsemax.h says it.
#include "ir/graph/RowFunctionOps.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/Loops.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorOps.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace nano::kernels {

LogicalResult emitSparsemaxKernel(KernelFrame &frame) {
  using graph::Predicate;
  auto op = onlyOp<graph::SparsemaxOp>(frame);
  if (failed(verifyNotInPlace(frame)))
    return failure();
  OpBuilder &b = frame.builder;
  const Location loc = frame.loc;
  VectorOps v(b, loc, frame.options.lanes);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const int64_t columns = op.getX().getType().getDimSize(1);
  // In vectors, of whose last one what is behind the row is never part of a sum.
  const Value row = frame.allocate(int64_t(llvm::alignTo(columns, v.lanes)), b.getF32Type());

  constexpr int64_t numbersOf10Microseconds = 8192;
  frame.iterations = op.getX().getType().getDimSize(0);
  frame.grain = std::max<int64_t>(1, numbersOf10Microseconds / columns);
  auto overColumns = [&](int64_t step, ValueRange inits, LoopBody body) {
    return emitLoop(b, loc, v.index(0), v.index(columns), step, inits, body);
  };
  const int64_t blockSize = 64 * v.lanes; // sums of sums, which lose less than one of many numbers
  auto maskAt = [&](Value first) { return v.maskBelow(v.sub(v.index(columns), first)); };
  /// A vector of neighbouring columns of a matrix.
  struct Place {
    Value flat, at, offsets;
  };
  auto placeOf = [&](Value argument, Value iteration, Value first) {
    const SmallVector<int64_t> strides = stridesOf(cast<MemRefType>(argument.getType()));
    return Place{frame.flat(argument),
                 v.add(v.mul(iteration, strides[0]), v.mul(first, strides[1])),
                 strides[1] == 1 ? Value() : v.muli(v.laneNumbers(), v.i32(strides[1]))};
  };
  const Value x = argumentOf(frame, op.getX());
  const SmallVector<Value> results = argumentsOfResult(frame, op.getResult());

  emitLoop(b, loc, frame.begin, frame.end, 1, {}, [&](Value iteration, ValueRange) {
    const Value lowest = v.splat(v.f32(-infinity)), none = v.splat(v.f32(0));
    const Value lanesLargest = overColumns(v.lanes, {lowest}, [&](Value first, ValueRange carried) {
      const Value mask = maskAt(first);
      const Place from = placeOf(x, iteration, first);
      const Value numbers = v.select(mask,
                                     from.offsets ? v.gather(from.flat, from.at, from.offsets, mask)
                                                  : v.load(from.flat, from.at, mask),
                                     lowest);
      v.store(numbers, row, first);
      return SmallVector<Value>{v.max(carried[0], numbers)};
    })[0];
    const Value most = v.maxLanes(lanesLargest);
    const Value largest = v.select(v.compare(Predicate::eq, most, v.f32(infinity)),
                                   v.f32(std::numeric_limits<double>::quiet_NaN()), most);

    // Newton's steps, until one leaves nothing out.
    enum { threshold, behind, count, rest };
    auto aboveOf = [&](Value first, ValueRange found) {
      const Value above = v.subf(v.subf(v.load(row, first), largest), found[threshold]);
      return v.subf(above, found[behind]);
    };
    const Value zero = v.f32(0), inits[] = {v.f32(-1), zero, v.f32(double(columns) + 1), zero};
    const SmallVector<Value> found = emitWhile(b, loc, inits, [&](ValueRange last, Value &goesOn) {
      const SmallVector<Value> sums =
          overColumns(blockSize, {none, none}, [&](Value block, ValueRange all) {
            const Value end =
                arith::MinSIOp::create(b, loc, v.add(block, v.index(blockSize)), v.index(columns));
            const SmallVector<Value> own = emitLoop(
                b, loc, block, end, v.lanes, {none, none}, [&](Value first, ValueRange sums) {
                  const Value above = aboveOf(first, last);
                  const Value isPart = v.compare(Predicate::gt, above, none);
                  return SmallVector<Value>{
                      v.addf(sums[0], v.select(isPart, above, none)),
                      v.addf(sums[1], v.select(isPart, v.splat(v.f32(1)), none))};
                });
            return SmallVector<Value>{v.addf(all[0], own[0]), v.addf(all[1], own[1])};
          });
      const Value counted = v.sumLanes(sums[1]);
      const Value exceeds = v.divf(v.subf(v.sumLanes(sums[0]), v.f32(1)), counted);
      goesOn = v.compare(Predicate::lt, counted, last[count]);
      const Value step = v.addf(last[behind], exceeds), next = v.addf(last[threshold], step);
      const Value nextBehind = v.subf(step, v.subf(next, last[threshold]));
      return SmallVector<Value>{v.select(goesOn, next, last[threshold]),
                                v.select(goesOn, nextBehind, last[behind]), counted, exceeds};
    });
    overColumns(v.lanes, {}, [&](Value first, ValueRange) {
      const Value mask = maskAt(first);
      const Value y = v.max(v.subf(aboveOf(first, found), found[rest]), zero);
      for (Value result : results) {
        const Place to = placeOf(result, iteration, first);
        if (to.offsets)
          v.scatter(y, to.flat, to.at, to.offsets, mask);
        else
          v.store(y, to.flat, to.at, mask);
      }
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  return success();
}

} // namespace nano::kernels
