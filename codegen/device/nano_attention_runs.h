// The forward pass of attention on Hopper's tensor cores by one block for each multiprocessor: one
// warpgroup copies, two compute with 64 rows each, and the copies of a tile go on while the tiles
// before it are computed and stored. Masks and order of a tile's sums are as in
// nano_attention_mma.h. Included by nano_attention.h.
#pragma once

#include "nano_attention_hopper.h"
#include "nano_attention_order.h"

namespace nano::runs {

using hopper::computingWarpgroups;
using hopper::flat;
using hopper::warpgroupRows;
using hopper::warpgroupThreads;
using mma::Lane;
using mma::log2e;
using mma::Place;
using mma::RowRanges;
using mma::Tile;

/// Registers of a thread that copies and of one that computes: together those of 384 threads of
/// 168.
constexpr int copyRegisters = 72, computeRegisters = 216;

/// Two barriers a stage of columns and a slot of rows: full is waited for by those who compute,
/// empty by the warp that copies.
template <int stages, int slots> struct Barriers {
  Mbarrier full[stages], empty[stages], rowsFull[slots], rowsEmpty[slots];

  NANO_DEVICE void init() {
    constexpr int computingWarps = computingWarpgroups * warpgroupThreads / 32;
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        mbarrierInit(&full[i], 32);
        mbarrierInit(&empty[i], computingWarps);
      }
      for (int i = 0; i < slots; ++i) {
        mbarrierInit(&rowsFull[i], 32);
        mbarrierInit(&rowsEmpty[i], computingWarps);
      }
      fenceMbarrierInit();
    }
    syncThreads();
  }
};

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
/// zero. Rows that 32 lanes cannot share evenly are copied one band of 64 columns after the other.
template <int rows, int size>
NANO_DEVICE void loadTile(uint8_t *tile, const HeadView<const bf16> &x, int head, int first,
                          int end) {
  using T = Tile<rows, size>;
  if constexpr (32 % T::chunks != 0) {
#pragma unroll
    for (int band = 0; band < size / 64; ++band)
      loadTile<rows, 64>(tile + band * rows * 128, {x.base + band * 64, x.token, x.head, x.element},
                         head, first, end);
    return;
  } else {
    constexpr int step = 32 / T::chunks;
    const int lane = laneIndex(), chunk = lane % T::chunks, row = lane / T::chunks;
    const bf16 *source = x.row(first + row, head) + 8 * chunk;
    int place = T::offset(row, chunk); // of a row j below: the chunk's number in it is changed by j
    if (first + rows <= end) {
#pragma unroll 1
      for (int i = 0; i < rows; i += 8, place += 1024, source += 8 * x.token)
#pragma unroll
        for (int j = 0; j < 8; j += step)
          copyAsync<16>(tile + (place ^ (j << 4)) + j * 128, source + j * x.token);
      return;
    }
#pragma unroll 1
    for (int i = 0; i < rows; i += step) {
      const bool inside = first + row + i < end;
      copyAsync<16>(tile + (place ^ ((i & 7) << 4)) + i * 128,
                    inside ? source + i * x.token : x.row(first, head), inside ? 16 : 0);
    }
  }
}

/// A tile: queries begin … end − 1 and the keys from … to − 1 that they see; `passed`: the blocks
/// of columns of the tiles before it.
struct QueryTile {
  int head, begin, end, from, to, passed;
};

