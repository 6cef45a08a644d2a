// Tiles of bf16 in shared memory as tensor cores read them, and products of their fragments by
// warps.
#pragma once

#include "nano_primitives.h"

namespace nano::mma {

struct alignas(16) Vector16 {
  uint32_t word[4];
};

/// The place of a lane in fragments: rows group, group + 8 and columns 2·pair, 2·pair + 1 of sums;
/// and in tiles: the byte of its row and swizzled chunk in a 16 × 16 block, as addresses for
/// loadMatrix<4>. `left`: of four quarters top left, bottom left, top right, bottom right. `right`:
/// top left, top right, bottom left, bottom right.
struct Lane {
  int warp = warpIndex(), lane = laneIndex(), group = lane >> 2, pair = lane & 3;
  int left = (lane & 15) * 128 + (((lane >> 4) ^ (lane & 7)) << 4);
  int right = ((lane & 7) + ((lane >> 4) << 3)) * 128 + ((((lane >> 3) & 1) ^ (lane & 7)) << 4);
};

/// rows × size elements in bands of 64 columns, the last of which may have columns behind those of
/// the elements; in a band row r has 128 bytes, and its chunk c of 16 bytes is at place
/// c ⊕ (r mod 8). Rows of 8 × 8 matrices lie in different banks; it is also the 128-byte swizzle of
/// bulk copies and warpgroup products.
template <int rows, int size> struct Tile {
  static constexpr int bands = (size + 63) / 64, bytes = 128 * rows * bands, chunks = 8 * bands;
  static NANO_DEVICE int offset(int row, int chunk) {
    return (chunk >> 3) * rows * 128 + row * 128 + (((chunk ^ row) & 7) << 4);
  }
  /// Of `lane`, lane.left or lane.right, in the block with first row `row`, a multiple of 16, and
  /// first chunk `chunk`, even.
  static NANO_DEVICE int block(int lane, int row, int chunk) {
    return ((chunk >> 3) * rows + row) * 128 + (lane ^ ((chunk & 7) << 4));
  }
};

/// sums[:, c] and sums[:, c + 1] += the row tiles in `left` times two 16 × 8 column tiles in
/// `right`.
template <int rowTiles, int columnTiles>
NANO_DEVICE void multiplyTiles(float (&sums)[rowTiles][columnTiles][4], int c,
                               const uint32_t (&left)[rowTiles][4], const uint32_t (&right)[4]) {
  const uint32_t first[2] = {right[0], right[1]}, second[2] = {right[2], right[3]};
#pragma unroll
  for (int r = 0; r < rowTiles; ++r) {
    matrixMultiply<bf16, bf16>(sums[r][c], left[r], first);
    matrixMultiply<bf16, bf16>(sums[r][c + 1], left[r], second);
  }
}

} // namespace nano::mma
