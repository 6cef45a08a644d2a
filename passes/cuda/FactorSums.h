// Sums of products with factors in common, as an epilogue's: fewer operations for the same sum.
#pragma once

#include "mlir/IR/Block.h"

namespace nano::kernels {

/// Takes common factors out of the block's sums of products of f32, where that leaves fewer
/// multiplications and additions: what a derivative makes of x·σ(u(x)), g·σ + g·x·w·c + g·x³·w·d,
/// becomes g·σ·(1 + x·w·(c + d·x²)). Constants are multiplied in double precision. No product of
/// sums is multiplied out, so that nothing cancels that did not before; what is rounded is
/// different.
void factorSums(mlir::Block &block);

} // namespace nano::kernels
