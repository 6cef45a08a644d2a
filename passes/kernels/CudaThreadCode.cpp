// Branches, loops, registers and partial sums of one GPU thread's code.
#include "passes/kernels/CudaThreadCode.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace nano::kernels {

Value CudaThreadCode::called(StringRef name, const Twine &callee, Type result,
                             ValueRange operands) {
  return named(name, [&] { return frame.callDevice(v.b, callee.str(), result, operands); });
}

LogicalResult CudaThreadCode::when(Value condition, Body body, Body otherwise) {
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

FailureOr<SmallVector<Value>> CudaThreadCode::loop(Value from, Value to, int64_t step,
                                                   int64_t unroll, ArrayRef<Value> sums,
                                                   LoopBody body) {
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

Value CudaThreadCode::less(Value a, Value c) {
  return arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::ult, a, c);
}

Value CudaThreadCode::isZero(Value number) {
  return arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::eq, number, v.index(0));
}

Value CudaThreadCode::registers(Type element, int64_t count) {
  return memref::AllocaOp::create(v.b, v.loc, MemRefType::get({count}, v.vectorOf(element)));
}

void CudaThreadCode::storeRegister(Value value, Value memory, Value slot) {
  Type element = getElementTypeOrSelf(cast<MemRefType>(memory.getType()).getElementType());
  memref::StoreOp::create(v.b, v.loc, v.narrowed(v.splat(value), element), memory, slot);
}

Value CudaThreadCode::identity(graph::ReduceOp reduce) {
  return v.f32(isSum(reduce) ? 0.0 : -std::numeric_limits<double>::infinity());
}

Value CudaThreadCode::combine(graph::ReduceOp reduce, Value a, Value c) {
  return isSum(reduce) ? v.addf(a, c) : v.max(a, c);
}

LogicalResult CudaThreadCode::addTo(Value &sum, graph::ReduceOp reduce, const Position &position) {
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

} // namespace nano::kernels
