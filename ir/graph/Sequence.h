// Ops along a sequence in C++: see SequenceOps.td. The few that build or lower them include this;
// to all others they are any op.
#pragma once

#include "ir/graph/Nano.h"

#define GET_OP_CLASSES
#include "ir/graph/SequenceOps.h.inc"
