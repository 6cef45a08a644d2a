// The ops of the `nano` dialect that have a header of their own, a family each. A source includes
// the families whose ops it names, and a change of one compiles these alone.
#pragma once

#include "ir/graph/Nano.h"

namespace nano::graph {

template <typename... Ops> void addOps(NanoDialect &dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(dialect), ...);
}

void addArithmeticOps(NanoDialect &dialect);
void addAttentionOps(NanoDialect &dialect);
void addCollectiveOps(NanoDialect &dialect);
void addCustomOps(NanoDialect &dialect);
void addElementwiseOps(NanoDialect &dialect);
void addFunctionOps(NanoDialect &dialect);
void addMatmulOps(NanoDialect &dialect);
void addRandomOps(NanoDialect &dialect);
void addReduceOps(NanoDialect &dialect);
void addRowFunctionOps(NanoDialect &dialect);
void addScaledOps(NanoDialect &dialect);
void addSequenceOps(NanoDialect &dialect);
void addShapeOps(NanoDialect &dialect);
void addTableOps(NanoDialect &dialect);

} // namespace nano::graph
