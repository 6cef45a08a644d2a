// Ops of the `nano` dialect: exchange between ranks. See CollectiveOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/CollectiveOps.h.inc"
