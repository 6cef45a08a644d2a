// Registration of the `nano` dialect.
#include "ir/graph/Nano.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "ir/graph/NanoOpsDialect.cpp.inc"
#include "ir/graph/NanoOpsEnums.cpp.inc"
#include "ir/graph/NanoOpsInterfaces.cpp.inc"
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
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/graph/NanoOpsAttrs.cpp.inc"
      >();
}
