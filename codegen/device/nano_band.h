// Products of tokens with the tokens of a band before them (nano.band_scores), and sums over a band
// with weights (nano.band_product), in f32, by tiles of 4×4 results a thread.
//
// A generated kernel describes the op with a struct:
//
//   struct Band {
//     using First = nano::bf16;  // of q, or p: nano::bf16 or float
//     using Second = nano::bf16; // of k, or v
//     using Result = float;
//     static constexpr int tokens = 49152, heads = 6, size = 128, width = 112; // T, H, D, W
//     static constexpr int multiprocessors = 132; // see BandShape
//     static constexpr bool transpose = false; // of products
//     // The rows of q, k, v and y begin at multiples of 16 bytes, and D is a multiple of 8, or
//     // of 4 where k or v is f32. Scores: q and k are of one type, D is at most 256.
//     static constexpr bool onMatrices = true;
//   };
//   … nano::BandOperands<Band> x;
//     x.first = {work.template pointer<const nano::bf16>(0), 768, 128, 1}; // strides
//     x.second = {work.template pointer<const nano::bf16>(1), 768, 128, 1};
//     x.y[0] = {work.template pointer<float>(2), 672, 112, 1};
//     nano::bandScores<Band>(work.begin, x); // or bandProduct
//
// Threads, iterations and dynamic shared bytes are bandScoresLaunch(shape) and
// bandProductLaunch(shape); iterationsPerBlock is 1. Sums are in order of what is summed over.
#pragma once

#include "nano_band_shape.h"
#include "nano_recurrence.h"

namespace nano {

/// Of tensors [T, H, …]: their views' sequences are tokens, their rows heads.
template <class S, int yCount = 1> struct BandOperands {
  SequenceView<const typename S::First> first;   ///< q, or p
  SequenceView<const typename S::Second> second; ///< k, or v
  SequenceView<typename S::Result> y[yCount];
};

namespace band {

struct alignas(16) Four {
  float element[4];
};

NANO_DEVICE Four loadFour(const float *at) { return *reinterpret_cast<const Four *>(at); }

/// A block's tile of results, and a thread's 4×4 of it.
template <class S, long long columns> struct Tile {
  static constexpr int tokens = bandTokens(columns), width = bandColumns(columns),
                       stride = bandStride(tokens), across = width / 4;
  NANO_DEVICE explicit Tile(long long iteration)
      : head(int(iteration % S::heads)), token(int(iteration / S::heads / slices) * tokens),
        column(int(iteration / S::heads % slices) * width), x(int(threadIdx.x) % across * 4),
        y(int(threadIdx.x) / across * 4) {}

  template <class Operands> NANO_DEVICE void store(const Operands &operands) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (token + y + i < S::tokens && column + x + j < columns)
          for (const auto &place : operands.y)
            place.at(token + y + i, head, column + x + j) = typename S::Result(sums[i][j]);
  }

