// The embedding's gradient, y[v, :] = Σ of the rows x[t, :] with ids[t] = v (nano.scatter_add):
// a stable sort of token positions by id, then a sum for every row of the table.
//
// Two kernels, in this order, with a scratch buffer of scatterScratchBytes(shape) between them. Ids
// that several ops share need be sorted once. A generated kernel describes the op with a struct:
//
//   struct Scatter {
//     using Element = nano::bf16; // of x: nano::bf16 or float
//     using Result = float;       // of y: nano::bf16 or float
//     static constexpr int tokens = 49152, rows = 50257, columns = 768; // T, V, D
//     // Rows of x and of y are contiguous and begin at multiples of 16 bytes, D is one of 8.
//     static constexpr bool vectorRows = true;
//   };
//   … nano::scatterSort<Scatter>(work.first, {work.template pointer<const int>(0)},
//                                work.template pointer<int>(1));
//   … nano::ScatterOperands<Scatter> x;
//     x.x = {work.template pointer<const nano::bf16>(0), 768}; // stride of rows
//     x.scratch = work.template pointer<const int>(1);
//     x.y[0] = {work.template pointer<float>(2), 768};
//     nano::scatterSum<Scatter>(work.first, x);
//
// Threads, iterations and dynamic shared bytes are scatterSortLaunch(shape) and
// scatterSumLaunch(shape); iterationsPerBlock is 1, iterations of a segment count from 0. Rows that
// no id names become zero. The order of a row's sum depends on the number of its tokens alone: in
// order of t up to `manyTokens` of them; more are cut into as many parts of equal length as a block
// has warps, each summed in order of t, and these sums are added in order.
#pragma once

#include "nano_attention.h"
#include "nano_scatter_shape.h"

