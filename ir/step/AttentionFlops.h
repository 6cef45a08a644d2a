// How much arithmetic a kernel has: attributes that cost models and plans read.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace nano::step {

/// Attribute of kernels that compute a matrix product: floating-point operations (f64) of one
/// iteration.
inline constexpr llvm::StringLiteral flopsAttrName = "nano.flops";

/// Attribute of kernels that compute attention: floating-point operations (f64) of one iteration
/// for each key that its queries see on average; how many those are, the data decide.
inline constexpr llvm::StringLiteral flopsPerKeyAttrName = "nano.flops_per_key";

/// Its value for a kernel that computes `products` products of Dh elements for each query and key
/// that it sees, with queries [T, H, Dh] and so many iterations.
inline mlir::FloatAttr flopsPerKey(mlir::ShapedType queries, int products, int64_t iterations) {
  return mlir::Builder(queries.getContext())
      .getF64FloatAttr(2.0 * products * double(queries.getNumElements()) / double(iterations));
}

} // namespace nano::step
