// Loops, outputs and sums of row kernels.
#include "passes/row/RowCode.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/kernel/Unrolled.h"
#include "passes/row/RowForm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace nano::kernels {

FailureOr<SmallVector<Value>> RowCode::loop(Value from, Value to, int64_t step, int64_t unroll,
                                            ArrayRef<Value> sums, LoopBody body) {
  auto loop = scf::ForOp::create(v.b, v.loc, from, to, v.index(step), sums);
  if (unroll)
    loop->setAttr(kernel::unrollAttrName, v.b.getI64IntegerAttr(unroll));
  e.open(loop, loop.getBody());
  SmallVector<Value> next(loop.getRegionIterArgs());
  LogicalResult result = body({loop.getInductionVar(), e.depth()}, next);
  e.moveTo(e.depth());
  if (succeeded(result) && !sums.empty())
    scf::YieldOp::create(v.b, v.loc, next);
  e.close();
  v.b.setInsertionPointAfter(loop);
  if (failed(result))
    return failure();
  return SmallVector<Value>(loop.getResults());
}

Value RowCode::numberOf(Position row) {
  llvm::erase_if(row, [](const Digit &digit) { return digit.size == 1; });
  return e.merge(row).at.value;
}

FailureOr<SmallVector<Value>> RowCode::evaluateOutputs(ArrayRef<unsigned> outputs,
                                                       const Position &position) {
  SmallVector<Value> values;
  for (unsigned i : outputs) {
    FailureOr<Computed> computed = e.evaluate(yielded[i], position);
    if (failed(computed))
      return failure();
    values.push_back(computed->value);
  }
  return values;
}

LogicalResult RowCode::when(Value condition, Body body, Body otherwise) {
  auto branch = scf::IfOp::create(v.b, v.loc, condition, static_cast<bool>(otherwise));
  for (auto [block, code] :
       {std::pair(branch.thenBlock(), body), std::pair(branch.elseBlock(), otherwise)}) {
    if (!code)
      continue;
    e.open(branch, block);
    LogicalResult result = code();
    e.close();
    if (failed(result))
      return failure();
  }
  v.b.setInsertionPointAfter(branch);
  return success();
}

LogicalResult RowCode::storeOutputs(ArrayRef<unsigned> outputs, const Position &position) {
  graph::SelectOp choice;
  if (!position.empty() && position.back().coordinate.kind == Coordinate::Kind::Lanes)
    for (unsigned i : outputs)
      if (!choice)
        choice = columnChoice(yielded[i], position.back().size);
  if (!choice)
    return storeAllOutputs(outputs, position);
  FailureOr<Computed> target = e.evaluate(choice.getRhs(), position);
  if (failed(target))
    return failure();
  e.moveTo(e.depth());
  Value column = arith::IndexCastOp::create(v.b, v.loc, v.b.getIndexType(), target->value);
  Value isHere =
      arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::ult,
                            v.sub(column, position.back().coordinate.at.value), v.index(v.lanes));
  auto store = [&] {
    // Known from here on: what only this branch needs stands in it.
    Position inside = position;
    inside.back().coordinate.at.depth = e.depth();
    return storeAllOutputs(outputs, inside);
  };
  return when(isHere, store, [&] {
    e.secondOf = choice;
    LogicalResult result = store();
    e.secondOf = {};
    return result;
  });
}

Position RowCode::pickedAt(graph::ReduceOp reduce, const Position &row, Index column) {
  Position position = row;
  position.push_back({elementsOfEach(reduce), RowEvaluator::uniform(column)});
  return position;
}

FailureOr<Computed> RowCode::targetOf(graph::ReduceOp reduce, const Position &row) {
  return e.evaluate(pickedBy(reduce).getRhs(), pickedAt(reduce, row, e.constant(0)));
}

LogicalResult RowCode::loadTargets(ArrayRef<graph::ReduceOp> reduces, const Position &row) {
  for (graph::ReduceOp reduce : reduces)
    if (failed(targetOf(reduce, row)))
      return failure();
  return success();
}

