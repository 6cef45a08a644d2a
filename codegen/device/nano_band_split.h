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

template <int rows, int columns> using KeyTile = WideTile<rows, columns, true>;

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

/// A warp's 16 queries in registers: of a lane rows group and group + 8, columns 16c + 4·pair ….
template <class S> struct SplitQueries {
  static constexpr int depth = int(divideUp(S::size, 16)), steps = 4;
  Vec<float, 4> left[depth][2];

  template <class Tile> NANO_DEVICE void load(const uint8_t *tile, const Lane &lane, int row) {
#pragma unroll
    for (int c = 0; c < depth; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        left[c][half] = nano::load<4>(reinterpret_cast<const float *>(
            tile + Tile::offset(row + lane.group + 8 * half, 4 * c + lane.pair)));
  }
  template <class Keys, int tiles, int count>
  NANO_DEVICE void multiply(float (&sums)[tiles][4], const Lane &lane, const uint8_t *keys,
                            const int (&rows)[count]) const {
#pragma unroll
    for (int c = 0; c < depth; ++c) {
      Vec<float, 4> right[tiles];
#pragma unroll
      for (int j = 0; j < tiles; ++j)
        right[j] = nano::load<4>(reinterpret_cast<const float *>(
            keys + Keys::offset(rows[j / 2] + j % 2 * 8 + lane.group, 4 * c + lane.pair)));
#pragma unroll
      for (int k = 0; k < 4; k += 2) {
        const SplitLeft of(left[c][0][k], left[c][1][k], left[c][0][k + 1], left[c][1][k + 1]);
        float pairs[tiles][2];
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
          pairs[j][0] = right[j][k];
          pairs[j][1] = right[j][k + 1];
        }
        multiplySplit(sums, 0, of, pairs);
      }
    }
  }
};

/// Tiles of scores: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void scoresBySplitting(long long iteration, const BandOperands<S, yCount> &x) {
  walkScores<S, KeyTile, SplitQueries<S>>(iteration, x);
}

/// Tiles of sums: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void productBySplitting(long long iteration, const BandOperands<S, yCount> &x) {
  using Walk = band::Walk<S, false>;
  constexpr BandMatrixPlan plan = Walk::plan;
  constexpr int columns = plan.columns / plan.across, // of a warp
      most = plan.part < bandSteps ? plan.part : bandSteps / 2;
  using Rows = WideTile<Walk::ringRows, plan.columns, false>;
  const Lane lane;
  const int group = lane.warp / plan.across, column = lane.warp % plan.across * columns;
  uint8_t *const rows = dynamicShared<uint8_t>();
  const Weights<S> weights{reinterpret_cast<typename S::First *>(rows + Walk::ringBytes)};
  // sums[4c + j]: of columns 32c + 4n + j, n = 0 … 7.
  float sums[columns / 8][4] = {};
  auto multiply = [&](const Walk &walk, auto &&left) {
#pragma unroll 1
    for (int begin = 0; begin < walk.steps(); begin += most) {
      typename Weights<S>::Left found[most];
#pragma unroll
      for (int i = 0; i < most; ++i)
        found[i] = weights.of(lane, group, begin + i < walk.steps() ? begin + i : begin);
      if (Weights<S>::isBegin(walk))
#pragma unroll
        for (int i = 0; i < most; ++i)
          Weights<S>::mask(found[i], walk, lane, group, begin + i);
      if (begin + most >= walk.steps())
        left();
#pragma unroll
      for (int i = 0; i < most; ++i) {
        if (begin + i >= walk.steps())
          break;
        const int first = 16 * walk.slotOf(group + begin + i) + 2 * lane.pair;
        auto weight = [&](int k, int j) { return float(found[i].number[k][j]); };
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const SplitLeft of(weight(0, j), weight(1, j), weight(2, j), weight(3, j));
#pragma unroll
          for (int c = 0; c < columns / 32; ++c) {
            Vec<float, 4> right[2];
#pragma unroll
            for (int k = 0; k < 2; ++k)
              right[k] = nano::load<4>(reinterpret_cast<const float *>(
                  rows + Rows::offset(first + j + 8 * k, (column + 32 * c) / 4 + lane.group)));
            float pairs[4][2];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
              pairs[k][0] = right[0][k];
              pairs[k][1] = right[1][k];
            }
            multiplySplit(sums, 4 * c, of, pairs);
          }
        }
      }
    }
  };
  auto leave = [&](const Walk &walk) {
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
          float &low = sums[4 * c + j][2 * half], &high = sums[4 * c + j][2 * half + 1];
          const float other = shuffleXor(isOdd ? low : high, 1);
          pieces[0][j] = isOdd ? other : low;
          pieces[1][j] = isOdd ? high : other;
          low = high = 0;
        }
        const int t = walk.token + 16 * group + lane.group + 8 * half,
                  d = walk.column + column + 32 * c + 8 * (lane.pair & 2) + 4 * isOdd;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (t < S::tokens && d + 8 * i < S::size)
#pragma unroll
            for (int k = 0; k < yCount; ++k)
              store<4, 4 * int(sizeof(Result))>(&x.y[k].at(t, walk.head, d + 8 * i),
                                                to<Result>(pieces[i]));
      }
  };
  walkProducts<S, Rows>(iteration, x, rows, weights, multiply, leave);
}

} // namespace nano::band
