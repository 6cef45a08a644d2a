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
//   … nano::scatterSort<Scatter>(work.begin, {work.template pointer<const int>(0)},
//                                work.template pointer<int>(1));
//   … nano::ScatterOperands<Scatter> x;
//     x.x = {work.template pointer<const nano::bf16>(0), 768}; // stride of rows
//     x.scratch = work.template pointer<const int>(1);
//     x.y[0] = {work.template pointer<float>(2), 768};
//     nano::scatterSum<Scatter>(work.begin, x);
//
// Threads, iterations and dynamic shared bytes are scatterSortLaunch(shape) and
// scatterSumLaunch(shape); iterationsPerBlock is 1, iterations of a segment count from 0. Rows that
// no id names become zero. The order of a row's sum depends on the number of its tokens alone: in
// order of t up to scatterManyTokens of them; more are cut into 16 parts of equal length, each
// summed in order of t, and these sums are added in order.
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

/// Eight columns of one of `lanes` lanes that share a slice of a row: consecutive ones, or every
/// so many'th.
template <class S, int lanes> struct LaneColumns {
  int first;
  NANO_DEVICE LaneColumns(int slice, int lane)
      : first(slice * 8 * lanes + lane * (S::vectorRows ? 8 : 1)) {}
  NANO_DEVICE int column(int j) const { return first + j * (S::vectorRows ? 1 : lanes); }

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

/// The sums of some columns over `count` rows of the table from `begin` on, those of them that are
/// before `end` and have few tokens, by a warp.
template <class S, int count, class Operands>
NANO_DEVICE void sumFew(const Operands &x, int slice, int begin, int end) {
  constexpr int ahead = 4;
  const int *const starts = x.scratch + 2 * S::tokens;
  const LaneColumns<S, 32> columns(slice, laneIndex());
  const int last = begin + laneIndex() < end ? begin + laneIndex() : end;
  const int mine = begin < end && laneIndex() <= count ? starts[last] : 0;
  int positions[count], tokens[count]; // of a row: this lane's sorted position; their number
#pragma unroll
  for (int row = 0; row < count; ++row) {
    const int from = shuffle(mine, row);
    tokens[row] = shuffle(mine, row + 1) - from;
    const bool is = laneIndex() < tokens[row] && tokens[row] <= scatterManyTokens;
    positions[row] = is ? x.scratch[from + laneIndex()] : 0;
  }
#pragma unroll
  for (int row = 0; row < count; ++row) {
    if (begin + row >= end || tokens[row] > scatterManyTokens)
      continue;
    float sums[8] = {};
    for (int i = 0; i < tokens[row]; i += ahead) {
      float values[ahead][8];
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        const int t = shuffle(positions[row], i + j < tokens[row] ? i + j : i);
        columns.load(values[j], x.x, t);
      }
#pragma unroll
      for (int j = 0; j < ahead; ++j)
#pragma unroll
        for (int c = 0; c < 8; ++c)
          sums[c] += i + j < tokens[row] ? values[j][c] : 0;
    }
    columns.store(sums, x.y, begin + row);
  }
}

/// The sum of some columns of one row of the table over sorted positions from … to, by a block:
/// half warps sum parts of equal length.
template <class S, class Operands>
NANO_DEVICE void sumMany(const Operands &x, int slice, int row, int from, int to) {
  constexpr int lanes = 16, parts = scatterSumThreads / lanes, ahead = 8;
  static_assert(8 * lanes == scatterManyColumns);
  float *const partial = dynamicShared<float>(); // [parts][8][lanes]
  const int lane = threadIdx.x % lanes, number = threadIdx.x / lanes;
  const LaneColumns<S, lanes> columns(slice, lane);
  const int part = (to - from + parts - 1) / parts, first = from + number * part,
            last = first + part < to ? first + part : to;
  float sums[8] = {};
  for (int i = first; i < last; i += ahead) {
    float values[ahead][8];
#pragma unroll
    for (int j = 0; j < ahead; ++j)
      columns.load(values[j], x.x, x.scratch[i + j < last ? i + j : i]);
#pragma unroll
    for (int j = 0; j < ahead; ++j)
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sums[c] += i + j < last ? values[j][c] : 0;
  }
#pragma unroll
  for (int c = 0; c < 8; ++c)
    partial[(number * 8 + c) * lanes + lane] = sums[c];
  syncThreads();
  if (number == 0) {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      float sum = 0;
      for (int p = 0; p < parts; ++p)
        sum += partial[(p * 8 + c) * lanes + lane];
      sums[c] = sum;
    }
    columns.store(sums, x.y, row);
  }
  syncThreads();
}

} // namespace scatter

