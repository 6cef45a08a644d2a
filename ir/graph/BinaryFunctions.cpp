// The list of all element-wise functions of two floats, from the list of their family.
#include "ir/graph/BinaryFunctions.h"

#include "ir/graph/FunctionOps.h"

#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace nano::graph {
namespace {

template <typename Op> void addFunction(std::vector<BinaryFunction> &list) {
  if constexpr (requires { Op::evaluate(0.0, 0.0); })
    list.push_back({Op::getOperationName(), &Op::evaluate, Op::traits()});
}

template <typename... Ops> std::vector<BinaryFunction> functionsAmong() {
  std::vector<BinaryFunction> list;
  (addFunction<Ops>(list), ...);
  return list;
}

} // namespace

llvm::ArrayRef<BinaryFunction> binaryFunctions() {
  static const std::vector<BinaryFunction> functions = functionsAmong<
#define GET_OP_LIST
#include "ir/graph/FunctionOps.cpp.inc"
      >();
  return functions;
}

const BinaryFunction *binaryFunctionOf(mlir::Operation *op) {
  const llvm::StringRef name = op->getName().getStringRef();
  const auto *found = llvm::find_if(
      binaryFunctions(), [&](const BinaryFunction &function) { return function.op == name; });
  return found == binaryFunctions().end() ? nullptr : found;
}

std::optional<FunctionTraits> traitsOf(mlir::Operation *op) {
  if (auto unary = llvm::dyn_cast<UnaryFunctionInterface>(op))
    return unary.traits();
  const BinaryFunction *binary = binaryFunctionOf(op);
  return binary ? std::optional(binary->traits) : std::nullopt;
}

} // namespace nano::graph
