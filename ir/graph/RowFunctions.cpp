// The list of all functions of rows, from the list of their family.
#include "ir/graph/RowFunctions.h"

#include "ir/graph/RowFunctionOps.h"
#include "ir/graph/Shapes.h"

#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace nano::graph {
namespace {

template <typename... Ops> std::vector<RowFunction> functionsAmong() {
  return {{Ops::getOperationName(), &Ops::evaluate, Ops::mostColumns}...};
}

} // namespace

llvm::ArrayRef<RowFunction> rowFunctions() {
  static const std::vector<RowFunction> functions = functionsAmong<
#define GET_OP_LIST
#include "ir/graph/RowFunctionOps.cpp.inc"
      >();
  return functions;
}

const RowFunction *rowFunctionNamed(llvm::StringRef op) {
  const auto *found =
      llvm::find_if(rowFunctions(), [&](const RowFunction &function) { return function.op == op; });
  return found == rowFunctions().end() ? nullptr : found;
}

const RowFunction *rowFunctionOf(mlir::Operation *op) {
  return rowFunctionNamed(op->getName().getStringRef());
}

llvm::LogicalResult verifyRowFunction(mlir::Operation *op, int64_t mostColumns) {
  const auto type = llvm::cast<mlir::ShapedType>(op->getOperand(0).getType());
  if (type.getRank() != 2)
    return op->emitOpError("needs a rank-2 operand, has ") << shapeText(type);
  if (const int64_t columns = type.getDimSize(1); columns > mostColumns)
    return op->emitOpError("has ") << columns << " columns, more than " << mostColumns;
  return llvm::success();
}

} // namespace nano::graph
