// All ops of the `nano` dialect, for its reference, build/docs/ops/nano.md: those that are generated into ir/graph/Nano.h, and those with a header of their own.
#ifndef NANO_IR_GRAPH_REFERENCE_TD
#define NANO_IR_GRAPH_REFERENCE_TD

include "ir/graph/CustomOps.td"
include "ir/graph/NanoOps.td"
include "ir/graph/SequenceOps.td"

#endif // NANO_IR_GRAPH_REFERENCE_TD
