// Scales, sums and casts that a matrix product computes for free.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace nano {

/// The rewrites of nano-fold-matmul-epilogues.
void populateMatmulEpilogues(mlir::RewritePatternSet &patterns);

} // namespace nano
