// Ops of the `nano` dialect: attention and its gradient. See AttentionOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/AttentionOps.h.inc"
