// grouped_matmul: rows times their group's matrix, four rows of one group at a time, so that a
// matrix is read once for them. An iteration is four rows. grouped_outer: rows of a group's matrix
// of sums, an iteration some of them; columns by vectors.
#include "ir/graph/MatmulOps.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/emit/Loops.h"
#include "passes/emit/TaskOperands.h"
#include "passes/emit/VectorRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace nano::kernels {

namespace {

constexpr int64_t rowsAtATime = 4, columnsAtATime = 4; ///< of columns: vectors, or numbers
constexpr int64_t productsOf10Microseconds = 131072;

/// What both kernels have in common: groups, loops and results.
class GroupedEmitter {
public:
  GroupedEmitter(KernelFrame &frame, Value endsOperand, Value result, int64_t rows)
      : v(frame.builder, frame.loc, frame.options.lanes), b(frame.builder), loc(frame.loc),
        rows(rows), groups(cast<RankedTensorType>(endsOperand.getType()).getDimSize(0)),
        ends(frame, argumentOf(frame, endsOperand)) {
    for (Value argument : argumentsOfResult(frame, result))
      results.emplace_back(frame, argument);
  }

  SmallVector<Value> loop(Value from, Value to, int64_t step, ValueRange inits, LoopBody body) {
    return emitLoop(b, loc, from, to, step, inits, body);
  }
  void unless(Value condition, llvm::function_ref<void()> whenFalse,
              llvm::function_ref<void()> whenTrue) {
    auto ifOp = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    whenTrue();
    b.setInsertionPointToStart(ifOp.elseBlock());
    whenFalse();
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  /// Behind which row a group ends, as it stands in memory.
  Value endOf(Value group) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                      v.loadScalar(ends.flat, ends.place(v, group)));
  }
  /// The group of a row; as many as there are for none.
  Value groupOf(Value row) {
    return loop(
        v.index(0), v.index(groups), 1, v.index(groups), [&](Value group, ValueRange found) {
          Value none = compare(arith::CmpIPredicate::eq, found[0], v.index(groups));
          Value ends = compare(arith::CmpIPredicate::sgt, endOf(group), row);
          Value isFirst = arith::AndIOp::create(b, loc, none, ends);
          return SmallVector<Value>{arith::SelectOp::create(b, loc, isFirst, group, found[0])};
        })[0];
  }
  /// A group's first row, and the row behind its last.
  SmallVector<Value> rowsOf(Value group) {
    return loop(v.index(0), v.add(group, v.index(1)), 1, {v.index(0), v.index(0)},
                [&](Value each, ValueRange range) {
                  Value end = arith::MinSIOp::create(b, loc, endOf(each), v.index(rows));
                  return SmallVector<Value>{range[1],
                                            arith::MaxSIOp::create(b, loc, range[1], end)};
                });
  }
  /// The lanes from `begin` on that are below `end`; none where all are.
  Value maskFrom(int64_t begin, int64_t end) {
    return end - begin >= v.lanes ? Value() : v.maskBelow(v.index(end - begin));
  }
  /// Of vectors of `columns` columns, some at a time: f(first, how many, mask of the last).
  void overVectors(int64_t columns, llvm::function_ref<void(Value, int64_t, Value)> f) {
    const int64_t step = columnsAtATime * v.lanes, whole = columns / step * step;
    if (whole > 0)
      loop(v.index(0), v.index(whole), step, {}, [&](Value first, ValueRange) {
        f(first, columnsAtATime, Value());
        return SmallVector<Value>();
      });
    if (whole < columns) {
      const int64_t count = llvm::divideCeil(columns - whole, v.lanes);
      f(v.index(whole), count, maskFrom(whole + (count - 1) * v.lanes, columns));
    }
  }
  void store(Value value, ArrayRef<Value> at, Value mask) {
    for (const VectorRows &result : results)
      result.store(v, value, result.place(v, at), mask);
  }

  VectorOps v;
  OpBuilder &b;
  Location loc;
  int64_t rows, groups;
  VectorRows ends;
  SmallVector<VectorRows> results;
};

class GroupedMatmulEmitter : GroupedEmitter {
public:
  GroupedMatmulEmitter(KernelFrame &frame, graph::GroupedMatmulOp op)
      : GroupedEmitter(frame, op.getEnds(), op.getResult(), op.getX().getType().getDimSize(0)),
        x(frame, argumentOf(frame, op.getX())), w(frame, argumentOf(frame, op.getW())),
        inner(op.getX().getType().getDimSize(1)), columns(op.getResult().getType().getDimSize(1)),
        transposed(op.getTranspose()) {}

