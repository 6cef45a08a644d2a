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

constexpr int transposeThreads = 256;
/// Rows and columns of a tile of elements of `bytes` bytes: a row is a multiple of 128 bytes.
NANO_BOTH constexpr int transposeTile(int bytes) { return bytes > 1 ? 64 : 128; }

/// Elements of `bytes` bytes.
NANO_BOTH constexpr TemplateLaunch transposeLaunch(const TransposeShape &s, int bytes) {
  const int tile = transposeTile(bytes);
  return {transposeThreads, s.matrices * divideUp(s.p, tile) * divideUp(s.q, tile),
          tile * tile * bytes};
}

} // namespace nano
