// Ops of the `nano` dialect: reductions and scans. See ReduceOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/ReduceOps.h.inc"
