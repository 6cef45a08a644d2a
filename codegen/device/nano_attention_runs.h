// The forward pass of attention on Hopper's tensor cores by one block for each multiprocessor: one
// warpgroup copies, two to four compute with 64 rows each. Copies of a tile go on while the tiles
// before it are computed and stored, and its first scores are made beside the last products of the
// tile before it. Included by nano_attention.h.
#pragma once

#include "nano_attention_hopper.h"
#include "nano_attention_order.h"

namespace nano::runs {

using hopper::flat;
using hopper::warpgroupRows;
using hopper::warpgroupThreads;
using mma::Lane;
using mma::log2e;
using mma::Place;
using mma::RowRanges;
using mma::Tile;

/// Registers of a thread that copies and of one that computes: together as many as all threads have
/// when a kernel of so many begins.
template <class Tiles>
constexpr int copyRegisters = Tiles::groups > 2 ? 32
                              : Tiles::isBulk   ? 40
                                                : 56;
template <class Tiles>
constexpr int computeRegisters = Tiles::groups == 4   ? 112
                                 : Tiles::groups == 3 ? 160
                                 : Tiles::isBulk      ? 232
                                                      : 224;

/// The warp has finished reading what the barrier is for.
NANO_DEVICE void release(Mbarrier &empty) {
  syncWarp();
  if (laneIndex() == 0)
    mbarrierArrive(&empty);
}
/// Makes the thread's copies and writes to shared memory visible to those who wait.
NANO_DEVICE void arrived(Mbarrier &full) {
  copyAsyncCommit();
  copyAsyncWait<0>();
  fenceProxyAsync();
  mbarrierArrive(&full);
}

/// Starts copying x[first + r, head, :] to row r of the tile, by a warp; rows from `end` on become
/// zero, and columns behind the head's. Rows that 32 lanes cannot share evenly are copied one band
/// of 64 columns after the other.
template <int rows, int size>
NANO_DEVICE void loadTile(uint8_t *tile, const HeadView<const bf16> &x, int head, int first,
                          int end) {
  using T = Tile<rows, size>;
  if constexpr (32 % T::chunks != 0) {
#pragma unroll
    for (int band = 0; band < size / 64; ++band)
      loadTile<rows, 64>(tile + band * rows * 128, {x.base + band * 64, x.token, x.head, x.element},
                         head, first, end);
    if constexpr (size % 64 > 0)
      loadTile<rows, size % 64>(tile + size / 64 * rows * 128,
                                {x.base + size / 64 * 64, x.token, x.head, x.element}, head, first,
                                end);
    return;
  } else {
    constexpr int step = 32 / T::chunks;
    const int lane = laneIndex(), chunk = lane % T::chunks, row = lane / T::chunks;
    const bf16 *source = x.row(first + row, head) + mma::placeOfChunk<size>(chunk);
    int place = T::offset(row, chunk); // of a row j below: the chunk's number in it is changed by j
    if (first + rows <= end) {
#pragma unroll 1
      for (int i = 0; i < rows; i += 8, place += 1024, source += 8 * x.token)
#pragma unroll
        for (int j = 0; j < 8; j += step)
          mma::copyChunk<size>(tile + (place ^ (j << 4)) + j * 128, source + j * x.token, chunk);
      return;
    }
#pragma unroll 1
    for (int i = 0; i < rows; i += step) {
      const bool inside = first + row + i < end;
      copyAsync<16>(tile + (place ^ ((i & 7) << 4)) + i * 128,
                    inside ? source + i * x.token : x.row(first, head),
                    inside && 8 * chunk < size ? 16 : 0);
    }
  }
}

/// A tile: queries begin … end − 1 and the keys from … to − 1 that they see; `passed`: the blocks
/// of columns of the tiles before it. No head: there are no more.
struct QueryTile {
  int head, begin, end, from, to, passed;
};

/// Barriers. Two of a slot of queries and of a stage of keys and one of values: full is waited for
/// by those who compute, empty by those who copy.
template <class Tiles> struct Barriers {
  struct Pair {
    Mbarrier full, empty;
  };
  Pair columns[2][Tiles::stages], rows[Tiles::slots];

  NANO_DEVICE void init() {
    constexpr int warps = Tiles::groups * warpgroupThreads / 32;
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2 * Tiles::stages; ++i) {
        mbarrierInit(&columns[0][i].full, Tiles::isBulk ? 1 : 32);
        mbarrierInit(&columns[0][i].empty, warps);
      }
      for (int i = 0; i < Tiles::slots; ++i) {
        mbarrierInit(&rows[i].full, 32);
        mbarrierInit(&rows[i].empty, warps);
      }
      fenceMbarrierInit();
    }
    syncThreads();
  }
};

