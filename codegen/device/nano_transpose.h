// Matrices copied transposed, tile by tile through shared memory: both sides are read and written
// in contiguous pieces of 16 bytes where alignment allows.
#pragma once

#include "nano_kernels.h"
#include "nano_transpose_shape.h"

namespace nano {

/// One tile: iteration `tile` of transposeLaunch's. Element (p, q) of matrix b is at in[b·inMatrix
/// + q·inRow + p] and goes to out[b·outMatrix + p·outRow + q]. `Vector`: rows begin at multiples of
/// 16 bytes on both sides. All threads of the block call it.
template <bool Vector, class T>
NANO_DEVICE void transpose(int64_t tile, const T *in, T *out, const TransposeShape &shape) {
  constexpr int size = transposeTile, lanes = 16 / sizeof(T), pieces = size / lanes;
  // A word more a row, so that a column's elements lie in different banks.
  constexpr int stride = size + 4 / int(sizeof(T));
  T *const shared = dynamicShared<T>();
  const int64_t across = divideUp(shape.p, size), down = divideUp(shape.q, size);
  const int64_t matrix = tile / (across * down), inMatrix = tile % (across * down);
  const int64_t p0 = inMatrix % across * size, q0 = inMatrix / across * size;
  in += matrix * shape.inMatrix;
  out += matrix * shape.outMatrix;

#pragma unroll
  for (int i = 0; i < size * pieces / transposeThreads; ++i) {
    const int piece = i * transposeThreads + int(threadIdx.x);
    const int q = piece / pieces, p = piece % pieces * lanes;
    if (q0 + q >= shape.q)
      continue;
    const T *from = in + (q0 + q) * shape.inRow + p0 + p;
    Vec<T, lanes> values{};
    if (Vector && p0 + p + lanes <= shape.p) {
      values = read<lanes>(from);
    } else {
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        if (p0 + p + lane < shape.p)
          values[lane] = read(from + lane);
    }
    store<lanes, 4>(shared + q * stride + p, values);
  }
  syncBlock();
#pragma unroll
  for (int i = 0; i < size * pieces / transposeThreads; ++i) {
    const int piece = i * transposeThreads + int(threadIdx.x);
    const int p = piece / pieces, q = piece % pieces * lanes;
    if (p0 + p >= shape.p)
      continue;
    T *to = out + (p0 + p) * shape.outRow + q0 + q;
    if (Vector && q0 + q + lanes <= shape.q) {
      Vec<T, lanes> values;
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        values[lane] = shared[(q + lane) * stride + p];
      store<lanes>(to, values);
    } else {
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        if (q0 + q + lane < shape.q)
          to[lane] = shared[(q + lane) * stride + p];
    }
  }
}

} // namespace nano
