// The gradients of attention on Hopper in five products: a block of keys computes its own gradients
// and adds what it gives to those of queries to sums in memory, one block after the other in the
// order of their keys. Included by nano_attention.h.
//
// No order in which the blocks of a launch start can make them wait for ever. A block takes a
// ticket when it starts, and the ticket, not blockIdx, says what it does: the keys of a head come
// in descending order, head after head, and behind them the units of sums that become dq. A block
// of keys waits for nothing but that blocks of the same head with keys behind its own have added
// to a tile, a unit for all blocks of keys that add to it: these have smaller tickets, so that they
// run already and stay until they end. By induction over the tickets all end: the one with the
// smallest ticket waits for nobody.
//
// Under a causal mask neighbouring blocks of a head, which walk from their first queries to the
// last ones, then keep a distance without waiting: the one that is waited for begins with the
// queries behind. Ascending keys, the longest blocks first, leave them in step, 2% to 20% slower.
#pragma once

#include "nano_attention_runs.h"

namespace nano::chain {

using hopper::computingWarpgroups;
using hopper::flat;
using hopper::QueryColumns;
using hopper::warpgroupRows;
using hopper::warpgroupThreads;
using mma::Lane;
using mma::log2e;
using mma::Place;
using mma::Tile;

struct alignas(16) Float4 {
  float value[4];
};

/// Two barriers a stage of queries, those of the keys, and of either warpgroup two of the gradients
/// of a tile's queries: full for the warp that adds them up in memory, empty for those who compute.
template <int stages> struct Barriers {
  Mbarrier full[stages], empty[stages], rows, gradFull[2], gradEmpty[2], scoresFull[2],
      scoresEmpty[2];
  int32_t ticket; ///< the block's

  /// By all threads; the ticket becomes `next`'s value, which grows by one. `ofRows`: arrivals when
  /// keys and values have come.
  NANO_DEVICE void init(int32_t *next, int ofRows) {
    constexpr int computingWarps = computingWarpgroups * warpgroupThreads / 32;
    if (threadIdx.x == 0) {
      ticket = fetchAdd(next, 1);
      for (int i = 0; i < stages; ++i) {
        mbarrierInit(&full[i], 32);
        mbarrierInit(&empty[i], 32 * computingWarps);
      }
      mbarrierInit(&rows, ofRows);
      for (int i = 0; i < 2; ++i) {
        mbarrierInit(&gradFull[i], 4);
        mbarrierInit(&gradEmpty[i], 1);
        mbarrierInit(&scoresFull[i], computingWarps);
        mbarrierInit(&scoresEmpty[i], computingWarps);
      }
      fenceMbarrierInit();
    }
    syncThreads();
  }
};

/// Shared memory of a block: keys and values, the stages' queries and their dy, two tiles of the
/// scores' gradients, the sums for the queries' gradients, barriers, what belongs to the queries.
template <class Tiles, int size> struct Shared {
  using RowTile = Tile<Tiles::rows, size>;
  using ColumnTile = Tile<Tiles::columns, size>;
  using ScoreTile = Tile<Tiles::rows, Tiles::columns>;
  using AllBarriers = Barriers<Tiles::stages>;
  static_assert(sizeof(AllBarriers) == Tiles::barrierBytes);
  static NANO_DEVICE uint8_t *rows(int i) { return dynamicShared<uint8_t>(i * RowTile::bytes); }
  static NANO_DEVICE uint8_t *columns(int stage, int i) {
    return dynamicShared<uint8_t>(2 * RowTile::bytes + (2 * stage + i) * ColumnTile::bytes);
  }
  static NANO_DEVICE uint8_t *scores(int i) {
    return columns(Tiles::stages, 0) + i * ScoreTile::bytes;
  }
  static NANO_DEVICE float *sums(int i) {
    return reinterpret_cast<float *>(scores(Tiles::scoreStages)) + i * Tiles::unit;
  }
  static NANO_DEVICE AllBarriers &barriers() { return *reinterpret_cast<AllBarriers *>(sums(2)); }
  static NANO_DEVICE QueryColumns<Tiles::columns> &queries(int stage) {
    return reinterpret_cast<QueryColumns<Tiles::columns> *>(&barriers() + 1)[stage];
  }
};

/// Tiles of columns that a block of keys gives gradients to: those with a query whose range ends
/// behind the block's beginning and one whose range begins before its end. A tile's blocks are
/// therefore those from that of its first key to that of its last one, also where a block between
/// them is seen by none of its queries.
template <class A, class Tiles> struct Columns {
  static constexpr int columns = Tiles::columns, tokens = A::tokens, rows = Tiles::rows;
  static_assert(sharing<A> == 1, "few heads of keys leave few blocks, which wait for one another");
  int first, count; ///< tiles first … first + count − 1

  template <class Operands> NANO_DEVICE Columns(const Operands &x, int begin, int end) {
    const int from = countBelow(x.last, tokens, begin, begin - 31, 1),
              to = countBelow(x.first, tokens, end, end - 1, 33);
    first = from / columns;
    count = from < tokens ? larger(int(divideUp(to, columns)) - first, 0) : 0;
  }

  /// The place of a part of a tile among units of sums and counts, of which each tile has two.
  static NANO_DEVICE int unit(int head, int tile, int part) {
    return 2 * (head * int(divideUp(tokens, columns)) + tile) + part;
  }
  /// The blocks that add to a tile: the first and the last of their keys.
  template <class Operands> static NANO_DEVICE int firstBlock(const Operands &x, int tile) {
    return larger(x.first[tile * columns], 0) / rows;
  }
  template <class Operands> static NANO_DEVICE int lastBlock(const Operands &x, int tile) {
    return smaller(x.last[smaller(tile * columns + columns, tokens) - 1], tokens - 1) / rows;
  }
};

/// One of two copying warps: keys or values, and every second tile.
template <class A, class Tiles, class Operands>
NANO_DEVICE void load(const Operands &x, const Columns<A, Tiles> &all, int head, int begin,
                      int end) {
  constexpr int size = A::headSize, tokens = A::tokens, rows = Tiles::rows,
                columns = Tiles::columns, stages = Tiles::stages;
  using S = Shared<Tiles, size>;
  auto &barriers = S::barriers();
  const int warp = warpIndex() % 4;
  if constexpr (!attentionHasMaps<A>) {
    runs::loadTile<rows, size>(S::rows(warp), warp == 0 ? x.k : x.v, head, begin, end);
  } else if (laneIndex() == 0) {
    mbarrierArriveExpect(&barriers.rows, S::RowTile::bytes);
    hopper::loadBoxes<rows, size, hopper::boxRows<A>>(
        S::rows(warp), x.maps[1 + warp], warp == 0 ? x.k : x.v, head, begin, barriers.rows);
  }
  // Stages are released in order, so that neither warp is ahead of the other by two uses of one.
#pragma unroll 1
  for (int i = warp; i < all.count || (i < 2 && !attentionHasMaps<A>); i += 2) {
    const int stage = i % stages;
    if (i >= stages)
      mbarrierWait(&barriers.empty[stage], uint32_t(i / stages - 1) & 1);
    if (i < all.count) {
      const int query = (all.first + i) * columns;
      if constexpr (!attentionHasMaps<A>) {
        runs::loadTile<columns, size>(S::columns(stage, 0), x.q, head, query, tokens);
        runs::loadTile<columns, size>(S::columns(stage, 1), x.dy, head, query, tokens);
      } else if (laneIndex() == 0) {
        Mbarrier &full = barriers.full[stage];
        mbarrierExpect(&full, 2 * S::ColumnTile::bytes);
        hopper::loadBoxes<columns, size, hopper::boxRows<A>>(S::columns(stage, 0), x.maps[0], x.q,
                                                             head, query, full);
        hopper::loadBoxes<columns, size, hopper::boxRows<A>>(S::columns(stage, 1), x.maps[3], x.dy,
                                                             head, query, full);
      }
#pragma unroll 1
      for (int column = laneIndex(); column < columns; column += 32)
        S::queries(stage).template load<rows>(x, head, query, tokens, begin, column);
    }
    if constexpr (!attentionHasMaps<A>) {
      copyAsyncCommit();
      copyAsyncWait<0>();
      fenceProxyAsync();
      if (i < 2)
        mbarrierArrive(&barriers.rows);
    }
    if (i < all.count)
      mbarrierArrive(&barriers.full[stage]);
  }
}

/// A thread that adds a warpgroup's gradients of queries to the sums in memory, when it is the
/// block's turn; the first one stores, so that sums need not be cleared. That a tile is done is
/// told when the next one is on its way, but before waiting for others, who may wait for it.
template <class A, class Tiles, class Operands>
NANO_DEVICE void addUp(const Operands &x, const Columns<A, Tiles> &all, int head, int part,
                       int block) {
  using S = Shared<Tiles, A::headSize>;
  auto &barriers = S::barriers();
  int32_t *pending = nullptr;
  auto tell = [&] {
    fenceProxyGlobal();
    if (pending)
      addToCount(pending);
    pending = nullptr;
  };
#pragma unroll 1
  for (int i = 0; i < all.count; ++i) {
    const int tile = all.first + i, unit = all.unit(head, tile, part);
    const int before = all.lastBlock(x, tile) - block;
    int32_t *const counter = x.counts + 1 + unit;
    if (before > 0 && !hasCount(counter, before)) {
      bulkWait<0>();
      tell();
      waitForCount(counter, before);
    }
    fenceProxyGlobal();
    mbarrierWait(&barriers.gradFull[part], uint32_t(i) & 1);
    float *const to = x.partial + (long long)unit * Tiles::unit;
    if (before > 0)
      bulkAdd(to, S::sums(part), 4 * Tiles::unit);
    else
      bulkStore(to, S::sums(part), 4 * Tiles::unit);
    bulkCommit();
    bulkWaitRead<0>();
    mbarrierArrive(&barriers.gradEmpty[part]);
    bulkWait<1>();
    tell();
    pending = counter;
  }
  bulkWait<0>();
  tell();
}

/// dk and dv of a block of keys, and what it gives to dq.
template <class A, class Tiles, class Operands>
NANO_DEVICE void keyBlock(int ticket, const Operands &x) {
  constexpr int size = A::headSize, tokens = A::tokens, rows = Tiles::rows,
                columns = Tiles::columns, stages = Tiles::stages, blocks = divideUp(tokens, rows);
  using S = Shared<Tiles, size>;
  auto &barriers = S::barriers();
  const int head = ticket / blocks, block = blocks - 1 - ticket % blocks, begin = block * rows,
            end = smaller(begin + rows, tokens);
  const Columns<A, Tiles> all(x, begin, end);

  if (warpIndex() / 4 == computingWarpgroups) {
    decreaseRegisters<24>();
    const int warp = warpIndex() % 4;
    if (warp < 2)
      load<A, Tiles>(x, all, head, begin, end);
    else if (laneIndex() == 0)
      addUp<A, Tiles>(x, all, head, warp - 2, block);
    return;
  }

  increaseRegisters<240>();
  const int count = all.count;
  const Lane lane;
  const int group = shuffle(lane.warp, 0) / 4, groupRow = group * warpgroupRows,
            warpRow = lane.warp * 16;
  float keySums[1][size / 8][4] = {}, valueSums[1][size / 8][4] = {};
  float scores[1][columns / 8][4], products[1][columns / 8][4];
  uint32_t weights[columns / 16][4], gradients[columns / 16][4];
  float querySums[1][8][4] = {};
  // Starts the scores of a tile when it has come.
  auto startScores = [&](int i) {
    const int stage = i % stages;
    mbarrierWait(&barriers.full[stage], uint32_t(i / stages) & 1);
    warpgroupRegisters(flat(scores));
    warpgroupFence();
    hopper::multiply<size, rows, columns>(scores, S::rows(0), groupRow, S::columns(stage, 0));
    warpgroupCommit();
  };
  mbarrierWait(&barriers.rows, 0);
  // Starts the gradients of tile i's queries when both warpgroups have written its scores'.
  auto startQuerySums = [&](int i) {
    mbarrierWait(&barriers.scoresFull[i % 2], uint32_t(i / 2) & 1);
    warpgroupRegisters(flat(querySums));
    warpgroupFence();
    const uint8_t *const scoreTile = S::scores(i % 2);
    const uint64_t left = matrixDescriptor(scoreTile + (columns == 128 ? group : 0) * rows * 128,
                                           rows * 128, 1024, Swizzle::Bytes128),
                   right = matrixDescriptor(S::rows(0) + (size == 128 ? group : 0) * rows * 128,
                                            rows * 128, 1024, Swizzle::Bytes128);
#pragma unroll
    for (int k = 0; k < rows / 16; ++k)
      warpgroupMultiply<bf16, bf16, Major::MN, Major::MN>(
          flat(querySums), advanced(left, k * 16 * 128), advanced(right, k * 16 * 128), k > 0);
    warpgroupCommit();
  };
  // Gives the warp that adds them up the gradients of tile i's queries.
  auto give = [&](int i) {
    runs::release(barriers.scoresEmpty[i % 2]);
    if (i > 0)
      mbarrierWait(&barriers.gradEmpty[group], uint32_t(i - 1) & 1);
    float *const to = S::sums(group) + 4 * (threadIdx.x % warpgroupThreads);
#pragma unroll
    for (int c = 0; c < 8; ++c)
      *reinterpret_cast<Float4 *>(to + c * 4 * warpgroupThreads) =
          Float4{{querySums[0][c][0], querySums[0][c][1], querySums[0][c][2], querySums[0][c][3]}};
    fenceProxyAsync();
    syncWarp();
    if (laneIndex() == 0)
      mbarrierArrive(&barriers.gradFull[group]);
  };
  // Starts the values' gradients of the tile in a stage.
  auto startValueSums = [&](int stage) {
    warpgroupRegisters(flat(valueSums));
    warpgroupFence();
    hopper::accumulate<size, columns>(valueSums, weights, S::columns(stage, 1));
    warpgroupCommit();
  };
  if (Tiles::ahead && count > 0) {
    startScores(0);
    warpgroupWait<0>();
    warpgroupRegisters(flat(scores));
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const int stage = i % stages;
    const auto &queries = S::queries(stage);
    if constexpr (!Tiles::ahead)
      startScores(i);
    warpgroupRegisters(flat(products));
    warpgroupFence();
    hopper::multiply<size, rows, columns>(products, S::rows(1), groupRow, S::columns(stage, 1));
    warpgroupCommit();
    const uint32_t firstSeen = queries.seen[0], lastSeen = queries.seen[columns - 1];
    const bool contain =
        queries.first(lastSeen) <= groupRow && queries.count(lastSeen) > 0 &&
        queries.first(firstSeen) + queries.count(firstSeen) >= groupRow + warpgroupRows;
    if constexpr (!Tiles::ahead) {
      warpgroupWait<1>();
      warpgroupRegisters(flat(scores));
    }
    mma::forElements(scores, lane, [&](float &s, Place at) {
      s = approximateExp2(fma(s, A::scale * log2e, -queries.logarithm[at.column]));
    });
    if (!contain)
      mma::forElements(scores, lane, [&](float &s, Place at) {
        const uint32_t seen = queries.seen[at.column];
        s = uint32_t(warpRow + at.row - queries.first(seen)) < (seen >> 16) ? s : 0;
      });
    hopper::pack(weights, scores);
    // There are no registers for the weights beside the next tile's scores.
    if constexpr (Tiles::ahead)
      startValueSums(stage);
    warpgroupWait<0>();
    if constexpr (Tiles::ahead)
      warpgroupRegisters(flat(valueSums));
    warpgroupRegisters(flat(products));
    mma::forElements(scores, products, lane,
                     [&](float &s, float &p, Place at) { p = s * (p - queries.delta[at.column]); });
    if (!contain)
      mma::forElements(scores, products, lane,
                       [](float &s, float &p, Place) { p = s == 0 ? 0 : p; });
    hopper::pack(gradients, products);
    if (i > 1)
      mbarrierWait(&barriers.scoresEmpty[i % 2], uint32_t(i / 2 - 1) & 1);
    {
      uint8_t *const scoreTile = S::scores(i % 2);
#pragma unroll
      for (int k = 0; k < columns / 16; ++k)
        storeMatrix<4>(scoreTile + S::ScoreTile::block(lane.left, warpRow, 2 * k), gradients[k]);
    }
    fenceProxyAsync();
    runs::release(barriers.scoresFull[i % 2]);
    if constexpr (!Tiles::ahead)
      startValueSums(stage);
    warpgroupRegisters(flat(keySums));
    warpgroupFence();
    hopper::accumulate<size, columns>(keySums, gradients, S::columns(stage, 0));
    warpgroupCommit();
    startQuerySums(i);
    if constexpr (Tiles::ahead) {
      // Behind the last tile its own again, which nobody reads.
      startScores(smaller(i + 1, count - 1));
      warpgroupWait<1>();
    } else {
      warpgroupWait<0>();
    }
    warpgroupRegisters(flat(querySums));
    warpgroupRegisters(flat(keySums));
    warpgroupRegisters(flat(valueSums));
    // What is started again reads the last stage.
    if (!Tiles::ahead || i + 1 < count)
      mbarrierArrive(&barriers.empty[stage]);
    give(i);
    if constexpr (Tiles::ahead) {
      warpgroupWait<0>();
      warpgroupRegisters(flat(scores));
    }
  }
  mma::forElements(keySums, lane, [&](float &sum, Place) { sum *= A::scale; });
  barrierSync(4, computingWarpgroups * warpgroupThreads); // all have read keys and values
  mma::storeTile<size, rows, Operands::dkPlaces>(keySums, lane, S::rows(0), warpRow, x.dk, head,
                                                 begin, end);
  mma::storeTile<size, rows, Operands::dvPlaces>(valueSums, lane, S::rows(1), warpRow, x.dv, head,
                                                 begin, end);
  if (begin + groupRow >= tokens)
    return;
  if constexpr (attentionSumsKeys<A>)
    mma::storeColumnSums<size, rows>(lane, S::rows(0), warpRow, x.dkSums,
                                     begin / warpgroupRows + group, head, 1 + group);
  if constexpr (attentionSumsValues<A>)
    mma::storeColumnSums<size, rows>(lane, S::rows(1), warpRow, x.dvSums,
                                     begin / warpgroupRows + group, head, 1 + group);
}

/// dq of `unitsOfBlock` units of 64 queries and 64 of their elements.
template <class A, class Tiles, class Operands>
NANO_DEVICE void queryUnits(int number, const Operands &x) {
  constexpr int size = A::headSize, tokens = A::tokens, columns = Tiles::columns,
                tilesOfHead = divideUp(tokens, columns), units = A::heads * tilesOfHead * 2;
  const Lane lane;
  const int group = shuffle(lane.warp, 0) / 4;
#pragma unroll 1
  for (int unit = number * Tiles::unitsOfBlock + group;
       unit < smaller((number + 1) * Tiles::unitsOfBlock, units);
       unit += Tiles::threads / warpgroupThreads) {
    const int pair = unit / 2, part = unit % 2, head = pair / tilesOfHead,
              tile = pair % tilesOfHead;
    using All = Columns<A, Tiles>;
    waitForCount(x.counts + 1 + unit, All::lastBlock(x, tile) - All::firstBlock(x, tile) + 1);
    const float *const from =
        x.partial + (long long)unit * Tiles::unit + 4 * (threadIdx.x % warpgroupThreads);
    float sums[1][8][4];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const Float4 four = *reinterpret_cast<const Float4 *>(from + c * 4 * warpgroupThreads);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[0][c][j] = four.value[j] * A::scale;
    }
    Operands results = x;
    if (size == 128)
      for (int place = 0; place < Operands::dqPlaces; ++place)
        results.dq[place].base += 64 * part;
    const int begin = tile * columns + (columns == 128 ? 64 * part : 0);
    mma::storeTile<64, 64 * 3, Operands::dqPlaces>(
        sums, lane, dynamicShared<uint8_t>(), lane.warp * 16, results.dq, head,
        begin - group * warpgroupRows, smaller(begin + 64, tokens));
    if constexpr (attentionSumsQueries<A>)
      if (begin < tokens) {
        if (size == 128)
          results.dqSums.base += 64 * part;
        mma::storeColumnSums<64, 64 * 3>(lane, dynamicShared<uint8_t>(), lane.warp * 16,
                                         results.dqSums, begin / warpgroupRows, head, 1 + group);
        barrierSync(1 + group, warpgroupThreads); // all warps have read the others' sums
      }
  }
}

/// The block's part of dq, dk and dv.
template <class A, class Tiles, class Operands> NANO_DEVICE void attentionGrads(const Operands &x) {
  auto &barriers = Shared<Tiles, A::headSize>::barriers();
  constexpr int keyBlocks = A::keyHeads * divideUp(A::tokens, Tiles::rows);
  barriers.init(x.counts, attentionHasMaps<A> ? 2 : 2 * 32);
  const int ticket = barriers.ticket;
  if (ticket < keyBlocks)
    keyBlock<A, Tiles>(ticket, x);
  else
    queryUnits<A, Tiles>(ticket - keyBlocks, x);
}

} // namespace nano::chain
