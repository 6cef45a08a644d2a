// Ops of the `nano` dialect: the product of matrices. See MatmulOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/MatmulOps.h.inc"
