// The `step` dialect in C++: see StepOps.td for what its ops mean.
#pragma once

#include "ir/graph/Nano.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "ir/step/StepOpsDialect.h.inc"
#define GET_OP_CLASSES
#include "ir/step/StepOps.h.inc"
