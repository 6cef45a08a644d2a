// Shapes as the messages of verifiers and of the front end print them.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace nano::graph {

/// "[49152, 768]"; a rank-0 shape is "[]".
std::string shapeText(llvm::ArrayRef<int64_t> shape);
/// The shape of a ranked tensor type as shapeText prints it.
std::string shapeText(mlir::Type type);

} // namespace nano::graph
