// The gradients of attention on Hopper in five products where the rows of a batch are short and
// causal: a block of threads for each multiprocessor computes whole rows of a head, one block of
// keys after the other, and adds what they give to the gradients of queries to sums of its own,
// which stay in the cache. Included by nano_attention.h.
//
// Units are the blocks of keys of all heads of all rows, in this order. A block of threads computes
// as many neighbouring ones as its share of the work: the end of a row and head that the block
// before it has begun, whole ones, and the beginning of one that the next block ends. It begins
// with that beginning, so that the sums for it lie ready long before the next block, which comes to
// them last, wants them. What a block does a ticket says, not blockIdx: it waits for one that has
// started. Queries' sums are added up in the order of the keys whoever adds them.
//
// Two warpgroups make scores, their gradients and those of keys and values, each of 64 keys; a
// third one multiplies the scores' gradients, which pass through shared memory, with the keys, and
// adds up; of the fourth one warps copy.
#pragma once

#include "nano_attention_chain.h"

namespace nano::rows {

using chain::Float4;
using hopper::computingWarpgroups;
using hopper::flat;
using hopper::QueryStatistics;
using hopper::warpgroupRows;
using hopper::warpgroupThreads;
using mma::Lane;
using mma::log2e;
using mma::Place;
using mma::Tile;

/// Two barriers a stage of queries, a slot of keys and values, and a tile of the scores' gradients:
/// full and empty.
template <class Tiles> struct Barriers {
  Mbarrier full[Tiles::stages], empty[Tiles::stages], rowsFull[Tiles::slots],
      rowsEmpty[Tiles::slots], scoresFull[Tiles::scoreStages], scoresEmpty[Tiles::scoreStages];
  int32_t ticket; ///< the block's

  NANO_DEVICE void init(int32_t *next) {
    constexpr int computing = computingWarpgroups * warpgroupThreads;
    if (threadIdx.x == 0) {
      ticket = fetchAdd(next, 1);
      for (int i = 0; i < Tiles::stages; ++i) {
        mbarrierInit(&full[i], 1 + 32);
        mbarrierInit(&empty[i], computing);
      }
      for (int i = 0; i < Tiles::slots; ++i) {
        mbarrierInit(&rowsFull[i], 1);
        mbarrierInit(&rowsEmpty[i], computing + warpgroupThreads);
      }
      for (int i = 0; i < Tiles::scoreStages; ++i) {
        mbarrierInit(&scoresFull[i], computing);
        mbarrierInit(&scoresEmpty[i], warpgroupThreads);
      }
      fenceMbarrierInit();
    }
    syncThreads();
  }
};

/// Shared memory of a block of threads.
template <class Tiles> struct Shared {
  using RowTile = Tile<Tiles::rows, 64>;
  using ColumnTile = Tile<Tiles::columns, 64>;
  using ScoreTile = Tile<Tiles::rows, Tiles::columns>;
  using AllBarriers = Barriers<Tiles>;
  static_assert(sizeof(AllBarriers) <= Tiles::barrierBytes);
  static NANO_DEVICE uint8_t *rows(int i, int slot) {
    return dynamicShared<uint8_t>((2 * slot + i) * RowTile::bytes);
  }
  static NANO_DEVICE uint8_t *columns(int stage, int i) {
    return rows(0, Tiles::slots) + (2 * stage + i) * ColumnTile::bytes;
  }
  static NANO_DEVICE uint8_t *scores(int i) {
    return columns(Tiles::stages, 0) + i * ScoreTile::bytes;
  }
  static NANO_DEVICE uint8_t *results() { return scores(Tiles::scoreStages); }
  static NANO_DEVICE float *sums(int i) {
    return reinterpret_cast<float *>(results() + ColumnTile::bytes) + i * Tiles::columns * 64;
  }
  static NANO_DEVICE AllBarriers &barriers() {
    return *reinterpret_cast<AllBarriers *>(sums(Tiles::keptTiles));
  }
  static NANO_DEVICE QueryStatistics<Tiles::columns> &queries(int stage) {
    return reinterpret_cast<QueryStatistics<Tiles::columns> *>(
        reinterpret_cast<uint8_t *>(&barriers()) + Tiles::barrierBytes)[stage];
  }
};

/// A block of keys: it begins with token `begin` and is number `block` of its row.
struct Unit {
  int head, begin, block;
};

/// The units of a block of threads, in the order in which it computes them: `first` ones begin a
/// row and head, `whole` ones follow, the others end a row and head.
template <class A, class Tiles> struct Share {
  static constexpr int rows = Tiles::rows, blocks = A::row / rows, heads = A::heads,
                       items = A::tokens / A::row * heads,
                       resident = Tiles::resident(items, A::multiprocessors);
  static_assert(A::row % rows == 0 && A::tokens % A::row == 0);
  int begin, firstBegin, wholeBegin, first, whole, count;

  /// What a block of keys costs, in tiles of queries, and the blocks before it; of a row and head.
  static NANO_DEVICE int costBefore(int block) {
    return block * (Tiles::tilesOfBlock * blocks + 1) -
           Tiles::tilesOfBlock * block * (block - 1) / 2;
  }
  static NANO_DEVICE int unitAt(int block) {
    const long long cost = (long long)costBefore(blocks) * items * block / resident;
    const int item = int(cost / costBefore(blocks)), rest = int(cost % costBefore(blocks));
    int unit = 0;
    while (costBefore(unit) < rest)
      ++unit;
    return item * blocks + unit;
  }
  NANO_DEVICE explicit Share(int ticket) {
    begin = unitAt(ticket);
    const int end = unitAt(ticket + 1);
    wholeBegin = int(divideUp(begin, blocks)) * blocks;
    firstBegin = end / blocks * blocks;
    first = end - firstBegin;
    whole = firstBegin - wholeBegin;
    count = end - begin;
  }
  NANO_DEVICE Unit unit(int i) const {
    const int number = i < first           ? firstBegin + i
                       : i < first + whole ? wholeBegin + i - first
                                           : begin + i - first - whole,
              item = number / blocks, block = number % blocks;
    return {item % heads, item / heads * A::row + block * rows, block};
  }
  /// Tiles of queries that see a block of keys, the first of which begins with it.
  static NANO_DEVICE int tiles(const Unit &unit) {
    return Tiles::tilesOfBlock * (blocks - unit.block);
  }
};

/// Copies everything by tensor maps, by a thread.
template <class A, class Tiles, class Operands>
NANO_DEVICE void copy(const Share<A, Tiles> &share, const Operands &x) {
  using S = Shared<Tiles>;
  auto &barriers = S::barriers();
  int place = 0;
#pragma unroll 1
  for (int i = 0; i < share.count; ++i) {
    const Unit unit = share.unit(i);
    const int slot = i % Tiles::slots;
    if (i >= Tiles::slots)
      mbarrierWait(&barriers.rowsEmpty[slot], uint32_t(i / Tiles::slots - 1) & 1);
    Mbarrier &rowsFull = barriers.rowsFull[slot];
    mbarrierArriveExpect(&rowsFull, 2 * S::RowTile::bytes);
    hopper::loadBoxes<Tiles::rows, 64, hopper::boxRows<A>>(S::rows(0, slot), x.maps[1], x.k,
                                                           unit.head, unit.begin, rowsFull);
    hopper::loadBoxes<Tiles::rows, 64, hopper::boxRows<A>>(S::rows(1, slot), x.maps[2], x.v,
                                                           unit.head, unit.begin, rowsFull);
    const int tiles = share.tiles(unit);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile, ++place) {
      const int stage = place % Tiles::stages, query = unit.begin + tile * Tiles::columns;
      if (place >= Tiles::stages)
        mbarrierWait(&barriers.empty[stage], uint32_t(place / Tiles::stages - 1) & 1);
      Mbarrier &full = barriers.full[stage];
      mbarrierArriveExpect(&full, 2 * S::ColumnTile::bytes);
      hopper::loadBoxes<Tiles::columns, 64, hopper::boxRows<A>>(S::columns(stage, 0), x.maps[0],
                                                                x.q, unit.head, query, full);
      hopper::loadBoxes<Tiles::columns, 64, hopper::boxRows<A>>(S::columns(stage, 1), x.maps[3],
                                                                x.dy, unit.head, query, full);
    }
  }
}

