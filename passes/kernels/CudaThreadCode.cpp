// Registers, comparisons and calls of one GPU thread's code.
#include "passes/kernels/CudaThreadCode.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace nano::kernels {

Value CudaThreadCode::called(StringRef name, const Twine &callee, Type result,
                             ValueRange operands) {
  return named(name, [&] { return frame.callDevice(v.b, callee.str(), result, operands); });
}

Value CudaThreadCode::less(Value a, Value c) {
  return arith::CmpIOp::create(v.b, v.loc, arith::CmpIPredicate::slt, a, c);
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

} // namespace nano::kernels
