// The ops of the `nano` dialect that most sources name: those of Nano.h. The others have headers of their own (Families.h).
#ifndef NANO_IR_GRAPH_OPS_TD
#define NANO_IR_GRAPH_OPS_TD

include "ir/graph/ElementwiseOps.td"
include "ir/graph/ProgramOps.td"
include "ir/graph/ShapeOps.td"

#endif // NANO_IR_GRAPH_OPS_TD