/// Shared memory of a block: slots of queries, stages of keys and of values, barriers, the units
/// that its tiles belong to, the tile in each slot, and the ranges of its queries.
template <class Tiles, int size, int valueSize> struct Shared {
  using RowTile = Tile<Tiles::rows, (size > valueSize ? size : valueSize)>; // queries, then results
  static constexpr int keyBytes = Tile<Tiles::columns, size>::bytes,
                       valueBytes = Tile<Tiles::columns, valueSize>::bytes;
  using AllBarriers = Barriers<Tiles>;
  static_assert(sizeof(AllBarriers) == Tiles::barrierBytes);
  static NANO_DEVICE uint8_t *queries(int slot) {
    return dynamicShared<uint8_t>(slot * RowTile::bytes);
  }
  static NANO_DEVICE uint8_t *keys(int stage) { return queries(Tiles::slots) + stage * keyBytes; }
  static NANO_DEVICE uint8_t *values(int stage) { return keys(Tiles::stages) + stage * valueBytes; }
  static NANO_DEVICE AllBarriers &barriers() {
    return *reinterpret_cast<AllBarriers *>(values(Tiles::stages));
  }
  static NANO_DEVICE uint16_t *units() { return reinterpret_cast<uint16_t *>(&barriers() + 1); }
  static NANO_DEVICE QueryTile &tile(int slot) {
    return *reinterpret_cast<QueryTile *>(reinterpret_cast<uint8_t *>(units()) + Tiles::unitBytes +
                                          32 * slot);
  }
  static NANO_DEVICE int *firsts(int slot) {
    return reinterpret_cast<int *>(&tile(0)) + 8 * Tiles::slots + 2 * Tiles::rows * slot;
  }
  static NANO_DEVICE int *lasts(int slot) { return firsts(slot) + Tiles::rows; }
};

template <class S, class Tiles> NANO_DEVICE void waitColumn(int i, int column) {
  mbarrierWait(&S::barriers().columns[i][column % Tiles::stages].full,
               uint32_t(column / Tiles::stages) & 1);
}
template <class S, class Tiles> NANO_DEVICE void releaseColumn(int i, int column) {
  release(S::barriers().columns[i][column % Tiles::stages].empty);
}

