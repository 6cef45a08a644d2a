// Templates of the device library as attributes of kernels: see KernelTemplates.td for what their
// fields mean.
#pragma once

#include "ir/kernel/Kernel.h"

#define GET_ATTRDEF_CLASSES
#include "ir/kernel/KernelTemplates.h.inc"
