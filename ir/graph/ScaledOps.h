// Ops of the `nano` dialect: numbers in 8 bits with scales. See ScaledOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/ScaledOps.h.inc"
