// Ops of the `nano` dialect: random numbers. See RandomOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/RandomOps.h.inc"
