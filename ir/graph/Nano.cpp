// Registration of the `nano` dialect.
#include "ir/graph/Families.h"
#include "ir/graph/GraphBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

#include "ir/graph/NanoOpsDialect.cpp.inc"
#include "ir/graph/NanoOpsEnums.cpp.inc"
#include "ir/graph/NanoOpsInterfaces.cpp.inc"
namespace {

/// "[0.0, 0.02]"
mlir::ParseResult parseNumbers(mlir::AsmParser &parser, mlir::DenseF64ArrayAttr &numbers) {
  llvm::SmallVector<double> values;
  if (parser.parseCommaSeparatedList(
          mlir::AsmParser::Delimiter::Square,
          [&]() -> mlir::ParseResult { return parser.parseFloat(values.emplace_back()); }))
    return mlir::failure();
  numbers = mlir::DenseF64ArrayAttr::get(parser.getContext(), values);
  return mlir::success();
}

/// With all digits that parsing needs to find the same number; an array prints seven.
void printNumbers(mlir::AsmPrinter &printer, mlir::DenseF64ArrayAttr numbers) {
  printer << '[';
  llvm::interleaveComma(numbers.asArrayRef(), printer,
                        [&](double value) { printer.printFloat(llvm::APFloat(value)); });
  printer << ']';
}

} // namespace

#define GET_ATTRDEF_CLASSES
#include "ir/graph/NanoOpsAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "ir/graph/NanoOps.cpp.inc"

using namespace nano::graph;

void NanoDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/graph/NanoOps.cpp.inc"
      >();
  addArithmeticOps(*this);
  addAttentionOps(*this);
  addCollectiveOps(*this);
  addCustomOps(*this);
  addElementwiseOps(*this);
  addFunctionOps(*this);
  addMatmulOps(*this);
  addRandomOps(*this);
  addReduceOps(*this);
  addRowFunctionOps(*this);
  addScaledOps(*this);
  addSequenceOps(*this);
  addShapeOps(*this);
  addTableOps(*this);
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/graph/NanoOpsAttrs.cpp.inc"
      >();
}
