// Sums of products with factors in common, as an epilogue's: fewer operations for the same sum.
#pragma once

#include "mlir/IR/Block.h"

namespace nano::kernels {

/// Makes the block's sums of products of f32 with fewer operations: takes common factors out of
/// them, so that what a derivative makes of x·σ(u(x)), g·σ + g·x·w·c + g·x³·w·d, becomes
/// g·σ·(1 + x·w·(c + d·x²)). Constants are multiplied in double precision; those that a sum is
/// multiplied with go into its terms: (x + x³·d)·c becomes x·(c + x²·cd). Slopes x·(1 + r·(1 − x))
/// of products become x + r·(x − x²). No product of sums is multiplied out, so that nothing cancels
/// that did not before; what is rounded is different. Erases what is dead.
void shortenSums(mlir::Block &block);

} // namespace nano::kernels
