// The `kernel` dialect in C++: see KernelOps.td for what its ops mean.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/kernel/KernelOpsDialect.h.inc"
#include "ir/kernel/KernelOpsEnums.h.inc"

#include "ir/kernel/KernelAttrInterfaces.h.inc"

namespace nano::kernel {

/// What an access does to the memory.
inline bool reads(Access access) { return access != Access::write; }
inline bool writes(Access access) { return access != Access::read; }
/// The access of what is read, or written, or both.
inline Access accessOf(bool isRead, bool isWritten) {
  return isRead && isWritten ? Access::read_write : isWritten ? Access::write : Access::read;
}

} // namespace nano::kernel

#define GET_ATTRDEF_CLASSES
#include "ir/kernel/KernelOpsAttrs.h.inc"
#define GET_OP_CLASSES
#include "ir/kernel/KernelOps.h.inc"

namespace nano::kernel {

/// The value of `flops_per_key` for a kernel that computes products of `elements` elements in all
/// for each query and key that it sees, with queries [T, H, Dh] and so many iterations.
inline mlir::FloatAttr flopsPerKey(mlir::ShapedType queries, int64_t elements, int64_t iterations) {
  const double rows = double(queries.getDimSize(0)) * double(queries.getDimSize(1));
  return mlir::Builder(queries.getContext())
      .getF64FloatAttr(2.0 * double(elements) * rows / double(iterations));
}

} // namespace nano::kernel
