// Loops, outputs and sums of row kernels.
#include "passes/kernels/RowCode.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace nano::kernels {

FailureOr<SmallVector<Value>> RowCode::loop(Value from, Value to, int64_t step, int64_t unroll,
                                            ArrayRef<Value> sums, LoopBody body) {
  auto loop = scf::ForOp::create(v.b, v.loc, from, to, v.index(step), sums);
  if (unroll)
    loop->setAttr("nano.unroll", v.b.getI64IntegerAttr(unroll));
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

LogicalResult RowCode::storeOutputs(ArrayRef<unsigned> outputs, const Position &position) {
  FailureOr<SmallVector<Value>> values = evaluateOutputs(outputs, position);
  if (failed(values))
    return failure();
  for (auto [i, value] : llvm::zip(outputs, *values))
    e.storeOutput(i, value, position);
  return success();
}

Value RowCode::identity(graph::ReduceOp reduce) {
  return v.f32(isSum(reduce) ? 0.0 : -std::numeric_limits<double>::infinity());
}

Value RowCode::combine(graph::ReduceOp reduce, Value a, Value c) {
  return isSum(reduce) ? v.addf(a, c) : v.max(a, c);
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
    next = combine(reduce, sum, a->value);
  }
  sum = e.mask && VectorOps::isVector(next) ? v.select(e.mask, next, sum) : next;
  return success();
}

Value RowCode::combineLanes(graph::ReduceOp reduce, Value vector) {
  return isSum(reduce) ? v.sumLanes(vector) : v.maxLanes(vector);
}

} // namespace nano::kernels
