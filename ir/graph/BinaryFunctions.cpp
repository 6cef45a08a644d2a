// The list of all element-wise functions of two floats, from the list of their family.
#include "ir/graph/BinaryFunctions.h"

#include "ir/graph/FunctionList.h"
#include "ir/graph/FunctionOps.h"

namespace nano::graph {

llvm::ArrayRef<BinaryFunction> binaryFunctions() {
  static const auto functions = functionsAmong<BinaryFunction,
#define GET_OP_LIST
#include "ir/graph/FunctionOps.cpp.inc"
                                               >();
  return functions;
}

const BinaryFunction *binaryFunctionOf(mlir::Operation *op) {
  return functionNamed(binaryFunctions(), op->getName().getStringRef());
}

std::optional<FunctionTraits> traitsOf(mlir::Operation *op) {
  if (auto unary = llvm::dyn_cast<UnaryFunctionInterface>(op))
    return unary.traits();
  const BinaryFunction *binary = binaryFunctionOf(op);
  return binary ? std::optional(binary->traits) : std::nullopt;
}

} // namespace nano::graph
