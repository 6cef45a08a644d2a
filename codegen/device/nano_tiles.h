// Outputs that lie transposed: the threads of a block gather rows in shared memory, then write them
// along their columns.
#pragma once

#include "nano_kernels.h"

namespace nano {

/// A tile of `Rows` rows of T in shared memory. A row is a multiple of 128 bytes, so that all its
/// rows begin in one bank; hence the columns of row r lie at column ^ (r / lanes % groups · unit):
/// a warp that reads `width` words of every group's row at once finds each in a bank of its own.
template <class T, int Rows> struct TileShape {
  static constexpr int each = 4 / int(sizeof(T));   ///< elements of a word
  static constexpr int lanes = 16 / int(sizeof(T)); ///< rows that one access to a column writes
  static constexpr int groups = Rows / lanes;       ///< accesses to a column
  static constexpr int width = 32 / groups;         ///< words of a row that a warp reads at once
  static constexpr int unit = width * each;         ///< elements that stay side by side
  static_assert(Rows % lanes == 0 && groups <= 32 && 32 % groups == 0);
};

/// Words of `lanes` rows at the same columns → for each of the columns, the words of its rows.
template <class T>
NANO_DEVICE void transposeWords(const uint32_t (&rows)[16 / sizeof(T)],
                                Piece<16> (&columns)[4 / sizeof(T)]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 1) {
      const uint32_t *four = rows + 4 * i;
      const uint32_t low01 = selectBytes(four[0], four[1], 0x5140);
      const uint32_t high01 = selectBytes(four[0], four[1], 0x7362);
      const uint32_t low23 = selectBytes(four[2], four[3], 0x5140);
      const uint32_t high23 = selectBytes(four[2], four[3], 0x7362);
      columns[0].word[i] = selectBytes(low01, low23, 0x5410);
      columns[1].word[i] = selectBytes(low01, low23, 0x7632);
      columns[2].word[i] = selectBytes(high01, high23, 0x5410);
      columns[3].word[i] = selectBytes(high01, high23, 0x7632);
    } else if constexpr (sizeof(T) == 2) {
      columns[0].word[i] = selectBytes(rows[2 * i], rows[2 * i + 1], 0x5410);
      columns[1].word[i] = selectBytes(rows[2 * i], rows[2 * i + 1], 0x7632);
    } else {
      columns[0].word[i] = rows[i];
    }
  }
}

/// Element (row, column) of the tile, whose rows are `Stride` elements apart, to element at +
/// column·stride + row of `out`, for the rows < `rowsInside` and columns < `columnsInside` (there
/// may be more than the tile has rows). A column's first element lies at a multiple of `Alignment`
/// bytes. Its rows are `Parts` tiles of a TileShape, one below the other, which neighbouring warps
/// write. All threads of the block call it, once the tile is written by all; where there is less to
/// do than they could, those from `First` on do it. The tile begins at element `place` of `tile`.
template <class T, int Rows, int Stride, int Threads, int Alignment, int Parts = 1, int First = 0>
NANO_DEVICE void storeColumns(const T *tile, T *out, int64_t at, int64_t stride, int64_t rowsInside,
                              int64_t columnsInside, int64_t place = 0) {
  using Shape = TileShape<T, Rows / Parts>;
  constexpr int each = Shape::each, lanes = Shape::lanes, partRows = Rows / Parts;
  static_assert(Stride * int(sizeof(T)) % 128 == 0);
  const int rows = rowsInside < Rows ? int(rowsInside) : Rows;
  const int columns = columnsInside < Stride ? int(columnsInside) : Stride;
  const bool isWhole = rows == Rows && columns % each == 0;
  const int count = (columns + Shape::unit - 1) / Shape::unit * 32 * Parts;
  const int thread = First == 0 ? int(threadIdx.x) : (int(threadIdx.x) + Threads - First) % Threads;
#pragma unroll 2
  for (int turn = 0; turn < (count + Threads - 1) / Threads; ++turn) {
    const int i = turn * Threads + thread;
    // Neighbours write a column side by side.
    const int word = i / (32 * Parts) * Shape::width + i % 32 / Shape::groups;
    const int group = i % Shape::groups;
    const int row = i / 32 % Parts * partRows + group * lanes, column = word * each;
    if ((count % Threads != 0 && i >= count) || column >= columns || row >= rows)
      continue;
    const T *from = tile + place + row * Stride + (word ^ group * Shape::width) * each;
    T *to = out + (at + column * stride + row);
    if (isWhole || (row + lanes <= rows && column + each <= columns)) {
      uint32_t words[lanes];
      Piece<16> written[each];
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        words[lane] = reinterpret_cast<const Piece<4> *>(from + lane * Stride)->word[0];
      transposeWords<T>(words, written);
#pragma unroll
      for (int j = 0; j < each; ++j) {
        if constexpr (Alignment >= 16 && sizeof(T) == 4) {
          // Words that were read one by one would be written so.
          storeWhole(reinterpret_cast<Piece<16> *>(to + j * stride), written[j]);
        } else if constexpr (Alignment >= 16) {
          *reinterpret_cast<Piece<16> *>(to + j * stride) = written[j];
        } else {
          Vec<uint32_t, 4> pieces;
#pragma unroll
          for (int k = 0; k < 4; ++k)
            pieces.lane[k] = written[j].word[k];
          store<lanes, Alignment>(to + j * stride, elementsOf<T>(pieces));
        }
      }
    } else {
      for (int lane = 0; lane < lanes && row + lane < rows; ++lane)
        for (int j = 0; j < each && column + j < columns; ++j)
          to[j * stride + lane] = from[lane * Stride + j];
    }
  }
}

} // namespace nano
