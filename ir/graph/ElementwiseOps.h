// Ops of the `nano` dialect: choice, conversion and constants. See ElementwiseOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/ElementwiseOps.h.inc"
