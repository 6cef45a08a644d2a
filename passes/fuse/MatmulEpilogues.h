// Scales, sums and casts that a matrix product computes for free.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace nano {

/// The rewrites of nano-fold-matmul-epilogues. `narrows`: also of products of f32 factors whose
/// result is cast to bf16, which not every target's library has.
void populateMatmulEpilogues(mlir::RewritePatternSet &patterns, bool narrows);

} // namespace nano
