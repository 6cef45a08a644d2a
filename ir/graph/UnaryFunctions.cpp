// The list of all element-wise functions of one number, from the list of their family.
#include "ir/graph/UnaryFunctions.h"

#include "ir/graph/FunctionList.h"
#include "ir/graph/FunctionOps.h"

namespace nano::graph {

llvm::ArrayRef<UnaryFunction> unaryFunctions() {
  static const auto functions = functionsAmong<UnaryFunction,
#define GET_OP_LIST
#include "ir/graph/FunctionOps.cpp.inc"
                                               >();
  return functions;
}

} // namespace nano::graph
