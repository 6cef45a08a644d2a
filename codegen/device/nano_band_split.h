// Products along a band on tensor cores, of rows of f32. A number is the sum of two of 11 bits
// each, with a rest of at most 2^-22 of it, and a product those of three pairs: high · low, low ·
// high, high · high. Such a sum is as near to the exact one as one of multiply-adds of f32 within a
// few units of the last place. Sums that an infinity, a NaN or a number above 2^127·1.9995 enters
// are not finite. Included by nano_band.h.
//
// Units multiply along any order that both factors share, and results may lie in any order too: a
// lane's numbers are 16 bytes of a row, by one load, where fragments of 16-bit numbers need the
// loads of matrices.
#pragma once

#include "nano_band_matrix.h"

namespace nano::band {

/// Rows of f32 in shared memory, columns a multiple of 32: chunk c of 16 bytes of row r is at place
/// c ⊕ swizzle(r).
template <int rows, int columns, bool isKeys> struct WideTile {
  static constexpr int bytes = 4 * rows * columns, chunks = columns / 4;
  /// Eight lanes at a time read two neighbouring rows' four chunks of keys, or two chunks of four
  /// rows of v that lie two apart.
  static NANO_DEVICE int offset(int row, int chunk) {
    const int swizzle = isKeys ? (row & 1) << 2 : (row & 6);
    return (row * chunks + (chunk ^ swizzle)) * 16;
  }
};

/// A number as the two that tensor cores take of it.
struct Split {
  uint32_t high, low;
  NANO_DEVICE explicit Split(float x)
      : high((bitCast<uint32_t>(x) + 0x1000u) & 0xffffe000u),
        low(bitCast<uint32_t>(x - bitCast<float>(high))) {}
};

/// Of a left 16 × 8 matrix.
struct SplitLeft {
  uint32_t high[4], low[4];
  NANO_DEVICE SplitLeft(float a, float b, float c, float d) {
    const Split split[4] = {Split(a), Split(b), Split(c), Split(d)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      high[i] = split[i].high;
      low[i] = split[i].low;
    }
  }
};

/// sums[first + j] += left times the 8 × 8 matrix of right[j]; the smaller products first, and no
/// two in a row to the same sum.
template <int tiles, int count>
NANO_DEVICE void multiplySplit(float (&sums)[tiles][4], int first, const SplitLeft &left,
                               const float (&right)[count][2]) {
  uint32_t high[count][2], low[count][2];
#pragma unroll
  for (int j = 0; j < count; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Split split(right[j][i]);
      high[j][i] = split.high;
      low[j][i] = split.low;
    }
#pragma unroll
  for (int j = 0; j < count; ++j)
    matrixMultiply<float, float>(sums[first + j], left.high, low[j]);
#pragma unroll
  for (int j = 0; j < count; ++j)
    matrixMultiply<float, float>(sums[first + j], left.low, high[j]);
#pragma unroll
  for (int j = 0; j < count; ++j)
    matrixMultiply<float, float>(sums[first + j], left.high, high[j]);
}

/// A warp's 16 queries: of a lane rows group and group + 8, columns 16c + 4·pair ….
template <class S> struct WideQueries {
  static constexpr int depth = int(divideUp(S::size, 16));
  Vec<float, 4> rows[depth][2];

  template <class View>
  NANO_DEVICE void load(const View &x, const Lane &lane, int head, int token) {
#pragma unroll
    for (int c = 0; c < depth; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int t = token + lane.group + 8 * half, at = 16 * c + 4 * lane.pair;
        rows[c][half] =
            t < S::tokens && at < S::size ? nano::load<4>(&x.at(t, head, at)) : Vec<float, 4>{};
      }
  }
  /// Products with the keys from row `first` of the tile on: tiles of 8.
  template <class Keys, int tiles>
  NANO_DEVICE void multiply(float (&sums)[tiles][4], const Lane &lane, const uint8_t *keys,
                            int first) const {
#pragma unroll
    for (int c = 0; c < depth; ++c) {
      Vec<float, 4> right[tiles];
#pragma unroll
      for (int j = 0; j < tiles; ++j)
        right[j] = nano::load<4>(reinterpret_cast<const float *>(
            keys + Keys::offset(first + 8 * j + lane.group, 4 * c + lane.pair)));
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
        const SplitLeft left(rows[c][0][k], rows[c][1][k], rows[c][0][k + 1], rows[c][1][k + 1]);
        float pairs[tiles][2];
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
          pairs[j][0] = right[j][k];
          pairs[j][1] = right[j][k + 1];
        }
        multiplySplit(sums, 0, left, pairs);
      }
    }
  }
};

