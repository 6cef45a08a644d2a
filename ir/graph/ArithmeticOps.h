// Ops of the `nano` dialect: element-wise functions of two numbers. See ArithmeticOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/ArithmeticOps.h.inc"
