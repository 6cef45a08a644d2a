// Sums of products with factors in common, as an epilogue's: fewer operations for the same sum.
#pragma once

#include "mlir/IR/Block.h"

namespace nano::kernels {

/// Takes common factors out of the block's sums of products of f32, where that leaves fewer
/// multiplications and additions: what a derivative makes of x·σ(u(x)), g·σ + g·x·w·c + g·x³·w·d,
/// becomes g·σ·(1 + x·w·(c + d·x²)). Constants are multiplied in double precision. No product of
/// sums is multiplied out, so that nothing cancels that did not before; what is rounded is
/// different. Constants that a sum is multiplied with go into its terms: (x + x³·d)·c becomes
/// x·(c + x²·cd). True when it has changed a sum; what that no longer needs is dead.
bool factorSums(mlir::Block &block);

/// x·(1 + r·(1 − x)) in products of f32, as in derivatives of σ(u)·y, becomes x + r·(x − x²), or
/// where r·x is there x + r·x·(1 − x): one operation fewer, where nothing else reads 1 − x.
void joinSlopes(mlir::Block &block);

} // namespace nano::kernels