/// Sorts the positions of the ids of some rows of the table: iteration i of scatterSortLaunch's.
/// Each warp counts the ids in its part of the tokens, and places its tokens behind those of
/// earlier warps. All threads of the block call it.
template <class S> NANO_DEVICE void scatterSort(long long iteration, TokenView ids, int *scratch) {
  constexpr int blockRows = scatterSortRows(S::rows), warps = scatterSortThreads / 32, ahead = 8;
  constexpr int part = 32 * divideUp(S::tokens, 32 * warps);
  int *const counts = dynamicShared<int>(); // [warps][blockRows]: before a warp, of the block's row
  int *const starts = counts + warps * blockRows, *const belows = starts + blockRows,
             *const totals = belows + warps;
  const int begin = int(iteration) * blockRows,
            rows = begin + blockRows < S::rows ? blockRows : S::rows - begin;
  const int warp = warpIndex(), lane = laneIndex();
  const int from = warp * part, to = from + part < S::tokens ? from + part : S::tokens;
  int *const mine = counts + warp * blockRows;
  // Ids of `ahead` tokens of this lane, 32 apart, relative to the block's rows.
  auto load = [&](int (&found)[ahead], int first) {
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int t = first + 32 * i + lane;
      found[i] = t < to ? ids[t] - begin : rows;
    }
  };

  for (int i = lane; i < blockRows; i += 32)
    mine[i] = 0;
  syncWarp();
  int below = 0, found[ahead];
  for (int first = from; first < to; first += 32 * ahead) {
    load(found, first);
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      below += found[i] < 0;
      if (found[i] >= 0 && found[i] < rows)
        fetchAdd(&mine[found[i]], 1);
    }
  }
  below = warpSum(below);
  if (lane == 0)
    belows[warp] = below;
  syncThreads();
  // Of the thread's row: its tokens, and those of earlier rows of the warp.
  static_assert(blockRows <= scatterSortThreads);
  const int row = threadIdx.x;
  int count = 0;
  if (row < rows)
    for (int w = 0; w < warps; ++w) {
      const int here = counts[w * blockRows + row];
      counts[w * blockRows + row] = count;
      count += here;
    }
  int before = count;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = shuffleUp(before, distance);
    before += lane >= distance ? other : 0;
  }
  if (lane == 31)
    totals[warp] = before;
  before -= count;
  syncThreads();
  before += warpSum(belows[lane]) + warpSum(lane < warp ? totals[lane] : 0);
  if (row < rows) {
    starts[row] = before;
    scratch[2 * S::tokens + begin + row] = before;
  }
  if (begin + rows == S::rows && row == 0)
    scratch[2 * S::tokens + S::rows] = S::tokens;
  syncThreads();
  for (int first = from; first < to; first += 32 * ahead) {
    load(found, first);
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const bool is = found[i] >= 0 && found[i] < rows;
      const uint32_t all = ballot(is);
      if (all == 0)
        continue;
      const uint32_t same = scatter::lanesWith<scatter::bitsOf(blockRows)>(found[i], all);
      const int rank = scatter::population(same & ((1u << lane) - 1));
      if (is) {
        const int place = starts[found[i]] + mine[found[i]] + rank;
        scratch[place] = first + 32 * i + lane;
        scratch[S::tokens + place] = begin + found[i];
      }
      syncWarp();
      if (is && rank == 0)
        mine[found[i]] += scatter::population(same);
      syncWarp();
    }
  }
}

/// Sums of some rows of the table, in some columns: iteration i of scatterSumLaunch's. All threads
/// of the block call it.
template <class S, int yCount>
NANO_DEVICE void scatterSum(long long iteration, const ScatterOperands<S, yCount> &x) {
  constexpr ScatterShape shape = {S::tokens, S::rows, S::columns};
  constexpr int slices = divideUp(S::columns, scatterColumns),
                manySlices = divideUp(S::columns, scatterManyColumns),
                manyIterations = scatterManyIterations(shape), warps = scatterSumThreads / 32;
  if (iteration >= manyIterations) {
    constexpr int perWarp = scatterRows / warps;
    const int index = int(iteration) - manyIterations;
    const int begin = index / slices * scatterRows + warpIndex() * perWarp,
              end = begin + perWarp < S::rows ? begin + perWarp : S::rows;
    scatter::sumFew<S, perWarp>(x, index % slices, begin, end);
    return;
  }
  // A row of many tokens covers the position behind the scatterManyTokens in which it begins; there
  // is at most one in each.
  const int *const starts = x.scratch + 2 * S::tokens;
  const int group = int(iteration / manySlices) * scatterPositions;
  for (int i = 0; i < warps; ++i) {
    const int begin = group + i * scatterManyTokens, behind = begin + scatterManyTokens;
    if (behind >= S::tokens)
      return;
    const int row = x.scratch[S::tokens + behind], from = starts[row], to = starts[row + 1];
    if (from >= begin && from < behind && to - from > scatterManyTokens)
      scatter::sumMany<S>(x, iteration % manySlices, row, from, to);
  }
}

} // namespace nano
