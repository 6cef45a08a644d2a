// Ops of the `nano` dialect: functions of rows. See RowFunctionOps.td.
#pragma once

#include "ir/graph/Nano.h"
#include "ir/graph/RowFunctions.h"

#define GET_OP_CLASSES
#include "ir/graph/RowFunctionOps.h.inc"
