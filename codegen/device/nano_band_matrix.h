// Products along a band on tensor cores, of rows of bf16. Weights that are f32 go in as three bf16
// each, which together have their bits, so that nothing but the sums is rounded. Included by
// nano_band.h.
#pragma once

#include "nano_matrix_tiles.h"

namespace nano::band {

using mma::Lane;

constexpr int matrixTokens = bandMatrixTokens, matrixRows = bandMatrixRows,
              matrixThreads = bandMatrixThreads;

/// Starts copying x[first + r, head, column + c] to row r and column c of the tile; what the tensor
/// does not have becomes zero. By all threads of the block.
template <class S, int columns, int rows, class View>
NANO_DEVICE void startRows(uint8_t *tile, const View &x, int head, int first, int column) {
  using Tile = mma::Tile<rows, columns>;
  const int chunk = int(threadIdx.x) % Tile::chunks, at = column + 8 * chunk;
  constexpr int step = matrixThreads / Tile::chunks;
#pragma unroll
  for (int row = int(threadIdx.x) / Tile::chunks; row < rows; row += step) {
    const int t = first + row;
    const bool is = t >= 0 && t < S::tokens && at < S::size;
    copyAsync<16>(tile + Tile::offset(row, chunk), is ? &x.at(t, head, at) : x.base, is ? 16 : 0);
  }
}

/// A warp's 16 × 64 results on their way from fragments to whole rows.
struct Turned {
  static constexpr int stride = bandTurnedStride; // 8 more than a multiple of 32: no conflicts
  float *const rows;
  NANO_DEVICE explicit Turned(float *all) : rows(all + warpIndex() * 16 * stride) {}

  NANO_DEVICE void set(const Lane &lane, const float (&sums)[8][4]) const {
    syncWarp();
#pragma unroll
    for (int tile = 0; tile < 8; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Vec<float, 2> pair;
        pair[0] = sums[tile][2 * half];
        pair[1] = sums[tile][2 * half + 1];
        store<2, 8>(rows + (lane.group + 8 * half) * stride + 8 * tile + 2 * lane.pair, pair);
      }
    syncWarp();
  }
};

/// A tile of scores: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void scoresByMatrices(long long iteration, const BandOperands<S, yCount> &x) {
  constexpr int size = bandMatrixSize(S::size), tiles = matrixRows / 8,
                chunks = int(divideUp(matrixTokens + S::width - 1, matrixRows));
  using Queries = mma::Tile<matrixTokens, size>;
  using Keys = mma::Tile<matrixRows, size>;
  const int head = int(iteration % S::heads), begin = int(iteration / S::heads) * matrixTokens,
            firstKey = begin + matrixTokens - chunks * matrixRows;
  uint8_t *const queries = dynamicShared<uint8_t>(), *const keys = queries + Queries::bytes;
  const Turned turned(reinterpret_cast<float *>(keys + 2 * Keys::bytes));
  startRows<S, size, matrixTokens>(queries, x.first, head, begin, 0);
  startRows<S, size, matrixRows>(keys, x.second, head, firstKey, 0);
  copyAsyncCommit();

  const Lane lane;
  const int token = begin + 16 * lane.warp; // the warp's first
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int key = firstKey + chunk * matrixRows;
    copyAsyncWait<0>();
    syncThreads();
    if (chunk + 1 < chunks) {
      startRows<S, size, matrixRows>(keys + (chunk + 1) % 2 * Keys::bytes, x.second, head,
                                     key + matrixRows, 0);
      copyAsyncCommit();
    }
    if (key > token + 15 || key + matrixRows <= token - S::width + 1)
      continue;
    float sums[1][tiles][4] = {};
    const uint8_t *const here = keys + chunk % 2 * Keys::bytes;
#pragma unroll
    for (int k = 0; k < int(divideUp(S::size, 16)); ++k) {
      uint32_t left[1][4];
      loadMatrix<4>(left[0], queries + Queries::block(lane.left, 16 * lane.warp, 2 * k));
#pragma unroll
      for (int c = 0; c < tiles / 2; ++c) {
        uint32_t right[4];
        loadMatrix<4>(right, here + Keys::block(lane.right, 16 * c, 2 * k));
        mma::multiplyTiles(sums, 2 * c, left, right);
      }
    }
    turned.set(lane, sums[0]);
    // Key j of token t is number j − t + W − 1 of its band.
#pragma unroll 4
    for (int row = 0; row < 16; ++row) {
      const int t = token + row;
#pragma unroll
      for (int column = lane.lane; column < matrixRows; column += 32) {
        const int w = key + column - t + S::width - 1;
        // What is no token is no zero times an infinity either.
        const float score = key + column < 0 ? 0.0f : turned.rows[row * Turned::stride + column];
        if (t < S::tokens && w >= 0 && w < S::width)
#pragma unroll
          for (int k = 0; k < yCount; ++k)
            x.y[k].at(t, head, w) = typename S::Result(score);
      }
    }
  }
}

