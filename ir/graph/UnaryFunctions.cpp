// The list of all element-wise functions of one number, from the list of their family.
#include "ir/graph/UnaryFunctions.h"

#include "ir/graph/FunctionOps.h"

#include <vector>

namespace nano::graph {
namespace {

template <typename Op> void addFunction(std::vector<UnaryFunction> &list) {
  if constexpr (Op::template hasTrait<UnaryFunctionInterface::Trait>())
    list.push_back({Op::getOperationName(), &Op::evaluate, Op::traits()});
}

template <typename... Ops> std::vector<UnaryFunction> functionsAmong() {
  std::vector<UnaryFunction> list;
  (addFunction<Ops>(list), ...);
  return list;
}

} // namespace

llvm::ArrayRef<UnaryFunction> unaryFunctions() {
  static const std::vector<UnaryFunction> functions = functionsAmong<
#define GET_OP_LIST
#include "ir/graph/FunctionOps.cpp.inc"
      >();
  return functions;
}

} // namespace nano::graph