  void emit(KernelFrame &frame) {
    frame.iterations = llvm::divideCeil(rows, rowsAtATime);
    frame.grain = std::max<int64_t>(1, productsOf10Microseconds / (rowsAtATime * inner * columns));
    loop(frame.begin, frame.end, 1, {}, [&](Value iteration, ValueRange) {
      Value row = v.mul(iteration, rowsAtATime), behind = v.add(row, v.index(rowsAtATime));
      Value end = arith::MinSIOp::create(b, loc, behind, v.index(rows));
      Value group = groupOf(row), last = groupOf(v.sub(end, v.index(1)));
      Value isOne = arith::AndIOp::create(
          b, loc, compare(arith::CmpIPredicate::eq, group, last),
          arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::slt, group, v.index(groups)),
                                compare(arith::CmpIPredicate::eq, end, behind)));
      unless(
          isOne,
          [&] {
            loop(row, end, 1, {}, [&](Value each, ValueRange) {
              Value own = groupOf(each);
              unless(
                  compare(arith::CmpIPredicate::slt, own, v.index(groups)), [&] { clear(each); },
                  [&] { multiply(each, 1, own); });
              return SmallVector<Value>();
            });
          },
          [&] { multiply(row, rowsAtATime, group); });
      return SmallVector<Value>();
    });
  }

private:
  void clear(Value row) {
    overVectors(columns, [&](Value first, int64_t count, Value mask) {
      for (int64_t i = 0; i < count; ++i)
        store(v.splat(v.f32(0)), {row, v.add(first, v.index(i * v.lanes))},
              i + 1 == count ? mask : Value());
    });
  }
  /// `count` rows of a group.
  void multiply(Value row, int64_t count, Value group) {
    SmallVector<Value> all;
    for (int64_t i = 0; i < count; ++i)
      all.push_back(v.add(row, v.index(i)));
    if (transposed)
      multiplyTransposed(all, group);
    else
      overVectors(columns, [&](Value first, int64_t vectors, Value mask) {
        multiplyVectors(all, group, first, vectors, mask);
      });
  }
  /// Sums over vectors of neighbours of both, some columns at a time.
  void multiplyTransposed(ArrayRef<Value> all, Value group) {
    const int64_t whole = columns / columnsAtATime * columnsAtATime;
    if (whole > 0)
      loop(v.index(0), v.index(whole), columnsAtATime, {}, [&](Value column, ValueRange) {
        multiplyColumns(all, group, column, columnsAtATime);
        return SmallVector<Value>();
      });
    if (whole < columns)
      multiplyColumns(all, group, v.index(whole), columns - whole);
  }
  void multiplyColumns(ArrayRef<Value> all, Value group, Value column, int64_t count) {
    SmallVector<Value> each;
    for (int64_t i = 0; i < count; ++i)
      each.push_back(v.add(column, v.index(i)));
    auto added = [&](Value k, ValueRange sums, Value mask) {
      SmallVector<Value> left, right, next;
      for (Value row : all)
        left.push_back(x.load(v, x.place(v, {row, k}), mask));
      for (Value own : each)
        right.push_back(w.load(v, w.place(v, {group, own, k}), mask));
      for (auto [i, factor] : llvm::enumerate(left))
        for (auto [j, other] : llvm::enumerate(right))
          next.push_back(v.fma(factor, other, sums[i * right.size() + j]));
      return next;
    };
    SmallVector<Value> sums(all.size() * each.size(), v.splat(v.f32(0)));
    const int64_t whole = inner / v.lanes * v.lanes;
    if (whole > 0)
      sums = loop(v.index(0), v.index(whole), v.lanes, sums,
                  [&](Value k, ValueRange partial) { return added(k, partial, Value()); });
    if (whole < inner)
      sums = added(v.index(whole), sums, maskFrom(whole, inner));
    for (auto [i, row] : llvm::enumerate(all))
      for (auto [j, own] : llvm::enumerate(each)) {
        Value sum = v.sumLanes(sums[i * each.size() + j]);
        for (const VectorRows &result : results)
          v.store(sum, result.flat, result.place(v, {row, own}));
      }
  }
  /// Sums of rows of the matrix with a number each.
  void multiplyVectors(ArrayRef<Value> all, Value group, Value first, int64_t vectors,
                       Value lastMask) {
    SmallVector<Value> at;
    for (int64_t i = 0; i < vectors; ++i)
      at.push_back(v.add(first, v.index(i * v.lanes)));
    auto mask = [&](size_t i) { return i + 1 == at.size() ? lastMask : Value(); };
    const SmallVector<Value> zeros(all.size() * at.size(), v.splat(v.f32(0)));
    const SmallVector<Value> sums =
        loop(v.index(0), v.index(inner), 1, zeros, [&](Value k, ValueRange partial) {
          SmallVector<Value> right, next;
          for (auto [i, column] : llvm::enumerate(at))
            right.push_back(w.load(v, w.place(v, {group, k, column}), mask(i)));
          for (auto [i, row] : llvm::enumerate(all)) {
            Value factor = v.splat(v.loadScalar(x.flat, x.place(v, {row, k})));
            for (auto [j, other] : llvm::enumerate(right))
              next.push_back(v.fma(factor, other, partial[i * right.size() + j]));
          }
          return next;
        });
    for (auto [i, row] : llvm::enumerate(all))
      for (auto [j, column] : llvm::enumerate(at))
        store(sums[i * at.size() + j], {row, column}, mask(j));
  }

  VectorRows x, w;
  int64_t inner, columns;
  bool transposed;
};

