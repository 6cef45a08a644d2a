// Ops of the `nano` dialect: rows of tables, and cross-entropy. See TableOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/TableOps.h.inc"
