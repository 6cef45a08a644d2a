// Registration of the `step` dialect.
#include "ir/step/Step.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "ir/step/StepOpsDialect.cpp.inc"
#define GET_OP_CLASSES
#include "ir/step/StepOps.cpp.inc"

using namespace nano::step;

void StepDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/step/StepOps.cpp.inc"
      >();
}

mlir::Value nano::step::ViewOp::getViewSource() { return getSource(); }
