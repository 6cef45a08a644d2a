// Attention on a CPU, as kernels of tiles.
#pragma once

#include "passes/emit/KernelEmitter.h"

namespace nano::kernels {

/// A single nano.attention / nano.attention_grad.
mlir::LogicalResult emitAttentionKernel(KernelFrame &frame);
mlir::LogicalResult emitAttentionGradKernel(KernelFrame &frame);

} // namespace nano::kernels
