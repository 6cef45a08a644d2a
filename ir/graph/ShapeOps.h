// Ops of the `nano` dialect: what moves elements without computing. See ShapeOps.td.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/ShapeOps.h.inc"
