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
// no id names become zero. Of the sum `rows` may be fewer, the first of the table: it leaves the
// others alone. The order of a row's sum depends on the number of its tokens and columns alone: in
// order of t up to scatterManyTokens of them; more are cut into 16 parts of equal length, or more
// parts of at most 64 columns, each summed in order of t, and these sums are added in order.
#pragma once

#include "nano_kernels.h"
#include "nano_scatter_shape.h"
#include "nano_views.h"

namespace nano {

template <class S, int yCount = 1> struct ScatterOperands {
  static constexpr int yPlaces = yCount;
  MatrixView<const typename S::Element> x;
  const int *scratch;
  MatrixView<typename S::Result> y[yCount];
};

namespace scatter {

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

  using Element = typename S::Element;
  /// The elements of a row as they are read.
  struct alignas(S::vectorRows ? 16 : 4) Piece {
    Element elements[8];
  };
  NANO_DEVICE Piece load(const MatrixView<const Element> &x, int t) const {
    Piece piece{};
    const Element *row = x.base + t * x.row;
    if constexpr (S::vectorRows) {
      constexpr int each = 16 / sizeof(Element);
      struct alignas(16) Vector {
        Element elements[each];
      };
      // Lanes behind the last column read the first ones, so that no load waits for a branch.
      const int from = S::columns % (8 * lanes) == 0 || first < S::columns ? first : 0;
#pragma unroll
      for (int j = 0; j < 8; j += each) {
        const Vector v = loadReadOnly(reinterpret_cast<const Vector *>(row + from + j));
#pragma unroll
        for (int i = 0; i < each; ++i)
          piece.elements[j + i] = v.elements[i];
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (column(j) < S::columns)
          piece.elements[j] = row[column(j) * x.element];
    }
    return piece;
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

/// The sums of some columns, by a warp: of the rows whose tokens begin within the `count` sorted
/// positions from `first` on, and are few, and zeros for the rows from `first` on that have none.
/// The rows' tokens are one list, so that what is read of several rows is under way at once.
template <class S, int count, class Operands>
NANO_DEVICE void sumFew(const Operands &x, int slice, int first) {
  static_assert(count < 32 && scatterManyTokens == 32);
  using Columns = LaneColumns<S, 32>;
  constexpr int ahead = scatterSumAhead(sizeof(typename S::Element), sizeof(typename S::Result));
  constexpr uint32_t own = ((1u << count) - 1) << 1;
  const int *const starts = x.scratch + 2 * S::tokens;
  const int lane = laneIndex();
  const Columns columns(slice, lane);
  // A lane has the position before `first` and those behind it, and the one 32 further on.
  const int place = first - 1 + lane;
  auto idOf = [&](int i) { return i >= 0 && i < S::tokens ? x.scratch[S::tokens + i] : -1; };
  const int id = idOf(place), further = idOf(place + scatterManyTokens);
  int position = place >= 0 && place < S::tokens ? x.scratch[place] : 0, positionFurther = 0;
  const int start = starts[first + lane < S::rows ? first + lane : S::rows];
  const bool isEmpty = shuffleDown(start, 1) == start && lane < count && first + lane < S::rows;
  const float none[8] = {};
  for (uint32_t empty = ballot(isEmpty); empty != 0; empty &= empty - 1)
    columns.store(none, x.y, first + lowestBit(empty));

  // Where another id begins, of the first 32 positions and of those behind.
  const int before = shuffleUp(id, 1), last = shuffle(id, 31),
            beforeFurther = shuffleUp(further, 1);
  const bool isChange = lane > 0 && id != before;
  const uint32_t changes = ballot(isChange),
                 changesFurther = ballot(further != (lane > 0 ? beforeFurther : last));
  auto isChangeAt = [&](int i) { return ((i < 32 ? changes : changesFurther) >> i % 32 & 1) != 0; };
  if ((changes & own) == 0)
    return;
  const int from = lowestBit(changes & own);
  // Behind what is of no row here, or of one of many tokens, no other row begins.
  const uint32_t others =
      ballot(isChange && (uint32_t(id) >= uint32_t(S::rows) || id == further)) & own;
  const uint32_t after = changes >> (count + 1);
  const int to = others != 0  ? lowestBit(others)
                 : after != 0 ? count + 1 + lowestBit(after)
                              : 32 + lowestBit(changesFurther);
  if (to > 32)
    positionFurther = place + 32 < S::tokens ? x.scratch[place + 32] : 0;
  auto of = [&](int here, int behind, int i) { return shuffle(i < 32 ? here : behind, i % 32); };
  float sums[8] = {};
  for (int i = from; i < to; i += ahead) {
    typename Columns::Piece pieces[ahead];
    // One that is not there is read as the last one, so that no load waits for a branch.
#pragma unroll
    for (int j = 0; j < ahead; ++j)
      pieces[j] = columns.load(x.x, of(position, positionFurther, i + j < to ? i + j : to - 1));
#pragma unroll
    for (int j = 0; j < ahead; ++j) {
      if (i + j >= to)
        break;
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sums[c] += float(pieces[j].elements[c]);
      if (!isChangeAt(i + j + 1))
        continue;
      columns.store(sums, x.y, of(id, further, i + j));
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sums[c] = 0;
    }
  }
}

/// The sum of some columns of one row of the table over sorted positions from … to, by a block:
/// half warps, or fewer lanes of rows with few columns, sum parts of equal length.
template <class S, class Operands>
NANO_DEVICE void sumMany(const Operands &x, int slice, int row, int from, int to) {
  constexpr int lanes = scatterManyLanes(S::columns), parts = scatterSumThreads / lanes,
                ahead = sizeof(typename S::Element) > 2 ? 6 : 8;
  float *const partial = dynamicShared<float>(); // [parts][8][lanes]
  const int lane = threadIdx.x % lanes, number = threadIdx.x / lanes;
  const LaneColumns<S, lanes> columns(slice, lane);
  const int part = (to - from + parts - 1) / parts, first = from + number * part,
            last = first + part < to ? first + part : to;
  float sums[8] = {};
  for (int i = first; i < last; i += ahead) {
    typename LaneColumns<S, lanes>::Piece pieces[ahead];
#pragma unroll
    for (int j = 0; j < ahead; ++j)
      pieces[j] = columns.load(x.x, x.scratch[i + j < last ? i + j : i]);
#pragma unroll
    for (int j = 0; j < ahead; ++j)
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sums[c] += i + j < last ? float(pieces[j].elements[c]) : 0;
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

/// Places the positions of some tokens, one a thread: iteration i of scatterSortLaunch's. Every
/// block counts all ids, so that it knows where a row's tokens begin and how many of them come
/// before its own; its work is the same whatever the ids are. All threads of the block call it.
template <class S> NANO_DEVICE void scatterSort(long long iteration, TokenView ids, int *scratch) {
  constexpr int chunk = scatterSortRows(S::rows), threads = scatterSortThreads,
                warps = threads / 32, own = scatterSortTokens(S::tokens),
                blocks = divideUp(S::tokens, own), ahead = 8;
  // Rows of a thread when sums are formed: consecutive, and no two threads' in one bank.
  constexpr int each = scatterSortRowsOfThread(S::rows);
  int *const counts = dynamicShared<int>();    // by row: how many tokens, then where they begin
  int *const totals = counts + threads * each; // by warp
  const int lane = laneIndex(), warp = warpIndex(), thread = threadIdx.x;
  const int begin = int(iteration) * own, end = begin + own < S::tokens ? begin + own : S::tokens;
  const int t = begin + thread, id = thread < own && t < end ? ids[t] : -1;
  int below = 0; // tokens of the chunks of rows before
  for (int low = 0; low < S::rows; low += chunk) {
    const int rows = low + chunk < S::rows ? chunk : S::rows - low;
    auto isHere = [&](int row) { return uint32_t(row) < uint32_t(rows); };
    auto load = [&](int (&found)[ahead], int first, int to) {
#pragma unroll
      for (int i = 0; i < ahead; ++i)
        found[i] = first + threads * i < to ? ids[first + threads * i] - low : -1;
    };
    auto count = [&](int from, int to) {
      int found[ahead], next[ahead];
      load(found, from + thread, to);
      for (int first = from + thread; first < to; first += threads * ahead) {
        load(next, first + threads * ahead, to);
#pragma unroll
        for (int i = 0; i < ahead; ++i)
          if (isHere(found[i]))
            fetchAdd(&counts[found[i]], 1);
#pragma unroll
        for (int i = 0; i < ahead; ++i)
          found[i] = next[i];
      }
    };
#pragma unroll
    for (int i = 0; i < each; ++i)
      counts[thread + threads * i] = 0;
    syncThreads();
    count(0, begin);
    syncThreads();
    const int mine = id < 0 ? -1 : id - low;
    const bool is = isHere(mine);
    const int before = is ? counts[mine] : 0; // tokens of the same row in earlier blocks
    syncThreads();
    count(begin, S::tokens);
    syncThreads();

    int sum = 0;
#pragma unroll
    for (int i = 0; i < each; ++i)
      sum += counts[thread * each + i];
    int upTo = sum;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = shuffleUp(upTo, distance);
      upTo += lane >= distance ? other : 0;
    }
    if (lane == 31)
      totals[warp] = upTo;
    syncThreads();
    const int all = totals[lane];
    int start = below + upTo - sum + warpSum(lane < warp ? all : 0);
    below += warpSum(all);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int here = counts[thread * each + i];
      counts[thread * each + i] = start;
      start += here;
    }
    syncThreads();
    // Each block writes a part of the rows' starts.
    const int share = divideUp(rows, blocks), firstRow = int(iteration) * share;
    for (int row = firstRow + thread; row < firstRow + share && row < rows; row += threads)
      scratch[2 * S::tokens + low + row] = counts[row];
    syncThreads();

    // A warp's tokens come behind those of earlier warps.
    const uint32_t same = scatter::lanesWith<scatter::bitsOf(chunk)>(mine, ballot(is));
    const int rank = bitCount(same & ((1u << lane) - 1));
    for (int turn = 0; turn < own / 32; ++turn) {
      if (turn == warp && is) {
        const int place = counts[mine] + before + rank;
        scratch[place] = t;
        scratch[S::tokens + place] = id;
      }
      syncWarp();
      if (turn == warp && is && rank == 0)
        counts[mine] += bitCount(same);
      syncThreads();
    }
  }
  static_assert(warps == 32 && own % 32 == 0);
  if (iteration == 0 && thread == 0)
    scratch[2 * S::tokens + S::rows] = S::tokens;
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
    scatter::sumFew<S, perWarp>(x, index % slices,
                                index / slices * scatterRows + warpIndex() * perWarp);
    return;
  }
  // Most blocks find no position whose row has another token so much further on, and end.
  const int first = int(iteration / manySlices) * scatterPositions, lane = laneIndex();
  auto idOf = [&](int i) { return i < S::tokens ? x.scratch[S::tokens + i] : -1; };
  int ids[scatterPositions / scatterManyTokens + 1];
#pragma unroll
  for (int i = 0; i * scatterManyTokens <= scatterPositions; ++i)
    ids[i] = idOf(first + scatterManyTokens * i + lane);
  bool isMany = false;
#pragma unroll
  for (int i = 0; i * scatterManyTokens < scatterPositions; ++i)
    isMany |= ids[i] >= 0 && ids[i] == ids[i + 1];
  if (!anyLane(isMany))
    return;
  // A row of many tokens covers the position behind the scatterManyTokens in which it begins; there
  // is at most one in each. Every warp looks at all of them.
  const int *const starts = x.scratch + 2 * S::tokens;
  const int begin = first + lane * scatterManyTokens, behind = begin + scatterManyTokens;
  int row = -1, from = 0, to = 0;
#pragma unroll
  for (int i = 0; i * scatterManyTokens < scatterPositions; ++i) {
    const int id = shuffle(ids[i + 1], 0);
    row = lane == i ? id : row;
  }
  if (row >= 0 && row < S::rows) {
    from = starts[row];
    to = starts[row + 1];
  }
  // Ids of rows that are not summed have tokens too.
  for (uint32_t found = ballot(from >= begin && from < behind && to - from > scatterManyTokens);
       found != 0; found &= found - 1) {
    const int i = lowestBit(found);
    scatter::sumMany<S>(x, iteration % manySlices, shuffle(row, i), shuffle(from, i),
                        shuffle(to, i));
  }
}

} // namespace nano
