// All of the `kernel` dialect: what is generated into ir/kernel/Kernel.h, and the templates, which have a header of their own.
#ifndef NANO_IR_KERNEL_REFERENCE_TD
#define NANO_IR_KERNEL_REFERENCE_TD

include "ir/kernel/KernelOps.td"
include "ir/kernel/KernelTemplates.td"

#endif // NANO_IR_KERNEL_REFERENCE_TD