  static constexpr int slices = int(divideUp(columns, width));
  int head, token, column; ///< where the tile begins
  int x, y;                ///< where the thread's results begin in it
  float sums[4][4] = {};
};

/// A tile of scores.
template <class S, int yCount>
NANO_DEVICE void plainScores(long long iteration, const BandOperands<S, yCount> &x) {
  using Tile = Tile<S, S::width>;
  Tile tile(iteration);
  constexpr int keys = Tile::tokens + Tile::width, keyStride = bandStride(keys);
  // [depth][tokens], [depth][keys]: key r is token firstKey + r.
  float *const q = dynamicShared<float>(), *const k = q + bandDepth * Tile::stride;
  const int firstKey = tile.token + tile.column - S::width + 1;
  for (int begin = 0; begin < S::size; begin += bandDepth) {
    auto fill = [&](float *to, int stride, int rows, int firstRow, const auto &from) {
      for (int i = threadIdx.x; i < rows * bandDepth; i += bandThreads) {
        const int row = i / bandDepth, d = i % bandDepth, t = firstRow + row;
        const bool is = t >= 0 && t < S::tokens && begin + d < S::size;
        to[d * stride + row] = is ? float(from.at(t, tile.head, begin + d)) : 0.0f;
      }
    };
    fill(q, Tile::stride, Tile::tokens, tile.token, x.first);
    fill(k, keyStride, keys, firstKey, x.second);
    syncThreads();
#pragma unroll 4
    for (int d = 0; d < bandDepth; ++d) {
      const Four rows = loadFour(q + d * Tile::stride + tile.y);
      const float *const at = k + d * keyStride + tile.y + tile.x;
      const Four low = loadFour(at), high = loadFour(at + 4);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          tile.sums[i][j] =
              fma(rows.element[i], i + j < 4 ? low.element[(i + j) % 4] : high.element[(i + j) % 4],
                  tile.sums[i][j]);
    }
    syncThreads();
  }
  // What is no token is no zero times an infinity either.
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (firstKey + tile.y + tile.x + i + j < 0)
        tile.sums[i][j] = 0;
  tile.store(x);
}

/// A tile of sums.
template <class S, int yCount>
NANO_DEVICE void plainProduct(long long iteration, const BandOperands<S, yCount> &x) {
  using Tile = Tile<S, S::size>;
  Tile tile(iteration);
  // [depth][tokens]: the weight of token t for row t + u of those that follow, [rows][width].
  float *const weights = dynamicShared<float>(), *const v = weights + bandDepth * Tile::stride;
  constexpr int rows = Tile::tokens + bandDepth;
  for (int begin = 0; begin < S::width; begin += bandDepth) {
    const int firstRow = tile.token + begin - (S::transpose ? 0 : S::width - 1);
    for (int i = threadIdx.x; i < rows * bandDepth; i += bandThreads) {
      // Along a row of p.
      const int row = i / bandDepth, u = i % bandDepth, local = S::transpose ? row - u : row;
      const int t = tile.token + local, other = firstRow + local + u;
      if (local < 0 || local >= Tile::tokens)
        continue;
      const bool is = t < S::tokens && other >= 0 && other < S::tokens && begin + u < S::width;
      float weight = 0;
      if (is)
        weight = float(S::transpose ? x.first.at(other, tile.head, S::width - 1 - begin - u)
                                    : x.first.at(t, tile.head, begin + u));
      weights[u * Tile::stride + local] = weight;
    }
    for (int i = threadIdx.x; i < rows * Tile::width; i += bandThreads) {
      const int t = firstRow + i / Tile::width, d = tile.column + i % Tile::width;
      const bool is = t >= 0 && t < S::tokens && d < S::size;
      v[i] = is ? float(x.second.at(t, tile.head, d)) : 0.0f;
    }
    syncThreads();
    Four window[4]; // rows y + u … y + u + 3
#pragma unroll
    for (int i = 0; i < 3; ++i)
      window[i] = loadFour(v + (tile.y + i) * Tile::width + tile.x);
#pragma unroll
    for (int u = 0; u < bandDepth; ++u) {
      window[(u + 3) % 4] = loadFour(v + (tile.y + u + 3) * Tile::width + tile.x);
      const Four weight = loadFour(weights + u * Tile::stride + tile.y);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          tile.sums[i][j] = fma(weight.element[i], window[(u + i) % 4].element[j], tile.sums[i][j]);
    }
    syncThreads();
  }
  tile.store(x);
}

} // namespace band
} // namespace nano

#include "nano_band_matrix.h"
#include "nano_band_planes.h"
#include "nano_band_split.h"

namespace nano {

/// A tile of scores: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void bandScores(long long iteration, const BandOperands<S, yCount> &x) {
  if constexpr (hasBandPlanes(band::Planes<S, true>::shape, true))
    band::PlaneScores<S>(iteration).run(x);
  else if constexpr (S::onMatrices && sizeof(typename S::Second) == 4)
    band::scoresBySplitting(iteration, x);
  else if constexpr (S::onMatrices)
    band::scoresByMatrices(iteration, x);
  else
    band::plainScores(iteration, x);
}

/// A tile of sums: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void bandProduct(long long iteration, const BandOperands<S, yCount> &x) {
  if constexpr (hasBandPlanes(band::Planes<S, false>::shape, false))
    band::PlaneProducts<S>(iteration).run(x);
  else if constexpr (S::onMatrices && sizeof(typename S::Second) == 4)
    band::productBySplitting(iteration, x);
  else if constexpr (S::onMatrices)
    band::productByMatrices(iteration, x);
  else
    band::plainProduct(iteration, x);
}

} // namespace nano