/// Shared memory of a block: slots of queries, stages of keys and values, barriers, the units that
/// its tiles belong to, the tile in each slot, and the ranges of its queries.
template <class Tiles, int size, int valueSize> struct Shared {
  using RowTile = Tile<Tiles::rows, (size > valueSize ? size : valueSize)>; // queries, then results
  using ColumnTile = Tile<Tiles::columns, size>;
  static constexpr int stageBytes = ColumnTile::bytes + Tile<Tiles::columns, valueSize>::bytes;
  using AllBarriers = Barriers<Tiles::stages, Tiles::slots>;
  static NANO_DEVICE uint8_t *queries(int slot) {
    return dynamicShared<uint8_t>(slot * RowTile::bytes);
  }
  static NANO_DEVICE uint8_t *columns(int stage, int i) {
    return queries(Tiles::slots) + stage * stageBytes + i * ColumnTile::bytes;
  }
  static NANO_DEVICE AllBarriers &barriers() {
    return *reinterpret_cast<AllBarriers *>(columns(Tiles::stages, 0));
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

template <class S, class Tiles> NANO_DEVICE void waitColumn(int column) {
  mbarrierWait(&S::barriers().full[column % Tiles::stages], uint32_t(column / Tiles::stages) & 1);
}
template <class S, class Tiles> NANO_DEVICE void releaseColumn(int column) {
  release(S::barriers().empty[column % Tiles::stages]);
}

/// One of the four copying warps. A stage is always filled by the same one, and so is a slot, so
/// that no warp is ahead of another by two uses of what both fill.
template <class S, class Tiles> struct Producer {
  int warp = warpIndex() % 4, column = 0;

  /// Makes load(slot), which starts a warp's copies, the queries of the block's tile i.
  template <class Load> NANO_DEVICE void queries(int i, Load load) {
    const int slot = i % Tiles::slots;
    if ((2 + 2 * slot) % 4 != warp)
      return;
    if (i >= Tiles::slots)
      mbarrierWait(&S::barriers().rowsEmpty[slot], uint32_t(i / Tiles::slots - 1) & 1);
    load(slot);
    arrived(S::barriers().rowsFull[slot]);
  }
  /// Likewise load(stage, from) for keys from … to − 1.
  template <class Load> NANO_DEVICE void columns(int from, int to, Load load) {
#pragma unroll 1
    for (; from < to; from += Tiles::columns, ++column) {
      const int stage = column % Tiles::stages;
      if (stage % 4 != warp)
        continue;
      if (column >= Tiles::stages)
        mbarrierWait(&S::barriers().empty[stage], uint32_t(column / Tiles::stages - 1) & 1);
      load(stage, from);
      arrived(S::barriers().full[stage]);
    }
  }
};

/// The tiles of a block: a unit is a block of queries, its tiles are those of its heads. The tiles
/// of all units, sorted by their costs, are dealt out to the blocks in rounds, there and back.
template <class A, class Tiles> struct Schedule {
  static constexpr int rows = Tiles::rows, heads = A::heads, tokens = A::tokens,
                       units = divideUp(tokens, rows), tiles = units * heads,
                       resident = Tiles::blocks(tiles, A::multiprocessors),
                       rounds = tiles / resident;
  /// Longer lists than there is memory for stay unsorted.
  static constexpr bool isSorted = units <= 4096 && 2 * (rounds + 1) <= Tiles::unitBytes;
  int block, count; ///< its tiles

  NANO_DEVICE explicit Schedule(int iteration)
      : block(iteration), count(rounds + (number(rounds) < tiles)) {}
  /// The number of the block's tile i among all.
  NANO_DEVICE int number(int i) const {
    return i * resident + (i % 2 ? resident - 1 - block : block);
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
        S::units()[i] = memory.order[number(i) / heads];
    }
  }
  /// The block's tile i.
  template <class S, class Operands> NANO_DEVICE QueryTile tile(const Operands &x, int i) const {
    int unit;
    if constexpr (isSorted)
      unit = S::units()[i];
    else
      unit = number(i) / heads;
    QueryTile tile;
    tile.head = number(i) % heads;
    tile.begin = unit * rows;
    tile.end = smaller(tile.begin + rows, tokens);
    tile.from = larger(x.first[tile.begin], 0);
    tile.to = x.last[tile.end - 1] + 1;
    return tile;
  }
};

/// y and lse of the tile in a slot, by a computing warp.
template <class A, class Tiles, class S, class Operands>
NANO_DEVICE void forwardTile(int slot, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns;
  const auto [head, begin, end, firstKey, endKey, passed] = S::tile(slot);
  const int count = divideUp(endKey - firstKey, columns);
  const Lane lane;
  const int groupRow = shuffle(lane.warp, 0) / 4 * warpgroupRows, warpRow = lane.warp * 16;
  uint8_t *const queries = S::queries(slot);
  float sums[1][valueSize / 8][4] = {};
  mma::Softmax<1> softmax;
  constexpr float factor = mma::scoresInLog2<A> ? 1 : A::scale * log2e;
  const int *const firsts = S::firsts(slot), *const lasts = S::lasts(slot);
  const RowRanges ranges(firsts, lasts, groupRow, warpgroupRows);
  // The tiles that some row of the warpgroup sees.
  const int from = larger(ranges.firstOfFirst - firstKey, 0) / columns,
            to = (ranges.lastOfLast - firstKey) / columns;
  auto keys = [&](int tile, int i) { return S::columns((passed + tile) % Tiles::stages, i); };

  float scores[1][columns / 8][4];
  uint32_t weights[columns / 16][4];
  auto start = [&](int tile) {
    waitColumn<S, Tiles>(passed + tile);
    warpgroupRegisters(flat(scores));
    warpgroupFence();
    hopper::multiply<size, rows, columns>(scores, queries, groupRow, keys(tile, 0));
    warpgroupCommit();
  };
  auto weigh = [&](int tile, float (&scales)[1][2]) {
    const int key = firstKey + tile * columns;
    if constexpr (mma::scoresInLog2<A>)
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s *= A::scale;
        if constexpr (A::hasScore)
          s = A::score(s, begin + warpRow + at.row, key + at.column, head);
        s *= log2e;
      });
    if (!ranges.contain(key, key + columns - 1)) {
      const int first[2] = {firsts[warpRow + lane.group] - key,
                            firsts[warpRow + lane.group + 8] - key};
      const int last[2] = {lasts[warpRow + lane.group] - key,
                           lasts[warpRow + lane.group + 8] - key};
      mma::forElements(scores, lane, [&](float &s, Place at) {
        const bool seen = at.column >= first[at.half] && at.column <= last[at.half];
        s = seen ? s : -infinity;
      });
    }
    return softmax.apply(scores, scales, factor);
  };
  for (int tile = 0; tile < from; ++tile) {
    waitColumn<S, Tiles>(passed + tile);
    releaseColumn<S, Tiles>(passed + tile);
  }
  float scales[1][2];
  start(from);
  warpgroupWait<0>();
  warpgroupRegisters(flat(scores));
  weigh(from, scales);
  hopper::pack(weights, scores);
  for (int tile = from + 1; tile <= to; ++tile) {
    start(tile);
    warpgroupRegisters(flat(sums));
    warpgroupFence();
    hopper::accumulate<valueSize, columns>(sums, weights, keys(tile - 1, 1));
    warpgroupCommit();
    warpgroupWait<1>();
    warpgroupRegisters(flat(scores));
    const bool grown = weigh(tile, scales);
    warpgroupWait<0>();
    warpgroupRegisters(flat(sums));
    releaseColumn<S, Tiles>(passed + tile - 1);
    if (grown)
      mma::rescale(sums, scales);
    hopper::pack(weights, scores);
  }
  warpgroupRegisters(flat(sums));
  warpgroupFence();
  hopper::accumulate<valueSize, columns>(sums, weights, keys(to, 1));
  warpgroupCommit();
  warpgroupWait<0>();
  warpgroupRegisters(flat(sums));
  for (int tile = to; tile < count; ++tile) {
    waitColumn<S, Tiles>(passed + tile);
    releaseColumn<S, Tiles>(passed + tile);
  }

  mma::finish(sums, softmax, factor, lane, x, begin + warpRow, end, head);
  barrierSync(1 + lane.warp / 4,
              warpgroupThreads); // all warps have read the queries
  mma::storeTile<valueSize, rows, Operands::yPlaces>(sums, lane, queries, warpRow, x.y, head, begin,
                                                     end);
}