/// A tile of scores: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void scoresBySplitting(long long iteration, const BandOperands<S, yCount> &x) {
  constexpr BandMatrixPlan plan = matrixPlan<S, true>;
  using Keys = WideTile<plan.rows, plan.columns, true>;
  const Lane lane;
  const int head = int(iteration % S::heads), begin = int(iteration / S::heads) * 16 * plan.warps,
            token = begin + 16 * lane.warp; // the warp's first
  uint8_t *const keys = dynamicShared<uint8_t>();
  Ring<S> ring{reinterpret_cast<float *>(keys + Keys::bytes + lane.warp * plan.warpBytes)};
  WideQueries<S> queries;
  for (int part = 0; part < plan.window; part += plan.part) {
    if (part > 0)
      syncThreads();
    startRows<S, Keys, plan.rows, 32 * plan.warps>(
        keys, x.second, head, begin + 16 * (part + 1 - plan.window), 0, int(threadIdx.x));
    copyAsyncCommit();
    if (part == 0)
      queries.load(x.first, lane, head, token);
    copyAsyncWait<0>();
    syncThreads();
    const int steps = part + plan.part < plan.window ? plan.part : plan.window - part;
    for (int step = 0; step < steps; step += 2) {
      const int row = 16 * (lane.warp + step);
      float sums[4][4] = {};
      if (step + 1 < steps) {
        queries.template multiply<Keys>(sums, lane, keys, row);
      } else {
        float one[2][4] = {};
        queries.template multiply<Keys>(one, lane, keys, row);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          sums[i / 4][i % 4] = one[i / 4][i % 4];
      }
      // Key j of token t is number j − t + W − 1 of its band.
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (step + c == steps)
          continue;
        const int first = 16 * (part + step + c + 1 - plan.window) + S::width - 1;
        ring.set(lane, sums[2 * c], first);
        if (first + 1 >= ring.left + 32) // so many of the last token too
          ring.leave(x, head, token);
      }
    }
  }
  while (ring.left < S::width)
    ring.leave(x, head, token);
}

/// A tile of sums: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void productBySplitting(long long iteration, const BandOperands<S, yCount> &x) {
  constexpr BandMatrixPlan plan = matrixPlan<S, false>;
  constexpr int columns = plan.columns;
  using Rows = WideTile<plan.rows, columns, false>;
  const Lane lane;
  const ProductTile<S> tile(iteration, lane);
  uint8_t *const rows = dynamicShared<uint8_t>();
  WarpWeights<S> weights{
      reinterpret_cast<typename S::First *>(rows + Rows::bytes + lane.warp * plan.warpBytes),
      tile.token};
  // sums[4c + j]: of columns 32c + 4n + j, n = 0 … 7.
  float sums[columns / 8][4] = {};
  tile.template walk<Rows>(x, rows, weights, [&](int step) {
    const Weights<S> found = weights.of(lane, step);
    auto weight = [&](int i, int j) { return float(found.number[i][j]); };
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const SplitLeft left(weight(0, j), weight(1, j), weight(2, j), weight(3, j));
      const int row = 16 * (lane.warp + step) + 2 * lane.pair + j;
#pragma unroll
      for (int c = 0; c < columns / 32; ++c) {
        Vec<float, 4> right[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          right[i] = nano::load<4>(reinterpret_cast<const float *>(
              rows + Rows::offset(row + 8 * i, 8 * c + lane.group)));
        float pairs[4][2];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          pairs[k][0] = right[0][k];
          pairs[k][1] = right[1][k];
        }
        multiplySplit(sums, 4 * c, left, pairs);
      }
    }
  });
  // A lane has eight neighbouring results of a row. Two lanes exchange halves of theirs, so that
  // both write to 32 bytes at a time.
  const bool isOdd = lane.pair & 1;
#pragma unroll
  for (int c = 0; c < columns / 32; ++c)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      using Result = typename S::Result;
      Vec<float, 4> pieces[2];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float low = sums[4 * c + j][2 * half], high = sums[4 * c + j][2 * half + 1];
        const float other = shuffleXor(isOdd ? low : high, 1);
        pieces[0][j] = isOdd ? other : low;
        pieces[1][j] = isOdd ? high : other;
      }
      const int t = tile.token + lane.group + 8 * half,
                d = tile.column + 32 * c + 8 * (lane.pair & 2) + 4 * isOdd;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (t < S::tokens && d + 8 * i < S::size)
#pragma unroll
          for (int k = 0; k < yCount; ++k)
            store<4, 4 * int(sizeof(Result))>(&x.y[k].at(t, tile.head, d + 8 * i),
                                              to<Result>(pieces[i]));
    }
}

} // namespace nano::band
