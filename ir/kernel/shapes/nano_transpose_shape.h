// How the transposing template cuts matrices into tiles. Plain constant expressions, which the
// compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

/// `matrices` matrices of p × q elements; strides in elements.
struct TransposeShape {
  long long matrices, p, q; ///< p: contiguous where they come from; q: contiguous where they go
  long long inMatrix, inRow, outMatrix, outRow;
};

constexpr int transposeTile = 64, transposeThreads = 256;

/// Elements of `bytes` bytes.
NANO_BOTH constexpr TemplateLaunch transposeLaunch(const TransposeShape &s, int bytes) {
  return {transposeThreads,
          s.matrices * divideUp(s.p, transposeTile) * divideUp(s.q, transposeTile),
          transposeTile * (transposeTile * bytes + 4)};
}

} // namespace nano
