// Conversions between 8-bit floats with scales and other floats, as element-wise ops.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace nano {

/// Patterns that write nano.quantize and nano.dequantize out. A tensor with a scale for each of
/// several blocks of a row is seen as rows that are the blocks; where element-wise ops alone make
/// it, they are computed in that shape, so that they, the blocks' largest magnitudes and the
/// conversion are one kernel.
void populateDecomposeQuantizePatterns(mlir::RewritePatternSet &patterns);

} // namespace nano