/// The tiles of a launch: a unit is a block of queries, its tiles are those of its heads.
///
/// By tickets a block takes the next tile when it comes to it. Under a causal mask the last units
/// of a row see the most keys, and come first, so that short tiles fill the end.
///
/// Without tickets the tiles of all units, sorted by their costs, are dealt out to the blocks in
/// rounds, there and back.
///
/// Of causal rows a tile is of one row, and ends where the next one begins: the first tile of a row
/// may be shorter. Some rows are taken at once, the last tiles of all of them first, as many as
/// have keys and values that stay in the second-level cache meanwhile.
template <class A, class Tiles> struct Schedule {
  static constexpr int rows = Tiles::rows, heads = A::heads, tokens = A::tokens,
                       row = Tiles::ofRows ? attentionRow<A> : tokens, allRows = tokens / row,
                       ofRow = divideUp(row, rows), units = allRows * ofRow, tiles = units * heads,
                       resident = Tiles::blocks(tiles, A::multiprocessors),
                       rounds = tiles / resident;
  static constexpr long long cachedBytes = 16 << 20,
                             rowBytes = 2LL * row * A::keyHeads * (A::headSize + A::valueSize);
  static constexpr int rowsAtOnce = rowBytes > cachedBytes ? 1 : int(cachedBytes / rowBytes);
  static constexpr bool byTickets = Tiles::isBulk;
  /// Longer lists than there is memory for stay unsorted.
  static constexpr bool isSorted =
      !byTickets && units <= 4096 && 2 * (rounds + 1) <= Tiles::unitBytes;
  int block, count; ///< its tiles, where they are dealt out

  NANO_DEVICE explicit Schedule(int iteration)
      : block(iteration), count(rounds + (dealt(rounds) < tiles)) {}
  /// The number of the block's tile i among all.
  NANO_DEVICE int dealt(int i) const {
    return i * resident + (i % 2 ? resident - 1 - block : block);
  }
  /// Takes a ticket, by a warp, which its first lane has when it comes.
  template <class Operands> static NANO_DEVICE int ticket(const Operands &x) {
    if constexpr (byTickets)
      return laneIndex() == 0 ? fetchAdd(x.tickets, 1) : 0;
    return 0;
  }
  /// The number of the block's tile i > 0 among all, or at least `tiles`: there are no more.
  NANO_DEVICE int number(int ticket, int i) const {
    if constexpr (byTickets)
      return resident + shuffle(ticket, 0);
    return i < count ? dealt(i) : tiles;
  }

  /// By all threads, before the tiles.
  template <class S, class Operands> NANO_DEVICE void prepare(const Operands &x) const {
    if constexpr (isSorted) {
      auto &memory = *dynamicShared<order::Scratch<units, Tiles::threads>>();
      order::sortByCost<units, Tiles::threads>(memory, [&](int unit) {
        const int begin = unit * rows,
                  seen = x.last[smaller(begin + rows, tokens) - 1] + 1 - larger(x.first[begin], 0);
        // Beginning and end of a tile take as long as two blocks of 64 columns.
        return seen + 2 * 64;
      });
      for (int i = threadIdx.x; i < count; i += Tiles::threads)
        S::units()[i] = memory.order[dealt(i) / heads];
    }
  }
  /// The tile with a number, the block's tile i. Its range of keys is as it was loaded, the first
  /// and the last one: who waits for it does that later, in Producer::make.
  template <class S, class Operands>
  NANO_DEVICE QueryTile tile(const Operands &x, int number, int i) const {
    const int at = number / heads;
    QueryTile tile;
    tile.head = number % heads;
    if constexpr (Tiles::ofRows) {
      const int firstRow = at / (rowsAtOnce * ofRow) * rowsAtOnce,
                count = smaller(rowsAtOnce, allRows - firstRow), place = at - firstRow * ofRow;
      tile.from = (firstRow + place % count) * row;
      tile.end = tile.from + row - place / count * rows;
      tile.begin = larger(tile.end - rows, tile.from);
      tile.to = tile.end - 1;
    } else {
      const int unit = isSorted ? S::units()[i] : units - 1 - at;
      tile.begin = unit * rows;
      tile.end = smaller(tile.begin + rows, tokens);
      tile.from = x.first[tile.begin];
      tile.to = x.last[tile.end - 1];
    }
    return tile;
  }
};