/// Reads what belongs to the tiles' queries, by one of `warps` warps: of a stage it is always the
/// same one.
template <int warps, class A, class Tiles, class Operands>
NANO_DEVICE void readColumns(const Share<A, Tiles> &share, const Operands &x, int warp) {
  using S = Shared<Tiles>;
  auto &barriers = S::barriers();
  int place = 0;
#pragma unroll 1
  for (int i = 0; i < share.count; ++i) {
    const Unit unit = share.unit(i);
    const int tiles = share.tiles(unit);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile, ++place) {
      const int stage = place % Tiles::stages;
      if (stage % warps != warp)
        continue;
      if (place >= Tiles::stages)
        mbarrierWait(&barriers.empty[stage], uint32_t(place / Tiles::stages - 1) & 1);
#pragma unroll
      for (int j = 0; j < Tiles::columns; j += 32) {
        const int column = j + laneIndex(), query = unit.begin + tile * Tiles::columns + column;
        S::queries(stage).logarithm[column] = *x.lse.row(query, unit.head) * log2e;
        S::queries(stage).delta[column] = *x.delta.row(query, unit.head);
      }
      mbarrierArrive(&barriers.full[stage]);
    }
  }
}

/// dq, by a warpgroup: what each block of keys gives to a tile of queries, added to what those
/// before it gave; behind the last block it is a result. What was given before to the next tile is
/// read while this one's products are made. Most of it is given to the last tiles of a row, whose
/// sums stay in shared memory but where one block of threads hands them to the next.
template <class A, class Tiles, class Operands>
NANO_DEVICE void addUp(const Share<A, Tiles> &share, int ticket, const Operands &x) {
  using S = Shared<Tiles>;
  constexpr int rows = Tiles::rows, columns = Tiles::columns;
  auto &barriers = S::barriers();
  const Lane lane;
  const int thread = threadIdx.x % warpgroupThreads, warpRow = lane.warp % 4 * 16;
  constexpr int tileSums = columns * 64, region = A::row * 64,
                firstKept = A::row / columns - Tiles::keptTiles;
  float sums[1][8][4], before[1][8][4];
  int use = 0;
#pragma unroll 1
  for (int i = 0; i < share.count; ++i) {
    const Unit unit = share.unit(i);
    const int slot = i % Tiles::slots, tiles = share.tiles(unit);
    // The next block of threads goes on with what this one begins.
    const bool isFirst = i < share.first, isHandedOver = i == share.first + share.whole;
    float *const to = x.partial + (2LL * ticket + isFirst) * region;
    const float *const from = isHandedOver ? x.partial + (2LL * ticket - 1) * region : to;
    // This thread's part of a tile's sums: in memory, or in shared memory where they stay.
    auto placeOf = [&](auto *memory, bool stays, int tile) {
      const int number = Tiles::tilesOfBlock * unit.block + tile;
      if (stays && number >= firstKept)
        memory = S::sums(number - firstKept);
      else
        memory += number * tileSums;
      return memory + 4 * thread;
    };
    auto readBefore = [&](int tile) {
      if (unit.block == 0 || tile >= tiles)
        return;
      const float *const place = placeOf(from, !isHandedOver, tile);
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const Float4 four = *reinterpret_cast<const Float4 *>(place + c * 4 * warpgroupThreads);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          before[0][c][j] = four.value[j];
      }
    };
    mma::forElements(before, lane, [](float &sum, Place) { sum = 0; });
    if (isHandedOver)
      waitForCount(x.counts + ticket, 1);
    readBefore(0);
    mbarrierWait(&barriers.rowsFull[slot], uint32_t(i / Tiles::slots) & 1);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile, ++use) {
      const int stage = use % Tiles::scoreStages;
      mbarrierWait(&barriers.scoresFull[stage], uint32_t(use / Tiles::scoreStages) & 1);
      warpgroupRegisters(flat(sums));
      warpgroupFence();
      const uint64_t left = matrixDescriptor(S::scores(stage), rows * 128, 1024, Swizzle::Bytes128),
                     right =
                         matrixDescriptor(S::rows(0, slot), rows * 128, 1024, Swizzle::Bytes128);
      // Of the second half of the keys the first tile sees nothing.
#pragma unroll
      for (int k = 0; k < rows / 32; ++k)
        warpgroupMultiply<bf16, bf16, Major::MN, Major::MN>(
            flat(sums), advanced(left, k * 16 * 128), advanced(right, k * 16 * 128), k > 0);
      if (tile > 0)
#pragma unroll
        for (int k = rows / 32; k < rows / 16; ++k)
          warpgroupMultiply<bf16, bf16, Major::MN, Major::MN>(
              flat(sums), advanced(left, k * 16 * 128), advanced(right, k * 16 * 128), true);
      warpgroupCommit();
      warpgroupWait<0>();
      warpgroupRegisters(flat(sums));
      mbarrierArrive(&barriers.scoresEmpty[stage]);
      mma::forElements(sums, before, lane, [](float &sum, float &b, Place) { sum += b; });
      readBefore(tile + 1);
      if (tile < Tiles::tilesOfBlock) { // those behind these keys do not see them
        mma::forElements(sums, lane, [&](float &sum, Place) { sum *= A::scale; });
        const int begin = unit.begin + tile * columns;
        mma::storeTile<A::headSize, columns, Operands::dqPlaces>(
            sums, lane, S::results(), warpRow, x.dq, unit.head, begin, begin + columns);
        if constexpr (attentionSumsQueries<A>) {
          mma::storeColumnSums<A::headSize, columns, /*atOnce=*/4>(
              lane, S::results(), warpRow, x.dqSums, begin / columns, unit.head, 3);
          barrierSync(3, warpgroupThreads); // all warps have read the others' sums
        }
      } else {
        float *const place = placeOf(to, i != share.first - 1, tile);
#pragma unroll
        for (int c = 0; c < 8; ++c)
          *reinterpret_cast<Float4 *>(place + c * 4 * warpgroupThreads) =
              Float4{{sums[0][c][0], sums[0][c][1], sums[0][c][2], sums[0][c][3]}};
      }
    }
    mbarrierArrive(&barriers.rowsEmpty[slot]);
    if (i == share.first - 1) {
      barrierSync(3, warpgroupThreads);
      if (thread == 0)
        addToCount(x.counts + 1 + ticket);
    }
  }
}

