// The embedding's gradient, y[v, :] = Σ of the rows x[t, :] with ids[t] = v (nano.scatter_add):
// a stable sort of token positions by the places of their rows, class by class, then a sum for
// every row of the table.
//
// Two kernels, in this order, with a scratch buffer of scatterScratchBytes(shape) between them. Ids
// that several ops share need be sorted once. A generated kernel describes the op with a struct:
//
//   struct Scatter {
//     using Element = nano::bf16; // of x: nano::bf16 or float
//     using Result = float;       // of y: nano::bf16 or float
//     static constexpr int tokens = 49152, rows = 50257, columns = 768; // T, V, D
//     static constexpr int sortedRows = 50257;
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
// no id names become zero. Of the sum `rows` may be fewer than the sort's, `sortedRows`, and the
// shape's: the first of the table; it leaves the others alone. The order of a row's sum depends on
// the number of its tokens and columns alone: in order of t up to scatterManyTokens of them; more
// are cut into 16 parts of equal length, or more parts of at most 64 columns, each summed in order
// of t, and these sums are added in order.
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

/// Eight columns of one of `lanes` lanes that share a slice of a row: as many `together` as are 16
/// bytes of the wider of x and y, so that what the lanes read or write at a time is whole sectors;
/// or one by one.
template <class S, int lanes> struct LaneColumns {
  using Element = typename S::Element;
  using Result = typename S::Result;
  static constexpr int together =
      !S::vectorRows
          ? 1
          : 16 / int(sizeof(Element) > sizeof(Result) ? sizeof(Element) : sizeof(Result));
  int first;
  NANO_DEVICE LaneColumns(int slice, int lane) : first(slice * 8 * lanes + lane * together) {}
  NANO_DEVICE int column(int j) const {
    return first + j / together * together * lanes + j % together;
  }
  /// Such columns in memory.
  template <class T> struct alignas(together * sizeof(T)) Vector {
    T elements[together];
  };

  /// The elements of a row as they are read.
  struct alignas(S::vectorRows ? 16 : 4) Piece {
    Element elements[8];
  };
  NANO_DEVICE Piece load(const MatrixView<const Element> &x, int t) const {
    Piece piece{};
    const Element *row = x.base + t * x.row;
    if constexpr (S::vectorRows) {
      // Lanes behind the last column read the first ones, so that no load waits for a branch.
#pragma unroll
      for (int j = 0; j < 8; j += together) {
        const int from = S::columns % (8 * lanes) == 0 || column(j) < S::columns ? column(j) : 0;
        const auto *at = reinterpret_cast<const Vector<Element> *>(row + from);
        // Where there are registers for it: nobody reads it again.
        const auto v = sizeof(Result) > sizeof(Element) ? loadOnce(at) : loadReadOnly(at);
#pragma unroll
        for (int i = 0; i < together; ++i)
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
#pragma unroll
    for (int p = 0; p < places; ++p) {
      Result *row = y[p].base + r * y[p].row;
      if constexpr (S::vectorRows) {
#pragma unroll
        for (int j = 0; j < 8; j += together) {
          Vector<Result> v;
#pragma unroll
          for (int i = 0; i < together; ++i)
            v.elements[i] = Result(values[j + i]);
          if (column(j) < S::columns)
            storeStreaming(reinterpret_cast<Vector<Result> *>(row + column(j)), v);
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

/// Stores the row at a place, if it is one of those that are summed.
template <class S, class Columns, class Operands>
NANO_DEVICE void storeRow(const Columns &columns, const float (&values)[8], const Operands &x,
                          int place) {
  const int row = scatterRowAt(place, S::tokens, S::sortedRows);
  if (row < S::rows)
    columns.store(values, x.y, row);
}

/// The sums of some columns, by a warp: of the rows whose tokens begin within the `count` sorted
/// positions from `first` on, and are few, and zeros for the rows at places from `first` on that
/// have none. The rows' tokens are one list, so that what is read of several rows is under way at
/// once.
template <class S, int count, class Operands>
NANO_DEVICE void sumFew(const Operands &x, int slice, int first) {
  static_assert(count < 32 && scatterManyTokens == 32);
  using Columns = LaneColumns<S, 32>;
  constexpr int ahead = scatterSumAhead(sizeof(typename S::Element));
  constexpr uint32_t own = ((1u << count) - 1) << 1;
  const int *const starts = x.scratch + 2 * S::tokens;
  constexpr int places = scatterPlaces(S::tokens, S::sortedRows);
  const int lane = laneIndex();
  const Columns columns(slice, lane);
  // A lane has the position before `first` and those behind it, and the one 32 further on.
  const int place = first - 1 + lane;
  auto idOf = [&](int i) { return i >= 0 && i < S::tokens ? x.scratch[S::tokens + i] : -1; };
  const int id = idOf(place), further = idOf(place + scatterManyTokens);
  int position = place >= 0 && place < S::tokens ? x.scratch[place] : 0, positionFurther = 0;
  const int start = starts[first + lane < places ? first + lane : places];
  const bool isEmpty = shuffleDown(start, 1) == start && lane < count && first + lane < places;
  const float none[8] = {};
  for (uint32_t empty = ballot(isEmpty); empty != 0; empty &= empty - 1)
    storeRow<S>(columns, none, x, first + lowestBit(empty));

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
  // Behind the last token, or a row of many, no other row begins.
  const uint32_t others = ballot(isChange && (id < 0 || id == further)) & own;
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
      storeRow<S>(columns, sums, x, of(id, further, i + j));
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

namespace scatter {

/// One block's part of the sort: the tokens whose ids are of one class.
template <class S> struct ClassSort {
  static constexpr ScatterShape shape = {S::tokens, S::rows, S::columns};
  static constexpr ScatterSortMemory memory = scatterSortMemory(shape);
  static constexpr int threads = scatterSortThreads, warps = threads / 32,
                       classes = scatterClasses(S::tokens, S::rows),
                       rows = scatterClassRows(S::tokens, S::rows),
                       ofThread = scatterSortTokens(S::tokens), ofWarp = 32 * ofThread,
                       ofRound = threads * ofThread, rounds = divideUp(S::tokens, ofRound);
  static constexpr int turns = 4; ///< of a warp whose rows are loaded at once
  static constexpr int pairs = scatterClassPairs(S::tokens, S::rows); ///< of neighbouring rows
  static_assert(warps == 32 && rows <= threads && ofWarp <= 1 << 16);
  static_assert((warps - 1) * ofWarp < 1 << 16, "counts of the warps before are of 16 bits");

  const TokenView ids;
  const int own; ///< the class
  const int lane = laneIndex(), warp = warpIndex(), thread = int(threadIdx.x);
  uint16_t *const mine = dynamicShared<uint16_t>() + warp * ofWarp; ///< tokens of this warp
  uint16_t *const counts = dynamicShared<uint16_t>(memory.counts);  ///< by warp and row
  int *const starts = dynamicShared<int>(memory.starts);            ///< by row
  int *const totals = dynamicShared<int>(memory.totals);            ///< two numbers by warp
  int begin = 0;         ///< the first token of this warp in a round
  int found = 0;         ///< how many of them are of the class
  int below = 0;         ///< tokens of this thread that are of a class before
  int early[turns] = {}; ///< rows of this lane's first ones of those

  /// Rows of this lane's tokens among those from `first` on, one in 32.
  NANO_DEVICE void load(int (&of)[turns], int first) const {
#pragma unroll
    for (int j = 0; j < turns; ++j) {
      const int i = first + 32 * j + lane;
      of[j] = i < found ? int(uint32_t(ids[begin + mine[i]]) / classes) : -1;
    }
  }

  /// Notes the tokens of the class among those of a round, in order.
  NANO_DEVICE void find(int round) {
    constexpr int ahead = 12;
    constexpr bool isWhole = S::tokens % ofRound == 0 && ofThread % ahead == 0;
    // Of what is no id the class is behind the last one.
    constexpr uint32_t ofClass = classes - 1, ofNone = 1u << 31;
    begin = round * ofRound + warp * ofWarp;
    found = 0;
#pragma unroll 1
    for (int first = 0; first < ofThread; first += ahead) {
      int id[ahead];
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const int t = begin + 32 * (first + i) + lane;
        id[i] = isWhole || (first + i < ofThread && t < S::tokens) ? ids[t] : -1;
      }
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const uint32_t itsClass = uint32_t(id[i]) & (ofClass | ofNone);
        const bool is = itsClass == uint32_t(own);
        below += itsClass < uint32_t(own);
        const uint32_t all = ballot(is);
        if (all == 0)
          continue;
        if (is)
          mine[found + bitCount(all & ((1u << lane) - 1))] = uint16_t(32 * (first + i) + lane);
        found += bitCount(all);
      }
    }
    syncWarp();
    load(early, 0);
  }

  /// Calls visit(i, row, rank) for each token i that `find` noted and counts them: `rank` is what
  /// was counted of its row before it.
  template <class Visit> NANO_DEVICE void count(Visit visit) {
    int of[turns];
#pragma unroll
    for (int j = 0; j < turns; ++j)
      of[j] = early[j];
    for (int first = 0; first < found; first += 32 * turns) {
      if (first > 0)
        load(of, first);
#pragma unroll
      for (int j = 0; j < turns; ++j) {
        if (first + 32 * j >= found)
          break;
        const int row = of[j];
        const bool is = row >= 0;
        const uint32_t same = lanesWith<bitsOf(rows)>(row, ballot(is));
        const int rank = bitCount(same & ((1u << lane) - 1));
        uint16_t *const counted = &counts[2 * warp * pairs + row];
        const int earlier = is ? *counted : 0;
        if (is)
          visit(first + 32 * j + lane, row, earlier + rank);
        syncWarp();
        if (is && rank == 0)
          *counted = uint16_t(earlier + bitCount(same));
        syncWarp();
      }
    }
  }
  /// Of counts by warp of two rows those of the warps before; what they come to.
  NANO_DEVICE void countsBefore(int pair, int &first, int &second) {
    uint32_t *const both = reinterpret_cast<uint32_t *>(counts) + pair;
    uint32_t sum = 0, last = 0; // in halves: of fewer tokens than a round has
#pragma unroll 8
    for (int w = 0; w < warps; ++w) {
      sum += last;
      last = both[w * pairs];
      both[w * pairs] = sum;
    }
    first = int(sum & 0xffff) + int(last & 0xffff);
    second = int(sum >> 16) + int(last >> 16);
  }
  NANO_DEVICE void clear() {
    for (int i = lane; i < pairs; i += 32)
      reinterpret_cast<uint32_t *>(counts)[warp * pairs + i] = 0;
    syncWarp();
  }
  /// What the values of the threads before come to, and what all threads' others do. Once.
  NANO_DEVICE int before(int value, int other) {
    int upTo = value;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int lower = shuffleUp(upTo, distance);
      upTo += lane >= distance ? lower : 0;
    }
    const int others = warpSum(other);
    if (lane == 31) {
      totals[warp] = upTo;
      totals[warps + warp] = others;
    }
    syncThreads();
    return upTo - value + warpSum((lane < warp ? totals[lane] : 0) + totals[warps + lane]);
  }

  /// Counts the class's tokens of a round; a thread's two rows have as many.
  NANO_DEVICE void countRound(int round, int &first, int &second) {
    clear();
    find(round);
    count([](int, int, int) {});
    syncThreads();
    if (thread < pairs)
      countsBefore(thread, first, second);
    syncThreads();
  }

  NANO_DEVICE void sort(int *scratch) {
    int first = 0, second = 0; // of this thread's rows in a round
    int firsts = 0, seconds = 0;
    for (int round = 0; round < rounds; ++round) {
      countRound(round, first, second);
      firsts += first;
      seconds += second;
    }
    const int start = before(firsts + seconds, below);
    const int row = 2 * thread;
    auto begins = [&](int r, int at) {
      starts[r] = at;
      scratch[2 * S::tokens + own * rows + r] = at;
    };
    if (row < rows)
      begins(row, start);
    if (row + 1 < rows)
      begins(row + 1, start + firsts);
    syncThreads();
    for (int round = 0; round < rounds; ++round) {
      if (rounds > 1)
        countRound(round, first, second);
      count([&](int i, int row, int rank) {
        const int at = starts[row] + rank;
        scratch[at] = begin + mine[i];
        scratch[S::tokens + at] = own * rows + row;
      });
      if (rounds == 1)
        continue;
      syncThreads();
      if (row < rows)
        starts[row] += first;
      if (row + 1 < rows)
        starts[row + 1] += second;
    }
  }
};

} // namespace scatter

/// Sorts the tokens of a class of rows: iteration i of scatterSortLaunch's. Every block reads all
/// ids, so that it knows how many tokens come before its own. All threads of the block call it.
template <class S> NANO_DEVICE void scatterSort(long long iteration, TokenView ids, int *scratch) {
  scatter::ClassSort<S> block{ids, int(iteration)};
  block.sort(scratch);
  if (iteration == 0 && threadIdx.x == 0)
    scratch[2 * S::tokens + scatterPlaces(S::tokens, S::rows)] = S::tokens;
}

/// Sums of some rows of the table, in some columns: iteration i of scatterSumLaunch's. All threads
/// of the block call it.
template <class S, int yCount>
NANO_DEVICE void scatterSum(long long iteration, const ScatterOperands<S, yCount> &x) {
  constexpr ScatterShape shape = {S::tokens, S::sortedRows, S::columns};
  constexpr int slices = divideUp(S::columns, scatterColumns),
                manySlices = divideUp(S::columns, scatterManyColumns),
                manyIterations = scatterManyIterations(shape), warps = scatterSumThreads / 32;
  if (iteration >= manyIterations) {
    // Blocks of one time have all classes, whose rows lie side by side in the table.
    constexpr int perWarp = scatterRows / warps, classes = scatterClasses(S::tokens, S::sortedRows),
                  ofClass = int(divideUp(scatterFewBlocks(shape), classes));
    const int index = int(iteration) - manyIterations, block = index / slices;
    scatter::sumFew<S, perWarp>(x, index % slices,
                                (block % classes * ofClass + block / classes) * scatterRows +
                                    warpIndex() * perWarp);
    return;
  }
  // A row of many tokens covers the position behind the scatterManyTokens in which it begins, and
  // one half as far before or behind that: there is at most one in each, and most blocks find none.
  // Every warp looks at all of them.
  const int *const starts = x.scratch + 2 * S::tokens;
  const int lane = laneIndex(),
            begin =
                int(iteration / manySlices) * scatterPositions(shape) + lane * scatterManyTokens,
            behind = begin + scatterManyTokens;
  auto idOf = [&](int i) {
    return lane < scatterManyParts(shape) && i < S::tokens ? x.scratch[S::tokens + i] : -1;
  };
  int row = idOf(behind), from = 0, to = 0;
  const int before = idOf(behind - scatterManyTokens / 2),
            after = idOf(behind + scatterManyTokens / 2);
  row = row == before || row == after ? row : -1;
  if (!anyLane(row >= 0))
    return;
  if (row >= 0 && scatterRowAt(row, S::tokens, S::sortedRows) < S::rows) {
    from = starts[row];
    to = starts[row + 1];
  }
  for (uint32_t found = ballot(from >= begin && from < behind && to - from > scatterManyTokens);
       found != 0; found &= found - 1) {
    const int i = lowestBit(found);
    scatter::sumMany<S>(x, iteration % manySlices,
                        scatterRowAt(shuffle(row, i), S::tokens, S::sortedRows), shuffle(from, i),
                        shuffle(to, i));
  }
}

} // namespace nano
