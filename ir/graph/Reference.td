// All ops of the `nano` dialect, for its reference, build/docs/ops/nano.md: those that are generated into ir/graph/Nano.h, and those with a header of their own.
#ifndef NANO_IR_GRAPH_REFERENCE_TD
#define NANO_IR_GRAPH_REFERENCE_TD

include "ir/graph/ArithmeticOps.td"
include "ir/graph/AttentionOps.td"
include "ir/graph/CollectiveOps.td"
include "ir/graph/CustomOps.td"
include "ir/graph/ElementwiseOps.td"
include "ir/graph/FunctionOps.td"
include "ir/graph/MatmulOps.td"
include "ir/graph/NanoOps.td"
include "ir/graph/RandomOps.td"
include "ir/graph/ReduceOps.td"
include "ir/graph/RowFunctionOps.td"
include "ir/graph/ScaledOps.td"
include "ir/graph/SequenceOps.td"
include "ir/graph/ShapeOps.td"
include "ir/graph/TableOps.td"

#endif // NANO_IR_GRAPH_REFERENCE_TD
