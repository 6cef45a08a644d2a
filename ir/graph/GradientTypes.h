// In which type the gradient of a parameter is added up: over micro-batches, steps and ranks.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/Program.h"

namespace nano::graph {

/// f32; the parameter's own element type where the model's training asks for stored gradients.
inline mlir::Type gradientElement(mlir::ModuleOp module, StateOp parameter) {
  const mlir::DictionaryAttr training = trainingOf(module);
  auto stored = training ? training.getAs<mlir::BoolAttr>("stored_gradients") : mlir::BoolAttr();
  if (stored && stored.getValue())
    return parameter.getTensorType().getElementType();
  return mlir::Float32Type::get(module.getContext());
}

} // namespace nano::graph
