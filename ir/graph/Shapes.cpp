// Shapes as the messages of verifiers and of the front end print them.
#include "ir/graph/Shapes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

namespace nano::graph {

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [index, size] : llvm::enumerate(shape))
    text += (index ? ", " : "") + std::to_string(size);
  return text + "]";
}

std::string shapeText(mlir::Type type) {
  return shapeText(llvm::cast<mlir::RankedTensorType>(type).getShape());
}

std::string numberText(double number) {
  return llvm::formatv("{0}", llvm::format("%.10g", number));
}

} // namespace nano::graph