/// One of the copying warps. A stage is always filled by the same one, and so is a slot, so that no
/// warp is ahead of another by two uses of what both fill. With bulk copies there is but one.
template <class A, class Tiles, class S> struct Producer {
  static constexpr int warps = Tiles::isBulk ? 1 : 4;
  int warp = warpIndex() % 4, column = 0;

  template <class Operands> NANO_DEVICE void queries(const Operands &x, QueryTile tile, int i) {
    const int slot = i % Tiles::slots;
    if ((2 + 2 * slot) % warps != warp)
      return;
    auto &barriers = S::barriers().rows[slot];
    auto waitEmpty = [&] {
      if (i >= Tiles::slots)
        mbarrierWait(&barriers.empty, uint32_t(i / Tiles::slots - 1) & 1);
    };
    tile.passed = column;
    if (tile.head < 0) {
      waitEmpty();
      if (laneIndex() == 0)
        S::tile(slot) = tile;
      mbarrierArrive(&barriers.full);
      return;
    }
    // All loads are on their way before the first one is waited for.
    constexpr int ofLane = Tiles::rows / 32;
    int firsts[ofLane], lasts[ofLane];
    if constexpr (!Tiles::ofRows)
#pragma unroll
      for (int j = 0; j < ofLane; ++j) {
        const int query = smaller(tile.begin + 32 * j + laneIndex(), A::tokens - 1);
        firsts[j] = x.first[query];
        lasts[j] = x.last[query];
      }
    waitEmpty();
    if (laneIndex() == 0)
      S::tile(slot) = tile;
    if constexpr (Tiles::isBulk) {
      if (laneIndex() == 0) {
        mbarrierExpect(&barriers.full, Tile<Tiles::rows, A::headSize>::bytes);
        hopper::loadBoxes<Tiles::rows, A::headSize, Tiles::rows>(
            S::queries(slot), x.maps[0], x.q, tile.head, tile.begin, barriers.full);
      }
    } else {
      loadTile<Tiles::rows, A::headSize>(S::queries(slot), x.q, tile.head, tile.begin, tile.end);
    }
    if constexpr (!Tiles::ofRows)
#pragma unroll
      for (int j = 0; j < ofLane; ++j) {
        S::firsts(slot)[32 * j + laneIndex()] = firsts[j];
        S::lasts(slot)[32 * j + laneIndex()] = lasts[j];
      }
    if constexpr (Tiles::isBulk)
      mbarrierArrive(&barriers.full);
    else
      arrived(barriers.full);
  }

  template <int i, int size, class Operands>
  NANO_DEVICE void fill(const Operands &x, const QueryTile &tile, int from) {
    const int stage = column % Tiles::stages;
    if ((2 * stage + i) % warps != warp)
      return;
    auto &barriers = S::barriers().columns[i][stage];
    const auto &view = i == 0 ? x.k : x.v;
    uint8_t *const to = i == 0 ? S::keys(stage) : S::values(stage);
    if (column >= Tiles::stages)
      mbarrierWait(&barriers.empty, uint32_t(column / Tiles::stages - 1) & 1);
    if constexpr (Tiles::isBulk) {
      if (laneIndex() == 0) {
        mbarrierArriveExpect(&barriers.full, Tile<Tiles::columns, size>::bytes);
        hopper::loadBoxes<Tiles::columns, size, Tiles::columns>(
            to, x.maps[1 + i], view, tile.head / sharing<A>, from, barriers.full);
      }
    } else {
      loadTile<Tiles::columns, size>(to, view, tile.head / sharing<A>, from, tile.to);
      arrived(barriers.full);
    }
  }

  template <class Operands> NANO_DEVICE void make(const Operands &x, QueryTile tile, int i) {
    tile.from = larger(tile.from, 0);
    ++tile.to;
    queries(x, tile, i);
#pragma unroll 1
    for (int from = tile.from; from < tile.to; from += Tiles::columns, ++column) {
      fill<0, A::headSize>(x, tile, from);
      fill<1, A::valueSize>(x, tile, from);
    }
  }
};

/// By the copying warps: all tiles of the block, and one without a head behind them.
template <class A, class Tiles, class S, class Operands>
NANO_DEVICE void copyTiles(const Schedule<A, Tiles> &schedule, const Operands &x) {
  Producer<A, Tiles, S> producer;
  if (producer.warp >= producer.warps)
    return;
  if constexpr (Tiles::ofRows) {
    // A tile's place takes no time to find: its ticket is taken when it is wanted, so that all
    // blocks end at about the same time.
    int number = schedule.block;
#pragma unroll 1
    for (int i = 0;; ++i) {
      QueryTile tile;
      tile.head = -1;
      if (number >= schedule.tiles)
        return producer.queries(x, tile, i);
      producer.make(x, schedule.template tile<S>(x, number, i), i);
      number = schedule.number(schedule.ticket(x), i + 1);
    }
  } else {
    int number = schedule.block, ticket = schedule.ticket(x);
    QueryTile tile = schedule.template tile<S>(x, number, 0);
#pragma unroll 1
    for (int i = 1; number < schedule.tiles; ++i) {
      number = schedule.number(ticket, i);
      QueryTile next;
      next.head = -1;
      if (number < schedule.tiles) {
        next = schedule.template tile<S>(x, number, i);
        ticket = schedule.ticket(x);
      }
      producer.make(x, tile, i - 1);
      tile = next;
      if (number >= schedule.tiles)
        producer.queries(x, tile, i);
    }
  }
}

