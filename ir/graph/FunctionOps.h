// Ops of the `nano` dialect: element-wise functions of one number and of two. See FunctionOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/FunctionOps.h.inc"