/// Scores, their gradients, dk and dv, by two warpgroups.
template <class A, class Tiles, class Operands>
NANO_DEVICE void compute(const Share<A, Tiles> &share, const Operands &x) {
  using S = Shared<Tiles>;
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns;
  auto &barriers = S::barriers();
  const Lane lane;
  const int group = shuffle(lane.warp, 0) / 4, groupRow = group * warpgroupRows,
            warpRow = lane.warp * 16;
  float keySums[1][8][4], valueSums[1][8][4], scores[1][columns / 8][4],
      products[1][columns / 8][4];
  uint32_t weights[columns / 16][4], gradients[columns / 16][4];
  int place = 0;
#pragma unroll 1
  for (int i = 0; i < share.count; ++i) {
    const int slot = i % Tiles::slots, tiles = share.tiles(share.unit(i));
    mma::forElements(keySums, valueSums, lane, [](float &k, float &v, Place) { k = v = 0; });
    int pending = -1; // the stage whose last products have not been waited for
    auto releasePending = [&] {
      if (pending >= 0)
        mbarrierArrive(&barriers.empty[pending]);
    };
    mbarrierWait(&barriers.rowsFull[slot], uint32_t(i / Tiles::slots) & 1);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile, ++place) {
      const int stage = place % Tiles::stages, scoreStage = place % Tiles::scoreStages;
      const auto &queries = S::queries(stage);
      mbarrierWait(&barriers.full[stage], uint32_t(place / Tiles::stages) & 1);
      auto waitScoresEmpty = [&] {
        if (place >= Tiles::scoreStages)
          mbarrierWait(&barriers.scoresEmpty[scoreStage],
                       uint32_t(place / Tiles::scoreStages - 1) & 1);
      };
      if (tile < group) { // its queries are before the warpgroup's keys
        waitScoresEmpty();
        mbarrierArrive(&barriers.scoresFull[scoreStage]);
        mbarrierArrive(&barriers.empty[stage]);
        continue;
      }
      warpgroupRegisters(flat(scores));
      warpgroupRegisters(flat(products));
      warpgroupFence();
      hopper::multiply<size, rows, columns>(scores, S::rows(0, slot), groupRow,
                                            S::columns(stage, 0));
      warpgroupCommit();
      hopper::multiply<valueSize, rows, columns>(products, S::rows(1, slot), groupRow,
                                                 S::columns(stage, 1));
      warpgroupCommit();
      warpgroupWait<1>();
      warpgroupRegisters(flat(scores));
      releasePending();
      pending = stage;
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s = approximateExp2(fma(s, A::scale * log2e, -queries.logarithm[at.column]));
      });
      if (tile == group)
        mma::forElements(scores, lane, [&](float &s, Place at) {
          s = warpRow - groupRow + at.row <= at.column ? s : 0;
        });
      hopper::pack(weights, scores);
      warpgroupWait<0>();
      warpgroupRegisters(flat(products));
      mma::forElements(scores, products, lane, [&](float &s, float &p, Place at) {
        p = s * (p - queries.delta[at.column]);
      });
      if (tile == group)
        mma::forElements(scores, products, lane,
                         [](float &s, float &p, Place) { p = s == 0 ? 0 : p; });
      hopper::pack(gradients, products);
      waitScoresEmpty();
      uint8_t *const scoreTile = S::scores(scoreStage);