/// Iteration i: the tiles of block i, as Schedule says.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionForward(int iteration, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns;
  using S = Shared<Tiles, size, valueSize>;
  const Schedule<A, Tiles> schedule(iteration);
  schedule.template prepare<S>(x);
  S::barriers().init();
  if (warpIndex() / 4 == computingWarpgroups) {
    decreaseRegisters<copyRegisters>();
    Producer<S, Tiles> producer;
    QueryTile tile = schedule.template tile<S>(x, 0);
#pragma unroll 1
    for (int i = 0; i < schedule.count; ++i) {
      const QueryTile next = schedule.template tile<S>(x, smaller(i + 1, schedule.count - 1));
      producer.queries(i, [&](int slot) {
        loadTile<rows, size>(S::queries(slot), x.q, tile.head, tile.begin, tile.end);
        tile.passed = producer.column;
        if (laneIndex() == 0)
          S::tile(slot) = tile;
#pragma unroll
        for (int row = laneIndex(); row < rows; row += 32) {
          const int query = smaller(tile.begin + row, A::tokens - 1);
          S::firsts(slot)[row] = x.first[query];
          S::lasts(slot)[row] = x.last[query];
        }
      });
      producer.columns(tile.from, tile.to, [&](int stage, int key) {
        loadTile<columns, size>(S::columns(stage, 0), x.k, tile.head / sharing<A>, key, tile.to);
        loadTile<columns, valueSize>(S::columns(stage, 1), x.v, tile.head / sharing<A>, key,
                                     tile.to);
      });
      tile = next;
    }
    return;
  }
  increaseRegisters<computeRegisters>();
#pragma unroll 1
  for (int i = 0; i < schedule.count; ++i) {
    const int slot = i % Tiles::slots;
    mbarrierWait(&S::barriers().rowsFull[slot], uint32_t(i / Tiles::slots) & 1);
    forwardTile<A, Tiles, S>(slot, x);
    release(S::barriers().rowsEmpty[slot]);
  }
}

} // namespace nano::runs