FailureOr<Value> RowCode::picked(graph::ReduceOp reduce, const Position &row) {
  graph::SelectOp select = pickedBy(reduce);
  FailureOr<Computed> target = targetOf(reduce, row);
  if (failed(target))
    return failure();
  e.moveTo(e.depth());
  Value column = arith::IndexCastOp::create(v.b, v.loc, v.b.getIndexType(), target->value);
  Value isInside = arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::ult, column,
                                         v.index(elementsOfEach(reduce)));
  Value place = arith::SelectOp::create(v.b, v.loc, isInside, column, v.index(0));
  FailureOr<Computed> value =
      e.evaluate(select.getOnTrue(), pickedAt(reduce, row, {place, e.depth()}));
  if (failed(value))
    return failure();
  e.moveTo(e.depth());
  return v.roundTo(elementType(reduce), v.select(isInside, value->value, v.f32(0)));
}

LogicalResult RowCode::pickAll(ArrayRef<graph::ReduceOp> reduces, const Position &row) {
  for (graph::ReduceOp reduce : reduces) {
    FailureOr<Value> value = picked(reduce, row);
    if (failed(value))
      return failure();
    e.rowScalars[reduce.getResult()] = {{*value, e.depth()}, numberOf(row)};
  }
  return success();
}

LogicalResult RowCode::storeAllOutputs(ArrayRef<unsigned> outputs, const Position &position) {
  FailureOr<SmallVector<Value>> values = evaluateOutputs(outputs, position);
  if (failed(values))
    return failure();
  for (auto [i, value] : llvm::zip(outputs, *values))
    if (failed(store(i, value, position)))
      return failure();
  return success();
}

graph::SelectOp RowCode::changeOf(unsigned output) {
  // What is gathered in shared memory is stored as a whole.
  auto select = yielded[output].getDefiningOp<graph::SelectOp>();
  auto old = select ? dyn_cast<BlockArgument>(select.getOnFalse()) : BlockArgument();
  const bool isInPlace = old && !e.tiles.contains(output) &&
                         frame.task.getIns()[old.getArgNumber()] == frame.task.getOuts()[output];
  return isInPlace ? select : graph::SelectOp();
}

LogicalResult RowCode::store(unsigned output, Value value, const Position &position) {
  graph::SelectOp change = changeOf(output);
  if (change && change == e.secondOf)
    return success();
  if (!change) {
    e.storeOutput(output, value, position);
    return success();
  }
  FailureOr<Computed> lhs = e.evaluate(change.getLhs(), position),
                      rhs = e.evaluate(change.getRhs(), position);
  if (failed(lhs) || failed(rhs))
    return failure();
  e.moveTo(e.depth());
  Value changes = v.compare(change.getPredicate(), lhs->value, rhs->value);
  if (VectorOps::isVector(changes))
    changes = v.anyLane(changes);
  return when(changes, [&] {
    e.storeOutput(output, value, position);
    return success();
  });
}

Value RowCode::identity(graph::ReduceOp reduce) {
  if (!isa<FloatType>(elementType(reduce)))
    return v.i32(std::numeric_limits<int32_t>::min());
  return v.f32(isSum(reduce) ? 0.0 : -std::numeric_limits<double>::infinity());
}

LogicalResult RowCode::addTo(Value &sum, graph::ReduceOp reduce, const Position &position) {
  Value x = reduce.getX(), next;
  auto product = x.getDefiningOp<graph::MulOp>();
  bool contract = product && product->hasOneUse() && elementType(reduce).isF32() && isSum(reduce);
  FailureOr<Computed> a = e.evaluate(contract ? product.getLhs() : x, position);
  if (failed(a))
    return failure();
  if (contract) {
    FailureOr<Computed> c = e.evaluate(product.getRhs(), position);
    if (failed(c))
      return failure();
    next = v.fma(a->value, c->value, sum);
  } else {
    next = combine(isSum(reduce), sum, a->value);
  }
  sum = e.mask && VectorOps::isVector(next) ? v.select(e.mask, next, sum) : next;
  return success();
}

//===- Row reductions -----------------------------------------------------===//

static constexpr double infinity = std::numeric_limits<double>::infinity();

