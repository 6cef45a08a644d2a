// The ops of the `nano` dialect that nearly every source names: those of Nano.h. The others have headers of their own (Families.h).
#ifndef NANO_IR_GRAPH_OPS_TD
#define NANO_IR_GRAPH_OPS_TD

include "ir/graph/ProgramOps.td"

#endif // NANO_IR_GRAPH_OPS_TD
