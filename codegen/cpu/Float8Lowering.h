// Conversions between f32 and 8-bit floats in integer and f32 arithmetic on vectors.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace mlir {
class LLVMTypeConverter;
}

namespace nano::codegen {

/// Patterns that lower arith.truncf of f32 to f8E4M3FN or f8E5M2 and arith.extf back, on scalars
/// and vectors; f8 numbers become bytes. Narrowing rounds to nearest even and saturates: what lies
/// beyond the largest finite number, infinities too, becomes that number; NaN stays NaN.
void populateFloat8Patterns(mlir::LLVMTypeConverter &converter, mlir::RewritePatternSet &patterns);

} // namespace nano::codegen
