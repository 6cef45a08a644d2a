// Matrices copied transposed, tile by tile through shared memory: both sides are read and written
// in contiguous pieces of 16 bytes where alignment allows.
#pragma once

#include "nano_tiles.h"
#include "nano_transpose_shape.h"

namespace nano {

/// One tile: iteration `tile` of transposeLaunch's. Element (p, q) of matrix b is at in[b·inMatrix
/// + q·inRow + p] and goes to out[b·outMatrix + p·outRow + q]. `Vector`: rows begin at multiples of
/// 16 bytes on both sides. All threads of the block call it.
template <bool Vector, class T>
NANO_DEVICE void transpose(int64_t tile, const T *in, T *out, const TransposeShape &shape) {
  constexpr int size = transposeTile(sizeof(T)), lanes = 16 / sizeof(T), pieces = size / lanes,
                parts = size * int(sizeof(T)) / 128, turns = size * pieces / transposeThreads;
  using Shape = TileShape<T, size / parts>;
  T *const shared = dynamicShared<T>();
  const int64_t across = divideUp(shape.p, size), down = divideUp(shape.q, size);
  // Where rows of several matrices lie side by side, they are read and written at about one time.
  const bool isMixed = shape.inMatrix < shape.inRow || shape.outMatrix < shape.outRow;
  const int64_t matrix = isMixed ? tile % shape.matrices : tile / (across * down),
                inMatrix = isMixed ? tile / shape.matrices : tile % (across * down);
  const int64_t p0 = inMatrix % across * size, q0 = inMatrix / across * size;
  in += matrix * shape.inMatrix;
  out += matrix * shape.outMatrix;

  // What is inside of the tile, known beforehand where all tiles are whole.
  const int64_t columns = shape.p % size == 0 ? size : shape.p - p0,
                rows = shape.q % size == 0 ? size : shape.q - q0;

  const unsigned thread = threadIdx.x;
  auto rowOf = [=](int i) { return int((i * transposeThreads + thread) / pieces); };
  const int p = int(thread % pieces) * lanes;
  static_assert(transposeThreads % pieces == 0);
  Vec<T, lanes> values[turns]{};
  if (Vector && columns >= size && rows >= size) {
#pragma unroll
    for (int i = 0; i < turns; ++i)
      values[i] = read<lanes>(in + (q0 + rowOf(i)) * shape.inRow + p0 + p);
  } else {
#pragma unroll
    for (int i = 0; i < turns; ++i)
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        if (rowOf(i) < rows && p + lane < columns)
          values[i][lane] = read(in + (q0 + rowOf(i)) * shape.inRow + p0 + p + lane);
  }
#pragma unroll
  for (int i = 0; i < turns; ++i) {
    const int q = rowOf(i), group = q / lanes % Shape::groups;
    store<lanes>(shared + q * size + (p ^ group * Shape::unit), values[i]);
  }
  syncBlock();
  storeColumns<T, size, size, transposeThreads, Vector ? 16 : int(sizeof(T)), parts>(
      shared, out, p0 * shape.outRow + q0, shape.outRow, rows, columns);
}

} // namespace nano
