// All ops of the `nano` dialect.
#ifndef NANO_IR_GRAPH_OPS_TD
#define NANO_IR_GRAPH_OPS_TD

include "ir/graph/ComputeOps.td"
include "ir/graph/ElementwiseOps.td"
include "ir/graph/ProgramOps.td"
include "ir/graph/RandomOps.td"
include "ir/graph/ScaledOps.td"
include "ir/graph/ShapeOps.td"

#endif // NANO_IR_GRAPH_OPS_TD