/// y and lse of the block's tiles, by a computing warp. The first scores of a tile are made beside
/// the last products of the tile before.
template <class A, class Tiles, class S, class Operands>
NANO_DEVICE void computeTiles(const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize,
                sumColumns = attentionTileSize(valueSize), rows = Tiles::rows,
                columns = Tiles::columns, slots = Tiles::slots, stages = Tiles::stages;
  constexpr float factor = mma::scoresInLog2<A> ? 1 : A::scale * log2e;
  auto &barriers = S::barriers();
  const Lane lane;
  const int group = shuffle(lane.warp, 0) / 4;
  // The warpgroup's first row of the block's tile i. Under a causal mask later rows see more keys:
  // each warpgroup has them in turn.
  auto groupRowOf = [&](int i) { return (group + i) % Tiles::groups * warpgroupRows; };
  auto warpRowOf = [&](int i) { return groupRowOf(i) + lane.warp % 4 * 16; };
  float sums[1][sumColumns / 8][4], scores[1][columns / 8][4];
  uint32_t weights[columns / 16][4];
  mma::Softmax<1> softmax;

  auto startScores = [&](int tile, int column) {
    warpgroupRegisters(flat(scores));
    warpgroupFence();
    hopper::multiply<size, rows, columns>(scores, S::queries(tile % slots), groupRowOf(tile),
                                          S::keys(column % stages));
    warpgroupCommit();
  };
  auto startSums = [&](int column, bool isFirst) {
    warpgroupRegisters(flat(sums));
    warpgroupFence();
    hopper::accumulate<sumColumns, columns>(sums, weights, S::values(column % stages), !isFirst);
    warpgroupCommit();
  };
  // What is left of a tile when its last weights are made.
  bool isPending = false, isPendingFirst = false;
  int pendingTile = 0, pendingColumn = 0;
  auto finish = [&] {
    warpgroupWait<0>();
    warpgroupRegisters(flat(sums));
    releaseColumn<S, Tiles>(1, pendingColumn);
    const int slot = pendingTile % slots, warpRow = warpRowOf(pendingTile);
    const QueryTile tile = S::tile(slot);
    mma::finish(sums, softmax, lane, x, tile.begin + warpRow, tile.end, tile.head);
    barrierSync(1 + group, warpgroupThreads); // all warps have read the queries
    mma::storeTile<valueSize, rows, Operands::yPlaces>(sums, lane, S::queries(slot), warpRow, x.y,
                                                       tile.head, tile.begin, tile.end);
    if constexpr (Tiles::isBulk)
      fenceProxyAsync(); // the next queries come by bulk copies to where results were written
    release(barriers.rows[slot].empty);
  };
  auto drain = [&] {
    if (!isPending)
      return;
    waitColumn<S, Tiles>(1, pendingColumn);
    startSums(pendingColumn, isPendingFirst);
    finish();
    isPending = false;
  };
  // Columns are copied in their order: who waits for one of them must have released what is as
  // many before it as there are stages.
  auto drainBefore = [&](int column) {
    if (column - pendingColumn > stages)
      drain();
  };
  auto skip = [&](int column) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      waitColumn<S, Tiles>(i, column);
      releaseColumn<S, Tiles>(i, column);
    }
  };

