// Sums and slopes of hyperbolic tangents by the logistic function, as GELU has them.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace nano {

/// The pattern by which 1 + tanh x is 2σ(2x) and 1 − tanh² x is 4σ(2x)·(1 − σ(2x)), in f32, where
/// nothing else needs the tangent. σ is one exponential and a reciprocal without a choice between
/// two polynomials, and keeps its relative error where 1 + tanh x has lost all digits: below
/// x = −9 that is 0. On GPUs σ ends at 2⁻⁶⁰, so that it does below x = −20.7. Factors of ½ and
/// others beside it are multiplied into those of 2 and 4, which is exact.
void populateLogisticPatterns(mlir::RewritePatternSet &patterns);

} // namespace nano