SmallVector<Value> RowCode::carried(ArrayRef<graph::ReduceOp> reduces, bool wide) {
  // A GPU's thread has its vector's lanes in as many registers: finding the largest of them costs
  // less than a choice in each.
  const bool isOfAll = frame.options.onGpu;
  SmallVector<Value> numbers;
  auto carry = [&](Value number, bool isWide) {
    numbers.push_back(isWide ? v.splat(number) : number);
  };
  for (graph::ReduceOp reduce : reduces) {
    if (!isLogSumExp(reduce)) {
      carry(identity(reduce), wide);
      continue;
    }
    // The largest so far begins with a finite number, so that its difference to −∞ is no NaN.
    carry(v.f32(-std::numeric_limits<float>::max()), wide && !isOfAll);
    carry(v.f32(0), wide);
  }
  return numbers;
}

/// One exponential an element: with d = x − m, the sum becomes s·e^−d + 1 where x is the largest
/// now, else s + e^d. Where m is of all lanes, it first becomes the largest now, n, and then the
/// sum s·e^(m − n) + e^(x − n).
LogicalResult RowCode::addExponential(Value &largest, Value &sum, graph::ReduceOp reduce,
                                      const Position &position) {
  FailureOr<Computed> computed = e.evaluate(reduce.getX(), position);
  if (failed(computed))
    return failure();
  Value x = computed->value, one = v.f32(1);
  if (e.mask && VectorOps::isVector(sum))
    x = v.select(e.mask, x, v.f32(-infinity));
  if (VectorOps::isVector(x) && !VectorOps::isVector(largest)) {
    Value before = largest;
    largest = v.max(before, v.maxLanes(x));
    sum = v.fma(sum, v.expBelow(v.subf(before, largest)), v.expBelow(v.subf(x, largest)));
    return success();
  }
  Value difference = v.subf(x, largest);
  Value isLarger = v.compare(graph::Predicate::gt, difference, v.f32(0));
  Value distance = math::AbsFOp::create(v.b, v.loc, difference);
  Value factor = v.expBelow(v.negf(distance));
  sum = v.fma(v.select(isLarger, sum, one), factor, v.select(isLarger, one, sum));
  largest = v.max(largest, x);
  return success();
}

LogicalResult RowCode::addTo(MutableArrayRef<Value> sums, ArrayRef<graph::ReduceOp> reduces,
                             const Position &position) {
  size_t at = 0;
  for (graph::ReduceOp reduce : reduces) {
    bool two = isLogSumExp(reduce);
    if (failed(two ? addExponential(sums[at], sums[at + 1], reduce, position)
                   : addTo(sums[at], reduce, position)))
      return failure();
    at += two ? 2 : 1;
  }
  return success();
}

Value RowCode::combineAll(bool isSum, SmallVector<Value> parts) {
  while (parts.size() > 1) {
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = combine(isSum, parts[2 * i], parts[2 * i + 1]);
    if (parts.size() % 2 != 0)
      parts[parts.size() / 2] = parts.back();
    parts.truncate((parts.size() + 1) / 2);
  }
  return parts.front();
}

SmallVector<Value> RowCode::totals(ArrayRef<graph::ReduceOp> reduces, ArrayRef<Value> parts,
                                   Across across) {
  size_t width = reduces.size() + llvm::count_if(reduces, isLogSumExp), at = 0;
  auto next = [&] {
    SmallVector<Value> numbers;
    for (size_t i = at; i < parts.size(); i += width)
      numbers.push_back(parts[i]);
    ++at;
    return numbers;
  };
  SmallVector<Value> results;
  for (graph::ReduceOp reduce : reduces) {
    if (!isLogSumExp(reduce)) {
      results.push_back(across(isSum(reduce), combineAll(isSum(reduce), next())));
      continue;
    }
    SmallVector<Value> largests = next(), sums = next();
    Value largest = across(false, combineAll(false, largests));
    for (auto [sum, own] : llvm::zip_equal(sums, largests))
      sum = v.mulf(sum, v.expBelow(v.subf(own, largest)));
    Value sum = across(true, combineAll(true, sums));
    // ∞ − ∞ has made the sum a NaN.
    Value isInfinite = v.compare(graph::Predicate::eq, largest, v.f32(infinity));
    results.push_back(v.select(isInfinite, largest, v.addf(largest, v.log(sum))));
  }
  return results;
}

} // namespace nano::kernels
