// Tiles of bf16 in shared memory for the attention templates: copies, the softmax of what tensor
// cores make of them, ranges of keys, the score function. Included by nano_attention.h.
#pragma once

#include "nano_matrix_tiles.h"

namespace nano::mma {

constexpr float log2e = 1.44269504f, ln2 = 0.693147181f;

/// Scores are turned into exponents of two one by one, not with a factor within the softmax.
template <class A> constexpr bool scoresInLog2 = A::hasScore || !(A::scale > 0);

/// Starts copying chunk `chunk` of a row of `size` elements; behind them it becomes zero.
template <int size> NANO_DEVICE void copyChunk(uint8_t *to, const bf16 *from, int chunk) {
  if constexpr (size % 64 == 0)
    copyAsync<16>(to, from);
  else
    copyAsync<16>(to, from, 8 * chunk < size ? 16 : 0);
}
/// The place of a chunk in a row: that of the first one for those behind the elements.
template <int size> NANO_DEVICE int placeOfChunk(int chunk) {
  return size % 64 == 0 || 8 * chunk < size ? 8 * chunk : 0;
}

/// Starts copying x[first + r, head, :] to row r of the tile; rows from `end` on become zero, and
/// columns behind the head's. By `threads` threads, this one being number `thread`: those that
/// cannot share whole rows evenly share those of one band of 64 columns after the other.
template <int rows, int size, int threads>
NANO_DEVICE void loadTile(uint8_t *tile, const HeadView<const bf16> &x, int head, int first,
                          int end, int thread = threadIdx.x) {
  using T = Tile<rows, size>;
  if constexpr (threads % (8 * T::chunks) != 0) {
#pragma unroll
    for (int band = 0; band < size / 64; ++band)
      loadTile<rows, 64, threads>(tile + band * rows * 128,
                                  {x.base + band * 64, x.token, x.head, x.element}, head, first,
                                  end, thread);
    if constexpr (size % 64 > 0)
      loadTile<rows, size % 64, threads>(tile + size / 64 * rows * 128,
                                         {x.base + size / 64 * 64, x.token, x.head, x.element},
                                         head, first, end, thread);
    return;
  } else {
    static_assert(rows * T::chunks % threads == 0);
    const int chunk = thread % T::chunks, firstRow = thread / T::chunks;
    const bf16 *const source = x.row(first, head) + placeOfChunk<size>(chunk);
    uint8_t *const target = tile + T::offset(firstRow, chunk);
    constexpr int step = threads / T::chunks;
    static_assert(step % 8 == 0, "the swizzle is the same in all rows of a thread");
    if (first + rows <= end) {
#pragma unroll
      for (int i = 0; i < rows / step; ++i)
        copyChunk<size>(target + i * step * 128, source + (firstRow + i * step) * x.token, chunk);
      return;
    }
#pragma unroll 1
    for (int row = firstRow; row < rows; row += step) {
      const bool inside = first + row < end;
      copyAsync<16>(target + (row - firstRow) * 128, source + (inside ? row : 0) * x.token,
                    inside && 8 * chunk < size ? 16 : 0);
    }
  }
}

/// Where an element of sums lies: row 16·tile + 8·half + group.
struct Place {
  int tile, half, row, column;
};

/// body(element, place) for this lane's elements.
template <int rowTiles, int columnTiles, class Body>
NANO_DEVICE void forElements(float (&sums)[rowTiles][columnTiles][4], const Lane &lane, Body body) {
#pragma unroll
  for (int r = 0; r < rowTiles; ++r)
#pragma unroll
    for (int c = 0; c < columnTiles; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        body(sums[r][c][i],
             Place{r, i / 2, 16 * r + 8 * (i / 2) + lane.group, 8 * c + 2 * lane.pair + i % 2});
}

/// body(element, element of the second, place).
template <int rowTiles, int columnTiles, class Body>
NANO_DEVICE void forElements(float (&first)[rowTiles][columnTiles][4],
                             float (&second)[rowTiles][columnTiles][4], const Lane &lane,
                             Body body) {
#pragma unroll
  for (int r = 0; r < rowTiles; ++r)
#pragma unroll
    for (int c = 0; c < columnTiles; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        body(first[r][c][i], second[r][c][i],
             Place{r, i / 2, 16 * r + 8 * (i / 2) + lane.group, 8 * c + 2 * lane.pair + i % 2});
}

/// results[row, :] *= scales of the row.
template <int rowTiles, int columnTiles>
NANO_DEVICE void rescale(float (&results)[rowTiles][columnTiles][4],
                         const float (&scales)[rowTiles][2]) {
#pragma unroll
  for (int r = 0; r < rowTiles; ++r)
#pragma unroll
    for (int c = 0; c < columnTiles; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        results[r][c][i] *= scales[r][i / 2];
}

/// Scores of keys before column `first` and behind column `last` of a tile become −∞, where these
/// are of the lane's two rows. What a row sees is made bits of a word first, from which one
/// instruction reads seven predicates.
template <int columnTiles>
NANO_DEVICE void hideUnseen(float (&scores)[1][columnTiles][4], const Lane &lane,
                            const int (&first)[2], const int (&last)[2]) {
  static_assert(columnTiles <= 16);
  // As many bits as the lane has columns before one: two of every eight.
  auto bitsBefore = [&](int column) {
    const int own = smaller(larger(column - 2 * lane.pair, 0), 8 * columnTiles),
              count = own / 8 * 2 + smaller(own % 8, 2);
    return count < 32 ? (1u << count) - 1 : ~0u;
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t seen = bitsBefore(last[half] + 1) & ~bitsBefore(first[half]);
#pragma unroll
    for (int c = 0; c < columnTiles; ++c)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float &score = scores[0][c][2 * half + i];
        score = seen & (1u << (2 * c + i)) ? score : -infinity;
      }
  }
}

/// The online softmax of a warp's rows. An exponent of two is a score times a factor.
template <int rowTiles> struct Softmax {
  float maxima[rowTiles][2], sums[rowTiles][2]; ///< maxima: exponents; sums: of this lane's columns

  /// The first scores become weights 2^(factor·score − maximum). A row that sees no key has weights
  /// of 0, and −∞ for a maximum.
  template <int columnTiles>
  static NANO_DEVICE Softmax first(float (&scores)[rowTiles][columnTiles][4], float factor) {
    Softmax result;
#pragma unroll
    for (int i = 0; i < 2 * rowTiles; ++i) {
      const int r = i / 2, half = i % 2;
      result.maxima[r][half] = largest(scores, r, half) * factor;
      result.sums[r][half] = 0;
      result.subtract(scores, r, half, factor);
      result.weigh(scores, r, half);
    }
    return result;
  }

  /// Further scores become weights. The maximum is the largest exponent, but for at most 8: only
  /// when one is larger by more, which the result tells, must what was made with earlier weights be
  /// multiplied by `scales`.
  template <int columnTiles>
  NANO_DEVICE bool apply(float (&scores)[rowTiles][columnTiles][4], float (&scales)[rowTiles][2],
                         float factor) {
    // What is above 8 is so as an integer, too, of which one instruction compares three.
    constexpr int32_t eight = bitCast<int32_t>(8.0f);
    bool grows = false;
#pragma unroll
    for (int i = 0; i < 2 * rowTiles; ++i) {
      const int r = i / 2, half = i % 2;
      subtract(scores, r, half, factor);
      int32_t largest = eight;
#pragma unroll
      for (int c = 0; c < columnTiles; ++c)
        largest = larger(larger(largest, bitCast<int32_t>(scores[r][c][2 * half])),
                         bitCast<int32_t>(scores[r][c][2 * half + 1]));
      grows |= (largest > eight) | (maxima[r][half] == -infinity);
    }
    grows = anyLane(grows);
    if (grows) {
#pragma unroll
      for (int i = 0; i < 2 * rowTiles; ++i) {
        const int r = i / 2, half = i % 2;
        const bool isFirst = maxima[r][half] == -infinity;
        const float m = largest(scores, r, half), before = isFirst ? 0 : maxima[r][half];
        const bool isLarger = isFirst ? m > -infinity : m > 0;
        const float after = isLarger ? before + m : before, shift = after - before;
        maxima[r][half] = isLarger ? after : maxima[r][half];
        scales[r][half] = approximateExp2(-shift);
        sums[r][half] *= scales[r][half];
        forRow(scores, r, half, [&](float &s) { s -= shift; });
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * rowTiles; ++i)
      weigh(scores, i / 2, i % 2);
    return grows;
  }

private:
  /// body(element) for this lane's elements of row 16·r + 8·half + group.
  template <int columnTiles, class Body>
  static NANO_DEVICE void forRow(float (&scores)[rowTiles][columnTiles][4], int r, int half,
                                 Body body) {
#pragma unroll
    for (int c = 0; c < columnTiles; ++c)
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j)
        body(scores[r][c][j]);
  }
  /// The largest number of a row.
  template <int columnTiles>
  static NANO_DEVICE float largest(float (&scores)[rowTiles][columnTiles][4], int r, int half) {
    float m = -infinity;
    forRow(scores, r, half, [&](float &s) { m = max(m, s); });
    m = max(m, shuffleXor(m, 1));
    return max(m, shuffleXor(m, 2));
  }
  /// Scores become exponents less the maximum.
  template <int columnTiles>
  NANO_DEVICE void subtract(float (&scores)[rowTiles][columnTiles][4], int r, int half,
                            float factor) {
    const float m = maxima[r][half] == -infinity ? 0 : maxima[r][half];
    forRow(scores, r, half, [&](float &s) { s = fma(s, factor, -m); });
  }
  /// Exponents become weights, which are added to the sums.
  template <int columnTiles>
  NANO_DEVICE void weigh(float (&scores)[rowTiles][columnTiles][4], int r, int half) {
    float sum = 0;
    forRow(scores, r, half, [&](float &s) { sum += s = approximateExp2(s); });
    sums[r][half] += sum;
  }
};

/// Divides the sums of the rows first + … of queries by those of their weights; writes lse.
template <int rowTiles, int columnTiles, class Operands>
NANO_DEVICE void finish(float (&sums)[rowTiles][columnTiles][4], const Softmax<rowTiles> &softmax,
                        const Lane &lane, const Operands &x, int first, int end, int head) {
  float inverses[rowTiles][2];
#pragma unroll
  for (int i = 0; i < 2 * rowTiles; ++i) {
    const int r = i / 2, half = i % 2;
    float sum = softmax.sums[r][half];
    sum += shuffleXor(sum, 1);
    sum += shuffleXor(sum, 2);
    inverses[r][half] = 1.0f / sum;
    const int query = first + 16 * r + 8 * half + lane.group;
    if (lane.pair == 0 && query < end)
#pragma unroll
      for (int place = 0; place < Operands::lsePlaces; ++place)
        *x.lse[place].row(query, head) = (softmax.maxima[r][half] + log2(sum)) * ln2;
  }
  rescale(sums, inverses);
}

struct alignas(8) Pair {
  float value[2];
};

/// results[p][begin + row, head, :] ← the first `size` columns of sums, rounded, for every place p
/// and rows before `end`. They pass through the warp's own rows of a tile that the warp has
/// finished reading.
template <int size, int rows, int places, int rowTiles, int columnTiles, class View>
NANO_DEVICE void storeTile(float (&sums)[rowTiles][columnTiles][4], const Lane &lane, uint8_t *tile,
                           int warpRow, const View &results, int head, int begin, int end) {
  using T = Tile<rows, size>;
  constexpr int chunks = size / 8;
  syncWarp();
#pragma unroll
  for (int r = 0; r < rowTiles; ++r)
#pragma unroll
    for (int c = 0; c < size / 16; ++c) {
      const auto &left = sums[r][2 * c], &right = sums[r][2 * c + 1];
      const uint32_t quarters[4] = {packBf16(left[0], left[1]), packBf16(left[2], left[3]),
                                    packBf16(right[0], right[1]), packBf16(right[2], right[3])};
      storeMatrix<4>(tile + T::block(lane.left, warpRow + 16 * r, 2 * c), quarters);
    }
  syncWarp();
  auto store = [&](int row, int chunk) {
    const int token = begin + warpRow + row;
    if (token >= end)
      return;
    const auto value = *reinterpret_cast<const Vector16 *>(tile + T::offset(warpRow + row, chunk));
#pragma unroll
    for (int p = 0; p < places; ++p)
      *reinterpret_cast<Vector16 *>(results[p].row(token, head) + 8 * chunk) = value;
  };
  if constexpr (32 % chunks == 0) {
    const int chunk = lane.lane % chunks;
#pragma unroll
    for (int row = lane.lane / chunks; row < 16 * rowTiles; row += 32 / chunks)
      store(row, chunk);
  } else {
    // Of the largest heads the places of all pieces take more registers than there are.
    constexpr int atOnce = chunks <= 24 ? 16 * rowTiles * chunks / 32 : 1;
#pragma unroll atOnce
    for (int i = lane.lane; i < 16 * rowTiles * chunks; i += 32)
      store(i / chunks, i % chunks);
  }
}

/// sums.row(part, head) ← of each column the sum over the 64 rows of a warpgroup, of what storeTile
/// has left in a tile, by all its warps: these meet at a barrier, and the rows of each hold its own
/// sums meanwhile. `atOnce`: rows that are read together, which takes registers.
template <int size, int rows, int atOnce = 16, class View>
NANO_DEVICE void storeColumnSums(const Lane &lane, uint8_t *tile, int warpRow, const View &sums,
                                 int part, int head, int barrier) {
  using T = Tile<rows, size>;
  constexpr int warps = 4;
  const int column = 2 * lane.lane, warp = lane.warp % warps;
  auto pairOf = [&](int band, int row) -> Pair & {
    return *reinterpret_cast<Pair *>(tile + (band * rows + row) * 128 + 8 * lane.lane);
  };
  auto isInside = [&](int band) { return size % 64 == 0 || 64 * band + column < size; };
#pragma unroll
  for (int band = 0; band < T::bands; ++band) {
    Pair sum = {{0, 0}};
    if (isInside(band))
#pragma unroll atOnce
      for (int row = 0; row < 16; ++row) {
        const uint32_t two = *reinterpret_cast<const uint32_t *>(
            tile + T::offset(warpRow + row, 8 * band + column / 8) + 2 * (column % 8));
        sum.value[0] += lowBf16(two);
        sum.value[1] += highBf16(two);
      }
    syncWarp(); // all lanes have read the rows that the sums take
    pairOf(band, warpRow) = sum;
  }
  barrierSync(barrier, 32 * warps);
#pragma unroll
  for (int band = warp; band < T::bands; band += warps)
    if (isInside(band)) {
      Pair sum = {{0, 0}};
#pragma unroll
      for (int other = 0; other < warps; ++other) {
        const Pair &part = pairOf(band, warpRow + 16 * (other - warp));
        sum.value[0] += part.value[0];
        sum.value[1] += part.value[1];
      }
      *reinterpret_cast<Pair *>(sums.row(part, head) + 64 * band + column) = sum;
    }
}

/// The keys that a warp's rows of queries see: of the first and the last row the first and the last
/// one, given, or from arrays of `first` and `last` in shared memory.
struct RowRanges {
  int firstOfFirst, firstOfLast, lastOfFirst, lastOfLast;
  NANO_DEVICE RowRanges(int firstOfFirst, int firstOfLast, int lastOfFirst, int lastOfLast)
      : firstOfFirst(firstOfFirst), firstOfLast(firstOfLast), lastOfFirst(lastOfFirst),
        lastOfLast(lastOfLast) {}
  NANO_DEVICE RowRanges(const int *firsts, const int *lasts, int row, int rows)
      : firstOfFirst(firsts[row]), firstOfLast(firsts[row + rows - 1]), lastOfFirst(lasts[row]),
        lastOfLast(lasts[row + rows - 1]) {}
  /// Some row may see one of the keys from … to.
  NANO_DEVICE bool meet(int from, int to) const { return from <= lastOfLast && to >= firstOfFirst; }
  /// All rows see all of them.
  NANO_DEVICE bool contain(int from, int to) const {
    return from >= firstOfLast && to <= lastOfFirst;
  }
};

/// From q·k to the weight.
template <class A>
NANO_DEVICE float weight(float score, float logarithm, int query, int key, int head) {
  if constexpr (A::hasScore)
    return approximateExp2(fma(A::score(score * A::scale, query, key, head), log2e, -logarithm));
  else
    return approximateExp2(fma(score, A::scale * log2e, -logarithm));
}
/// From q·k and dy·v to the weight and the gradient of scale·q·k.
template <class A>
NANO_DEVICE void weightAndGradient(float &score, float &product, float logarithm, float delta,
                                   int query, int key, int head) {
  const float raw = score * A::scale;
  score = weight<A>(score, logarithm, query, key, head);
  product = score * (product - delta);
  if constexpr (A::hasScore)
    product = A::scoreGrad(raw, query, key, head, product);
}

} // namespace nano::mma