class GroupedOuterEmitter : GroupedEmitter {
public:
  GroupedOuterEmitter(KernelFrame &frame, graph::GroupedOuterOp op)
      : GroupedEmitter(frame, op.getEnds(), op.getResult(), op.getA().getType().getDimSize(0)),
        first(frame, argumentOf(frame, op.getA())), second(frame, argumentOf(frame, op.getB())),
        inner(op.getA().getType().getDimSize(1)), columns(op.getB().getType().getDimSize(1)) {}

  void emit(KernelFrame &frame) {
    const int64_t atATime = inner % rowsAtATime == 0 ? rowsAtATime
                            : inner % 2 == 0         ? 2
                                                     : 1,
                  ofGroup = inner / atATime;
    frame.iterations = groups * ofGroup;
    frame.grain = std::max<int64_t>(1, productsOf10Microseconds * groups /
                                           std::max<int64_t>(1, rows * atATime * columns));
    loop(frame.begin, frame.end, 1, {}, [&](Value iteration, ValueRange) {
      Value group = v.div(iteration, ofGroup), k = v.mul(v.rem(iteration, ofGroup), atATime);
      const SmallVector<Value> range = rowsOf(group);
      SmallVector<Value> all;
      for (int64_t i = 0; i < atATime; ++i)
        all.push_back(v.add(k, v.index(i)));
      overVectors(columns, [&](Value column, int64_t vectors, Value mask) {
        addUp(group, range, all, column, vectors, mask);
      });
      return SmallVector<Value>();
    });
  }

private:
  void addUp(Value group, ArrayRef<Value> range, ArrayRef<Value> all, Value column, int64_t vectors,
             Value lastMask) {
    SmallVector<Value> at;
    for (int64_t i = 0; i < vectors; ++i)
      at.push_back(v.add(column, v.index(i * v.lanes)));
    auto mask = [&](size_t i) { return i + 1 == at.size() ? lastMask : Value(); };
    const SmallVector<Value> zeros(all.size() * at.size(), v.splat(v.f32(0)));
    const SmallVector<Value> sums =
        loop(range[0], range[1], 1, zeros, [&](Value row, ValueRange partial) {
          SmallVector<Value> right, next;
          for (auto [i, each] : llvm::enumerate(at))
            right.push_back(second.load(v, second.place(v, {row, each}), mask(i)));
          for (auto [i, k] : llvm::enumerate(all)) {
            Value factor = v.splat(v.loadScalar(first.flat, first.place(v, {row, k})));
            for (auto [j, other] : llvm::enumerate(right))
              next.push_back(v.fma(factor, other, partial[i * right.size() + j]));
          }
          return next;
        });
    for (auto [i, k] : llvm::enumerate(all))
      for (auto [j, each] : llvm::enumerate(at))
        store(sums[i * at.size() + j], {group, k, each}, mask(j));
  }

  VectorRows first, second;
  int64_t inner, columns;
};

} // namespace

LogicalResult emitGroupedMatmulKernel(KernelFrame &frame) {
  if (failed(verifyNotInPlace(frame)))
    return failure();
  OpBuilder::InsertionGuard guard(frame.builder);
  GroupedMatmulEmitter(frame, onlyOp<graph::GroupedMatmulOp>(frame)).emit(frame);
  return success();
}

LogicalResult emitGroupedOuterKernel(KernelFrame &frame) {
  if (failed(verifyNotInPlace(frame)))
    return failure();
  OpBuilder::InsertionGuard guard(frame.builder);
  GroupedOuterEmitter(frame, onlyOp<graph::GroupedOuterOp>(frame)).emit(frame);
  return success();
}

} // namespace nano::kernels
