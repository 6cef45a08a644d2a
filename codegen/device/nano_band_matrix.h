// Products along a band on tensor cores, of rows of bf16. Weights that are f32 go in as several
// bf16 each, so that nothing but the sums is rounded, or what results in bf16 do not show. Included
// by nano_band.h.
//
// All of a block's copies are under way at once, and no warp waits for another one after them: what
// hides the time of the copies is that a multiprocessor has several blocks.
#pragma once

#include "nano_matrix_tiles.h"

namespace nano::band {

using mma::Lane;

template <class S, bool isScores>
constexpr BandMatrixPlan matrixPlan =
    bandMatrixPlan({S::tokens, S::heads, S::size, S::width, true, int(sizeof(typename S::First)),
                    S::transpose, int(sizeof(typename S::Second))},
                   isScores);

/// Starts copying x[first + r, head, column + c] to row r and column c of the tile; what the tensor
/// does not have becomes zero. By threads `thread`, `thread` + threads, ….
template <class S, class Tile, int rows, int threads, class T>
NANO_DEVICE void startRows(uint8_t *tile, const SequenceView<const T> &x, int head, int first,
                           int column, int thread) {
#pragma unroll 4
  for (int i = thread; i < rows * Tile::chunks; i += threads) {
    const int row = i / Tile::chunks, chunk = i % Tile::chunks, t = first + row,
              at = column + 16 / int(sizeof(T)) * chunk;
    const bool is = t >= 0 && t < S::tokens && at < S::size;
    copyAsync<16>(tile + Tile::offset(row, chunk), is ? &x.at(t, head, at) : x.base, is ? 16 : 0);
  }
}

/// A warp's 16 × 32 results on their way from fragments to whole rows.
struct Turned {
  float *const rows;

  template <int tiles>
  NANO_DEVICE void set(const Lane &lane, const float (&sums)[tiles][4], int first) const {
    syncWarp();
#pragma unroll
    for (int tile = 0; tile < bandTurnedColumns / 8; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Vec<float, 2> pair;
        pair[0] = sums[first + tile][2 * half];
        pair[1] = sums[first + tile][2 * half + 1];
        store<2, 8>(rows + (lane.group + 8 * half) * bandTurnedStride + 8 * tile + 2 * lane.pair,
                    pair);
      }
    syncWarp();
  }
};

/// A warp's scores on their way from fragments to whole rows: of 16 tokens, each by its place in
/// its band, of which 64 are here at a time, number w at w mod 64. They leave 32 at a time, from a
/// multiple of 32 on: parts of sectors are written as slowly as whole ones.
template <class S> struct Ring {
  float *const scores;
  int left = 0; ///< those before have left

  /// Results 16 columns on: the first of token 0 is number `first` of its band, one before token
  /// 1's.
  NANO_DEVICE void set(const Lane &lane, const float *sums, int first) const {
    syncWarp();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = lane.group + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * lane.pair + i % 2;
      scores[row * bandRingStride + ((first + column - row) & (bandRing - 1))] = sums[i];
    }
    syncWarp();
  }
  template <class Operands> NANO_DEVICE void leave(const Operands &x, int head, int token) {
    const int w = left + laneIndex();
    if (w < S::width)
#pragma unroll 8
      for (int row = 0; row < 16; ++row) {
        // What is no token is no zero times an infinity either.
        const int t = token + row;
        const float score =
            w + t < S::width - 1 ? 0.0f : scores[row * bandRingStride + (w & (bandRing - 1))];
        if (t < S::tokens)
          for (const auto &y : x.y)
            y.at(t, head, w) = typename S::Result(score);
      }
    left += 32;
  }
};