#pragma unroll 1
  for (int i = 0;; ++i) {
    const int slot = i % slots;
    if constexpr (slots == 1)
      drain();
    mbarrierWait(&barriers.rows[slot].full, uint32_t(i / slots) & 1);
    const auto [head, begin, end, firstKey, endKey, passed] = S::tile(slot);
    if (head < 0)
      break;
    const int count = divideUp(endKey - firstKey, columns);
    const int groupRow = groupRowOf(i), warpRow = warpRowOf(i);
    const int *const firsts = S::firsts(slot), *const lasts = S::lasts(slot);
    if (Tiles::ofRows && begin + groupRow >= end) { // the warpgroup has no rows
      drain();
      for (int tile = 0; tile < count; ++tile)
        skip(passed + tile);
      release(barriers.rows[slot].empty);
      continue;
    }
    const RowRanges ranges = Tiles::ofRows ? RowRanges{firstKey, firstKey, begin + groupRow,
                                                       begin + groupRow + warpgroupRows - 1}
                                           : RowRanges(firsts, lasts, groupRow, warpgroupRows);
    // The blocks of columns that some row of the warpgroup sees.
    const int from = larger(ranges.firstOfFirst - firstKey, 0) / columns,
              to = (ranges.lastOfLast - firstKey) / columns;
    // Scores as the softmax takes them: −∞ of keys that are not seen.
    auto prepare = [&, head = head, begin = begin, firstKey = firstKey](int tile) {
      const int key = firstKey + tile * columns;
      if constexpr (mma::scoresInLog2<A>)
        mma::forElements(scores, lane, [&](float &s, Place at) {
          s *= A::scale;
          if constexpr (A::hasScore)
            s = A::score(s, begin + warpRow + at.row, key + at.column, head);
          s *= log2e;
        });
      if (!ranges.contain(key, key + columns - 1)) {
        int first[2], last[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = warpRow + lane.group + 8 * i;
          first[i] = Tiles::ofRows ? 0 : firsts[row] - key;
          last[i] = (Tiles::ofRows ? begin + row : lasts[row]) - key;
        }
        mma::hideUnseen(scores, lane, first, last);
      }
    };
    drainBefore(passed + from);
    for (int tile = 0; tile < from; ++tile)
      skip(passed + tile);
    waitColumn<S, Tiles>(0, passed + from);
    if (isPending) {
      waitColumn<S, Tiles>(1, pendingColumn);
      startScores(i, passed + from);
      startSums(pendingColumn, isPendingFirst);
      warpgroupWait<1>();
      warpgroupRegisters(flat(scores));
      releaseColumn<S, Tiles>(0, passed + from);
      prepare(from);
      const auto first = mma::Softmax<1>::first(scores, factor);
      finish();
      softmax = first;
    } else {
      startScores(i, passed + from);
      warpgroupWait<0>();
      warpgroupRegisters(flat(scores));
      releaseColumn<S, Tiles>(0, passed + from);
      prepare(from);
      softmax = mma::Softmax<1>::first(scores, factor);
    }
    hopper::pack(weights, scores);
#pragma unroll 1
    for (int tile = from + 1; tile <= to; ++tile) {
      const int column = passed + tile;
      waitColumn<S, Tiles>(0, column);
      waitColumn<S, Tiles>(1, column - 1);
      startScores(i, column);
      startSums(column - 1, tile == from + 1);
      warpgroupWait<1>();
      warpgroupRegisters(flat(scores));
      releaseColumn<S, Tiles>(0, column);
      prepare(tile);
      float scales[1][2];
      const bool grown = softmax.apply(scores, scales, factor);
      warpgroupWait<0>();
      warpgroupRegisters(flat(sums));
      releaseColumn<S, Tiles>(1, column - 1);
      if (grown)
        mma::rescale(sums, scales);
      hopper::pack(weights, scores);
    }
    isPending = true;
    isPendingFirst = from == to;
    pendingTile = i;
    pendingColumn = passed + to;
    drainBefore(passed + count);
    for (int tile = to + 1; tile < count; ++tile)
      skip(passed + tile);
  }
  drain();
}

/// Iteration i: the tiles of block i, as Schedule says.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionForward(int iteration, const Operands &x) {
  using S = Shared<Tiles, A::headSize, A::valueSize>;
  const Schedule<A, Tiles> schedule(iteration);
  schedule.template prepare<S>(x);
  S::barriers().init();
  if (warpIndex() / 4 == Tiles::groups) {
    decreaseRegisters<copyRegisters<Tiles>>();
    copyTiles<A, Tiles, S>(schedule, x);
  } else {
    increaseRegisters<computeRegisters<Tiles>>();
    computeTiles<A, Tiles, S>(x);
  }
}

} // namespace nano::runs
