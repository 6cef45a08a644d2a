// The list of all functions of rows, from the list of their family.
#include "ir/graph/RowFunctions.h"

#include "ir/graph/FunctionList.h"
#include "ir/graph/RowFunctionOps.h"
#include "ir/graph/Shapes.h"

namespace nano::graph {

llvm::ArrayRef<RowFunction> rowFunctions() {
  static const auto functions = functionsAmong<RowFunction,
#define GET_OP_LIST
#include "ir/graph/RowFunctionOps.cpp.inc"
                                               >();
  return functions;
}

const RowFunction *rowFunctionNamed(llvm::StringRef op) {
  return functionNamed(rowFunctions(), op);
}

const RowFunction *rowFunctionOf(mlir::Operation *op) {
  return rowFunctionNamed(op->getName().getStringRef());
}

llvm::LogicalResult verifyRowFunction(mlir::Operation *op, RowFunctionTraits traits) {
  const auto type = llvm::cast<mlir::ShapedType>(op->getOperand(0).getType());
  if (type.getRank() != 2)
    return op->emitOpError("needs a rank-2 operand, has ") << shapeText(type);
  if (const int64_t columns = type.getDimSize(1); columns > traits.mostColumns)
    return op->emitOpError("has ") << columns << " columns, more than " << traits.mostColumns;
  return llvm::success();
}

} // namespace nano::graph
