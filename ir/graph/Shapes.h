// Shapes as the messages of verifiers and of the front end print them.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace nano::graph {

inline bool isFloat8(mlir::Type element) {
  return llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(element);
}

/// "[49152, 768]"; a rank-0 shape is "[]".
std::string shapeText(llvm::ArrayRef<int64_t> shape);
/// The shape of a ranked tensor type as shapeText prints it.
std::string shapeText(mlir::Type type);

/// What is wrong with `scales` as the block scales of a product's operand of `shape` (two
/// dimensions, the inner one last or first), for a message behind the operand's name; empty when
/// they fit: one scale for every `block` elements along the inner dimension and for every 1 or
/// `block` along the other.
std::string blockScaleError(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> scales,
                            bool innerIsLast, int64_t block);

/// A number as a person writes it: 0.95, 1e-10.
std::string numberText(double number);

} // namespace nano::graph