#pragma unroll
      for (int k = 0; k < columns / 16; ++k)
        storeMatrix<4>(scoreTile + S::ScoreTile::block(lane.left, warpRow, 2 * k), gradients[k]);
      fenceProxyAsync();
      mbarrierArrive(&barriers.scoresFull[scoreStage]);
      warpgroupRegisters(flat(valueSums));
      warpgroupRegisters(flat(keySums));
      warpgroupFence();
      hopper::accumulate<64, columns>(valueSums, weights, S::columns(stage, 1));
      hopper::accumulate<64, columns>(keySums, gradients, S::columns(stage, 0));
      warpgroupCommit();
    }
    warpgroupWait<0>();
    warpgroupRegisters(flat(valueSums));
    warpgroupRegisters(flat(keySums));
    releasePending();
    mma::forElements(keySums, lane, [&](float &sum, Place) { sum *= A::scale; });
    barrierSync(1 + group, warpgroupThreads); // all warps have read the values
    // The third warpgroup may still read the keys.
    const Unit unit = share.unit(i);
    mma::storeTile<valueSize, rows, Operands::dvPlaces>(
        valueSums, lane, S::rows(1, slot), warpRow, x.dv, unit.head, unit.begin, unit.begin + rows);
    const int part = unit.begin / warpgroupRows + group; // of sums of columns
    if constexpr (attentionSumsValues<A>) {
      mma::storeColumnSums<valueSize, rows>(lane, S::rows(1, slot), warpRow, x.dvSums, part,
                                            unit.head, 1 + group);
      barrierSync(1 + group, warpgroupThreads); // all warps have read the others' sums
    }
    mma::storeTile<size, rows, Operands::dkPlaces>(keySums, lane, S::rows(1, slot), warpRow, x.dk,
                                                   unit.head, unit.begin, unit.begin + rows);
    if constexpr (attentionSumsKeys<A>)
      mma::storeColumnSums<size, rows>(lane, S::rows(1, slot), warpRow, x.dkSums, part, unit.head,
                                       1 + group);
    fenceProxyAsync(); // the next keys come by bulk copies to where results were written
    mbarrierArrive(&barriers.rowsEmpty[slot]);
  }
}

/// The share of a block of threads. All of them call it.
template <class A, class Tiles, class Operands> NANO_DEVICE void attentionGrads(const Operands &x) {
  auto &barriers = Shared<Tiles>::barriers();
  barriers.init(x.counts);
  const int ticket = barriers.ticket, group = shuffle(warpIndex(), 0) / 4, warp = warpIndex() % 4;
  if (group == computingWarpgroups + 1) {
    decreaseRegisters<24>();
    const Share<A, Tiles> share(ticket);
    if (warp < 2)
      readColumns<2>(share, x, warp);
    else if (warp == 2 && laneIndex() == 0)
      copy(share, x);
  } else if (group == computingWarpgroups) {
    decreaseRegisters<104>();
    addUp(Share<A, Tiles>(ticket), ticket, x);
  } else {
    increaseRegisters<192>();
    compute(Share<A, Tiles>(ticket), x);
  }
}

} // namespace nano::rows