/// A tile of scores: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void scoresByMatrices(long long iteration, const BandOperands<S, yCount> &x) {
  constexpr BandMatrixPlan plan = matrixPlan<S, true>;
  constexpr int size = plan.columns, depth = int(divideUp(S::size, 16));
  using Queries = mma::Tile<16, size>;
  using Keys = mma::Tile<plan.rows, size>;
  const Lane lane;
  const int head = int(iteration % S::heads), begin = int(iteration / S::heads) * 16 * plan.warps,
            token = begin + 16 * lane.warp; // the warp's first
  uint8_t *const keys = dynamicShared<uint8_t>(), *const queries = keys + Keys::bytes +
                                                                   lane.warp * plan.warpBytes;
  Ring<S> ring{reinterpret_cast<float *>(queries)}; // once the queries are in registers
  startRows<S, Queries, 16, 32>(queries, x.first, head, token, 0, lane.lane);
  uint32_t left[depth][1][4];
  for (int part = 0; part < plan.window; part += plan.part) {
    if (part > 0)
      syncThreads();
    startRows<S, Keys, plan.rows, 32 * plan.warps>(
        keys, x.second, head, begin + 16 * (part + 1 - plan.window), 0, int(threadIdx.x));
    copyAsyncCommit();
    copyAsyncWait<0>();
    syncThreads();
    if (part == 0)
#pragma unroll
      for (int k = 0; k < depth; ++k)
        loadMatrix<4>(left[k][0], queries + Queries::block(lane.left, 0, 2 * k));
    for (int step = 0; step < plan.part && part + step < plan.window; step += 2) {
      float sums[1][4][4] = {};
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (step + c < plan.part)
#pragma unroll
          for (int k = 0; k < depth; ++k) {
            uint32_t right[4];
            loadMatrix<4>(right,
                          keys + Keys::block(lane.right, 16 * (lane.warp + step + c), 2 * k));
            mma::multiplyTiles(sums, 2 * c, left[k], right);
          }
      // Key j of token t is number j − t + W − 1 of its band.
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (step + c == plan.part || part + step + c == plan.window)
          continue;
        const int first = 16 * (part + step + c + 1 - plan.window) + S::width - 1;
        ring.set(lane, sums[0][2 * c], first);
        if (first + 1 >= ring.left + 32) // so many of the last token too
          ring.leave(x, head, token);
      }
    }
  }
  while (ring.left < S::width)
    ring.leave(x, head, token);
}

/// The weights of a lane's places in a left 16 × 16 matrix, as so many matrices of bf16: f32 as
/// three, which have all of its bits, or for results in bf16 as two, which have twice theirs.
template <class S> struct Weights {
  using T = typename S::First;
  static constexpr int terms = !isSame<T, float> ? 1 : isSame<typename S::Result, float> ? 3 : 2;
  T number[4][2]; ///< of matrixMultiply's a: of each word the lower half, the upper one

  NANO_DEVICE void split(uint32_t (&left)[terms][1][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (terms == 1) {
        left[0][0][i] = uint32_t(number[i][0].bits) | uint32_t(number[i][1].bits) << 16;
      } else {
        // 8 bits of the significand each. An infinity has no rest.
        float rest[2] = {number[i][0], number[i][1]};
#pragma unroll
        for (int term = 0; term < terms; ++term) {
          const uint32_t low = bitCast<uint32_t>(rest[0]), high = bitCast<uint32_t>(rest[1]);
          left[term][0][i] = selectBytes(low, high, 0x7632);
#pragma unroll
          for (float &number : rest)
            number = abs(number) == infinity
                         ? 0.0f
                         : number - bitCast<float>(bitCast<uint32_t>(number) & 0xffff0000u);
        }
      }
    }
  }
};

/// A warp's weights of a part of its window in shared memory: a line of each token, or transposed
/// of each row of k or v, of those numbers of its band that the part needs, from a multiple of 16
/// bytes on, as p has them; those that the band does not have are zero.
template <class S> struct WarpWeights {
  using T = typename S::First;
  static constexpr BandMatrixPlan plan = matrixPlan<S, false>;
  static constexpr int rows = 16 * plan.part, lines = S::transpose ? rows : 16,
                       each = 16 / int(sizeof(T)), pieces = plan.weightStride / each;
  T *const weights;
  int token, row = 0; ///< the first ones

  /// The number in its band that a line's first weight has, those of the 16 bytes before it apart.
  NANO_DEVICE int firstOf(int line) const {
    return (S::transpose ? token - row : row - token) - line + S::width - 1;
  }

  /// Starts copying, of rows from `first` on.
  template <class View> NANO_DEVICE void start(const View &p, int head, int first) {
    row = first;
    const bool isAligned = p.element == 1 && (reinterpret_cast<uint64_t>(p.base) |
                                              uint64_t(p.sequence * (long long)sizeof(T)) |
                                              uint64_t(p.row * (long long)sizeof(T))) %
                                                     16 ==
                                                 0;
#pragma unroll 4
    for (int i = laneIndex(); i < lines * pieces; i += 32) {
      const int line = i / pieces, at = (S::transpose ? row : token) + line,
                w = (firstOf(line) & -each) + i % pieces * each;
      const int has = at < 0 || at >= S::tokens || w < 0 || w >= S::width ? 0
                      : S::width - w < each                               ? S::width - w
                                                                          : each;
      const T *const from = has > 0 ? &p.at(at, head, w) : p.base;
      T *const to = weights + i * each;
      if (isAligned) {
        copyAsync<16>(to, from, has * int(sizeof(T)));
        continue;
      }
#pragma unroll
      for (int j = 0; j < each; ++j)
        if constexpr (sizeof(T) == 4)
          copyAsync<4>(to + j, j < has ? from + j * p.element : p.base, j < has ? 4 : 0);
        else
          to[j].bits = j < has ? loadReadOnly(from + j * p.element).bits : uint16_t(0);
    }
  }
  /// Of step `step`.
  NANO_DEVICE Weights<S> of(const Lane &lane, int step) const {
    Weights<S> found;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int t = lane.group + i % 2 * 8, r = 16 * step + 2 * lane.pair + i / 2 * 8 + j,
                  line = S::transpose ? r : t, at = S::transpose ? t : r;
        // What is no token is no zero times an infinity either.
        const bool is = S::transpose || row + r >= 0;
        const T &weight = weights[line * plan.weightStride + at + (firstOf(line) & (each - 1))];
        if constexpr (sizeof(T) == 4)
          found.number[i][j] = is ? weight : 0.0f;
        else
          found.number[i][j].bits = is ? weight.bits : uint16_t(0);
      }
    return found;
  }
};