namespace nano {

/// A matrix in memory: element (r, c) is at base[r·row + c·element].
template <class T> struct MatrixView {
  T *base;
  long long row, element = 1;
};

template <class S, int yCount = 1> struct ScatterOperands {
  static constexpr int yPlaces = yCount;
  MatrixView<const typename S::Element> x;
  const int *scratch;
  MatrixView<typename S::Result> y[yCount];
};

namespace scatter {

constexpr int manyTokens = 64;

NANO_DEVICE int population(uint32_t bits) {
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  return int((((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
}

/// The lanes of `lanes` whose `value`, of `bits` bits, is this lane's.
template <int bits> NANO_DEVICE uint32_t lanesWith(int value, uint32_t lanes) {
#pragma unroll
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = value >> bit & 1;
    const uint32_t others = ballot(set);
    lanes &= set ? others : ~others;
  }
  return lanes;
}

NANO_BOTH constexpr int bitsOf(int count) {
  int bits = 0;
  while ((1 << bits) < count)
    ++bits;
  return bits;
}

/// Eight columns of a lane within a slice of a row: consecutive ones, or every 32nd.
template <class S> struct LaneColumns {
  int first;
  NANO_DEVICE LaneColumns(int slice)
      : first(slice * scatterSumColumns + laneIndex() * (S::vectorRows ? 8 : 1)) {}
  NANO_DEVICE int column(int j) const { return first + j * (S::vectorRows ? 1 : 32); }

  NANO_DEVICE void load(float (&values)[8], const MatrixView<const typename S::Element> &x,
                        int t) const {
    using Element = typename S::Element;
    const Element *row = x.base + t * x.row;
    if constexpr (S::vectorRows) {
      struct alignas(16) Vector {
        Element elements[16 / sizeof(Element)];
      };
#pragma unroll
      for (int j = 0; j < 8; j += 16 / sizeof(Element)) {
        Vector v{};
        if (first < S::columns)
          v = loadReadOnly(reinterpret_cast<const Vector *>(row + first + j));
#pragma unroll
        for (int i = 0; i < 16 / int(sizeof(Element)); ++i)
          values[j + i] = float(v.elements[i]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        values[j] = column(j) < S::columns ? float(row[column(j) * x.element]) : 0.0f;
    }
  }

  template <int places>
  NANO_DEVICE void store(const float (&values)[8],
                         const MatrixView<typename S::Result> (&y)[places], int r) const {
    using Result = typename S::Result;
#pragma unroll
    for (int p = 0; p < places; ++p) {
      Result *row = y[p].base + r * y[p].row;
      if constexpr (S::vectorRows) {
        struct alignas(16) Vector {
          Result elements[16 / sizeof(Result)];
        };
#pragma unroll
        for (int j = 0; j < 8; j += 16 / sizeof(Result)) {
          Vector v;
#pragma unroll
          for (int i = 0; i < 16 / int(sizeof(Result)); ++i)
            v.elements[i] = Result(values[j + i]);
          if (first < S::columns)
            storeStreaming(reinterpret_cast<Vector *>(row + first + j), v);
        }
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (column(j) < S::columns)
            row[column(j) * y[p].element] = Result(values[j]);
      }
    }
  }
};

/// sums ← Σ x[positions[i], :] over i from … to, in this order, by a warp.
template <class S, class Operands>
NANO_DEVICE void sumRows(float (&sums)[8], const Operands &x, const LaneColumns<S> &columns,
                         int from, int to) {
#pragma unroll
  for (float &sum : sums)
    sum = 0;
  for (int i = from; i < to; i += 32) {
    const int count = to - i < 32 ? to - i : 32;
    const int mine = x.scratch[i + (laneIndex() < count ? laneIndex() : 0)];
    for (int lane = 0; lane < count; lane += 4) {
      float rows[4][8];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int t = shuffle(mine, lane + j < count ? lane + j : lane);
        columns.load(rows[j], x.x, t);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int c = 0; c < 8; ++c)
          sums[c] += lane + j < count ? rows[j][c] : 0;
    }
  }
}

} // namespace scatter

/// Sorts the positions of the ids of some rows of the table: iteration i of scatterSortLaunch's.
/// Each warp counts the ids in its part of the tokens, and places its tokens behind those of
/// earlier warps. All threads of the block call it.
template <class S> NANO_DEVICE void scatterSort(long long iteration, TokenView ids, int *scratch) {
  constexpr int blockRows = scatterSortRows(S::rows), warps = scatterSortThreads / 32;
  constexpr int part = 32 * divideUp(S::tokens, 32 * warps);
  int *const counts =
      dynamicShared<int>(); // [warps][blockRows], then the first position of each row
  int *const starts = counts + warps * blockRows, *const belows = starts + blockRows;
  const int begin = int(iteration) * blockRows,
            rows = begin + blockRows < S::rows ? blockRows : S::rows - begin;
  const int warp = warpIndex(), lane = laneIndex();
  const int from = warp * part, to = from + part < S::tokens ? from + part : S::tokens;
  int *const mine = counts + warp * blockRows;

  for (int i = lane; i < blockRows; i += 32)
    mine[i] = 0;
  syncWarp();
  int below = 0;
#pragma unroll 8
  for (int t = from + lane; t < to; t += 32) {
    const int row = ids[t] - begin;
    below += row < 0;
    if (row >= 0 && row < rows)
      fetchAdd(&mine[row], 1);
  }
  below = warpSum(below);
  if (lane == 0)
    belows[warp] = below;
  syncThreads();
  for (int row = threadIdx.x; row < rows; row += scatterSortThreads) {
    int sum = 0;
    for (int w = 0; w < warps; ++w) {
      const int count = counts[w * blockRows + row];
      counts[w * blockRows + row] = sum;
      sum += count;
    }
    starts[row] = sum;
  }
  syncThreads();
  if (warp == 0) {
    int before = warpSum(lane < warps ? belows[lane] : 0);
    for (int first = 0; first < rows; first += 32) {
      const int count = first + lane < rows ? starts[first + lane] : 0;
      int sum = count;
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = shuffleUp(sum, distance);
        sum += lane >= distance ? other : 0;
      }
      if (first + lane < rows) {
        starts[first + lane] = before + sum - count;
        scratch[S::tokens + begin + first + lane] = before + sum - count;
      }
      before += shuffle(sum, 31);
    }
    if (begin + rows == S::rows && lane == 0)
      scratch[S::tokens + S::rows] = S::tokens;
  }
  syncThreads();
  for (int first = from; first < to; first += 32) {
    const int row = first + lane < to ? ids[first + lane] - begin : -1;
    const bool found = row >= 0 && row < rows;
    const uint32_t all = ballot(found);
    if (all == 0)
      continue;
    const uint32_t same = scatter::lanesWith<scatter::bitsOf(blockRows)>(row, all);
    const int rank = scatter::population(same & ((1u << lane) - 1));
    if (found)
      scratch[starts[row] + mine[row] + rank] = first + lane;
    syncWarp();
    if (found && rank == 0)
      mine[row] += scatter::population(same);
    syncWarp();
  }
}

/// Sums of some rows of the table, in some columns: iteration i of scatterSumLaunch's. All threads
/// of the block call it.
template <class S, int yCount>
NANO_DEVICE void scatterSum(long long iteration, const ScatterOperands<S, yCount> &x) {
  constexpr int slices = divideUp(S::columns, scatterSumColumns), warps = scatterSumThreads / 32;
  const scatter::LaneColumns<S> columns(iteration % slices);
  const int begin = int(iteration / slices) * scatterSumRows,
            end = begin + scatterSumRows < S::rows ? begin + scatterSumRows : S::rows;
  const int *const starts = x.scratch + S::tokens;
  float (*const partial)[scatterSumColumns] =
      reinterpret_cast<float (*)[scatterSumColumns]>(dynamicShared<float>());
  const int warp = warpIndex(), lane = laneIndex();
  float sums[8];
  bool many = false;
  for (int row = begin + warp; row < end; row += warps) {
    const int from = starts[row], to = starts[row + 1];
    if (to - from > scatter::manyTokens) {
      many = true;
      continue;
    }
    scatter::sumRows(sums, x, columns, from, to);
    columns.store(sums, x.y, row);
  }
  if (!syncThreadsAny(many))
    return;
  for (int row = begin; row < end; ++row) {
    const int from = starts[row], to = starts[row + 1], part = (to - from + warps - 1) / warps;
    if (to - from <= scatter::manyTokens)
      continue;
    const int first = from + warp * part;
    scatter::sumRows(sums, x, columns, first < to ? first : to,
                     first + part < to ? first + part : to);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      partial[warp][j * 32 + lane] = sums[j];
    syncThreads();
    if (warp == (row - begin) % warps) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float sum = 0;
        for (int w = 0; w < warps; ++w)
          sum += partial[w][j * 32 + lane];
        sums[j] = sum;
      }
      columns.store(sums, x.y, row);
    }
    syncThreads();
  }
}

} // namespace nano
