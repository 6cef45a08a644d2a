// What sources of the front end's functions ask of a value and say of it.
#pragma once

#include "compiler/Recorder.h"

#include <fmt/format.h>

namespace nano::frontend {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline DType dtypeOf(mlir::Value value) {
  return Recorder::dtypeOf(typeOf(value).getElementType());
}
inline bool isFloat(mlir::Value value) { return dtypeOf(value) == f32 || dtypeOf(value) == bf16; }
inline std::string shapeOf(mlir::Value value) { return text(typeOf(value).getShape()); }
/// "bf16 [4, 8]"
inline std::string describe(mlir::Value value) {
  return fmt::format("{} {}", nameOf(dtypeOf(value)), shapeOf(value));
}

} // namespace nano::frontend