/// Where a warp's part of a tile of sums lies: iteration i of bandProductLaunch's.
template <class S> struct ProductTile {
  static constexpr BandMatrixPlan plan = matrixPlan<S, false>;
  static constexpr int slices = int(divideUp(S::size, plan.columns));
  int head, column, begin, token; ///< the block's first one, and the warp's

  NANO_DEVICE ProductTile(long long iteration, const Lane &lane)
      : head(int(iteration % S::heads)), column(int(iteration / S::heads % slices) * plan.columns),
        begin(int(iteration / S::heads / slices) * 16 * plan.warps), token(begin + 16 * lane.warp) {
  }

  /// Goes through the window of the tile's tokens, a part of it in shared memory at a time: the
  /// block's rows and the warp's weights. add(step) has those of a step there. All threads call it.
  template <class Rows, int yCount, class Add>
  NANO_DEVICE void walk(const BandOperands<S, yCount> &x, uint8_t *rows, WarpWeights<S> &weights,
                        Add &&add) const {
    constexpr int firstStep = S::transpose ? 0 : 1 - plan.window;
    for (int part = 0; part < plan.window; part += plan.part) {
      if (part > 0)
        syncThreads();
      const int first = 16 * (part + firstStep);
      startRows<S, Rows, plan.rows, 32 * plan.warps>(rows, x.second, head, begin + first, column,
                                                     int(threadIdx.x));
      weights.start(x.first, head, token + first);
      copyAsyncCommit();
      copyAsyncWait<0>();
      syncThreads();
      for (int step = 0; step < plan.part && part + step < plan.window; ++step)
        add(step);
    }
  }
};

/// A tile of sums: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void productByMatrices(long long iteration, const BandOperands<S, yCount> &x) {
  constexpr BandMatrixPlan plan = matrixPlan<S, false>;
  constexpr int columns = plan.columns, tiles = columns / 8;
  using Rows = mma::Tile<plan.rows, columns>;
  using Weights = band::Weights<S>;
  const Lane lane;
  const ProductTile<S> tile(iteration, lane);
  uint8_t *const rows = dynamicShared<uint8_t>(), *const own = rows + Rows::bytes +
                                                               lane.warp * plan.warpBytes;
  WarpWeights<S> weights{reinterpret_cast<typename S::First *>(own), tile.token};
  float sums[1][tiles][4] = {};
  tile.template walk<Rows>(x, rows, weights, [&](int step) {
    uint32_t left[Weights::terms][1][4];
    weights.of(lane, step).split(left);
#pragma unroll
    for (int c = 0; c < tiles / 2; ++c) {
      uint32_t right[4];
      loadMatrixTransposed<4>(right, rows + Rows::block(lane.left, 16 * (lane.warp + step), 2 * c));
#pragma unroll
      for (int term = Weights::terms - 1; term >= 0; --term)
        mma::multiplyTiles(sums, 2 * c, left[term], right);
    }
  });
  const Turned turned{reinterpret_cast<float *>(own)};
  constexpr int across = bandTurnedColumns / 2; // two rows at a time
  const int d = 2 * (lane.lane % across), half = lane.lane / across;
#pragma unroll
  for (int c = 0; c < columns; c += bandTurnedColumns) {
    turned.set(lane, sums[0], c / 8);
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
      using Result = typename S::Result;
      const auto pair = nano::load<2, 8>(turned.rows + (i + half) * bandTurnedStride + d);
      if (tile.token + i + half < S::tokens && tile.column + c + d < S::size)
#pragma unroll
        for (int k = 0; k < yCount; ++k)
          store<2, 2 * sizeof(Result)>(
              &x.y[k].at(tile.token + i + half, tile.head, tile.column + c + d), to<Result>(pair));
    }
  }
}

} // namespace nano::band