/// The weights of a lane's places in a left 16 × 16 matrix, as so many matrices of bf16.
template <class T> struct Weights {
  static constexpr int terms = isSame<T, float> ? 3 : 1;
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

/// A tile of sums: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void productByMatrices(long long iteration, const BandOperands<S, yCount> &x) {
  constexpr int columns = bandMatrixColumns, tiles = columns / 8,
                slices = int(divideUp(S::size, columns)),
                chunks = int(divideUp(matrixTokens + S::width - 1, matrixRows));
  using Rows = mma::Tile<matrixRows, columns>;
  const int head = int(iteration % S::heads), column = int(iteration / S::heads % slices) * columns,
            begin = int(iteration / S::heads / slices) * matrixTokens,
            firstRow = S::transpose ? begin : begin + matrixTokens - chunks * matrixRows;
  uint8_t *const rows = dynamicShared<uint8_t>();
  startRows<S, columns, matrixRows>(rows, x.second, head, firstRow, column);
  copyAsyncCommit();

  const Lane lane;
  const int token = begin + 16 * lane.warp; // the warp's first
  // This lane's first weight, and from one to that of the next token or row.
  int row = firstRow + 2 * lane.pair;
  const int t = token + lane.group;
  const auto &p = x.first;
  const long long ofToken = S::transpose ? p.element : p.sequence - p.element,
                  ofRow = S::transpose ? p.sequence - p.element : p.element;
  const int numberAtFirst = S::width - 1 - (S::transpose ? row - t : t - row);
  const typename S::First *from = &p.at(S::transpose ? row : t, head, numberAtFirst);
  using Weights = band::Weights<typename S::First>;
  // The next step's.
  auto load = [&] {
    Weights weights;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int later = i / 2 % 2 * 8, other = row + i / 4 * 8 + i % 2, apart = t + later - other,
                w = S::width - 1 - (S::transpose ? -apart : apart);
      const bool is = w >= 0 && w < S::width &&
                      (S::transpose ? other < S::tokens : t + later < S::tokens && other >= 0);
      weights.number[i / 2][i % 2] =
          is ? loadReadOnly(from + later * ofToken + (other - row) * ofRow)
             : typename S::First(0.0f);
    }
    row += 16;
    from += 16 * ofRow;
    return weights;
  };
  Weights next = load(); // one step before they are needed
  float sums[1][tiles][4] = {};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int chunkRow = firstRow + chunk * matrixRows;
    copyAsyncWait<0>();
    syncThreads();
    if (chunk + 1 < chunks) {
      startRows<S, columns, matrixRows>(rows + (chunk + 1) % 2 * Rows::bytes, x.second, head,
                                        chunkRow + matrixRows, column);
      copyAsyncCommit();
    }
    const uint8_t *const here = rows + chunk % 2 * Rows::bytes;
#pragma unroll
    for (int k = 0; k < matrixRows / 16; ++k) {
      uint32_t left[Weights::terms][1][4];
      next.split(left);
      next = load();
      const int begins = chunkRow + 16 * k, first = S::transpose ? token : token - S::width + 1;
      if (begins >= first + 15 + S::width || begins + 15 < first)
        continue;
#pragma unroll
      for (int c = 0; c < tiles / 2; ++c) {
        uint32_t right[4];
        loadMatrixTransposed<4>(right, here + Rows::block(lane.left, 16 * k, 2 * c));
#pragma unroll
        for (int term = Weights::terms - 1; term >= 0; --term)
          mma::multiplyTiles(sums, 2 * c, left[term], right);
      }
    }
  }
  syncThreads();
  const Turned turned(dynamicShared<float>());
  turned.set(lane, sums[0]);
  const int d = column + 2 * lane.lane;
#pragma unroll 4
  for (int i = 0; i < 16; ++i) {
    using Result = typename S::Result;
    const auto pair = nano::load<2, 8>(turned.rows + i * Turned::stride + 2 * lane.lane);
    if (token + i < S::tokens && d < S::size)
#pragma unroll
      for (int k = 0; k < yCount; ++k)
        store<2, 2 * sizeof(Result)>(&x.y[k].at(token + i, head, d), to<Result>(pair));
  }
}

} // namespace nano::band
