// What a kernel reads of an operand when that is a few of its elements: an attribute that cost
// models and plans read.
#pragma once

#include "ir/step/Step.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <algorithm>

namespace nano::step {

/// Attribute of a kernel's arguments of which it reads no more than so many elements (i64) in an
/// iteration: those that numbers pick.
inline constexpr llvm::StringLiteral readsPerIterationAttrName = "nano.reads_per_iteration";

/// Bytes that a launch of so many iterations touches of the kernel's argument, an operand of the
/// type. Null kernel: all.
inline int64_t touchedBytes(mlir::Operation *kernel, unsigned argument, mlir::MemRefType type,
                            int64_t iterations) {
  int64_t elements = type.getNumElements();
  if (auto function = llvm::dyn_cast_or_null<mlir::FunctionOpInterface>(kernel))
    if (auto reads =
            function.getArgAttrOfType<mlir::IntegerAttr>(argument, readsPerIterationAttrName))
      elements = std::min(elements, reads.getInt() * iterations);
  return elements * elementBytes(type.getElementType());
}

} // namespace nano::step
