// The gradients of attention on Hopper in five products where rows are causal: a block of threads
// computes two blocks of keys of a row, one from its end and one from its beginning, so that all
// take equally long, but the middle one of an odd number, which has half the work. Heads of queries
// that share the keys come one after the other. What it gives to the gradients of queries it adds
// to sums in memory. Included by nano_attention.h.
//
// What a block of threads does a ticket says, not blockIdx. Of the tickets of a row and head of
// keys, the first one takes the last block of keys and then the first one, the next one those
// beside them. On its first turn a block walks over the tiles of queries from its keys to the end
// of the row, on its second one from there back to its keys. So each is a few tiles behind the one
// before it in every head, and they add in the order of their tickets almost without waiting. Both
// turns have sums of their own: a block waits for those of smaller tickets alone, which run already
// and end, by induction over the tickets. Behind all blocks of keys come those that make the sums
// dq, which wait for them. (If the last block that adds to a tile did that, its third warpgroup,
// which has few registers, would make all others wait.)
//
// Two warpgroups make scores, their gradients and those of keys and values, each of 64 keys; a
// third one multiplies the scores' gradients, which pass through shared memory, with the keys, and
// adds to the sums; of the fourth one a warp copies, one reads what belongs to queries, one waits
// for other blocks and one tells them.
#pragma once

#include "nano_attention_chain.h"

namespace nano::ends {

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

/// Two barriers a stage of queries, of keys and values, and of a tile of the scores' gradients:
/// full and empty. Of a tile's sums: it is the block's turn to add, all have added, others know it.
template <class Tiles> struct Barriers {
  Mbarrier full[Tiles::stages], empty[Tiles::stages], scoresFull[Tiles::scoreStages],
      scoresEmpty[Tiles::scoreStages], rowsFull, rowsEmpty, turn[Tiles::turns], added[Tiles::turns],
      told[Tiles::turns];
  int32_t ticket; ///< the block's

  NANO_DEVICE void init(int32_t *next) {
    constexpr int computing = computingWarpgroups * warpgroupThreads;
    if (threadIdx.x == 0) {
      ticket = fetchAdd(next, 1);
      for (int i = 0; i < Tiles::stages; ++i) {
        mbarrierInit(&full[i], 1 + 32);
        mbarrierInit(&empty[i], computing);
      }
      for (int i = 0; i < Tiles::scoreStages; ++i) {
        mbarrierInit(&scoresFull[i], computing);
        mbarrierInit(&scoresEmpty[i], warpgroupThreads);
      }
      mbarrierInit(&rowsFull, 1);
      mbarrierInit(&rowsEmpty, computing + warpgroupThreads);
      for (int i = 0; i < Tiles::turns; ++i) {
        mbarrierInit(&turn[i], 1);
        mbarrierInit(&added[i], warpgroupThreads);
        mbarrierInit(&told[i], 1);
      }
      fenceMbarrierInit();
    }
    syncThreads();
  }
};

/// Shared memory of a block of threads.
template <class A, class Tiles> struct Shared {
  using KeyTile = Tile<Tiles::rows, A::headSize>;
  using ValueTile = Tile<Tiles::rows, A::valueSize>;
  using QueryTile = Tile<Tiles::columns, A::headSize>;
  using ResultTile = Tile<Tiles::columns, A::valueSize>; // of dy
  using ScoreTile = Tile<Tiles::rows, Tiles::columns>;
  using AllBarriers = Barriers<Tiles>;
  static constexpr int stageBytes = QueryTile::bytes + ResultTile::bytes;
  static_assert(sizeof(AllBarriers) <= Tiles::barrierBytes);
  static NANO_DEVICE uint8_t *keys() { return dynamicShared<uint8_t>(); }
  static NANO_DEVICE uint8_t *values() { return keys() + KeyTile::bytes; }
  static NANO_DEVICE uint8_t *queries(int stage) {
    return values() + ValueTile::bytes + stage * stageBytes;
  }
  static NANO_DEVICE uint8_t *dy(int stage) { return queries(stage) + QueryTile::bytes; }
  static NANO_DEVICE uint8_t *scores(int i) {
    return queries(Tiles::stages) + i * ScoreTile::bytes;
  }
  static NANO_DEVICE AllBarriers &barriers() {
    return *reinterpret_cast<AllBarriers *>(scores(Tiles::scoreStages));
  }
  static NANO_DEVICE QueryStatistics<Tiles::columns> &columns(int stage) {
    return reinterpret_cast<QueryStatistics<Tiles::columns> *>(
        reinterpret_cast<uint8_t *>(&barriers()) + Tiles::barrierBytes)[stage];
  }
};

/// A block of keys, number `block` of a row, which is computed on the first turn (0) or the second.
struct Turn {
  int number, block;
};
/// A tile of queries of a head, by its number in the row.
struct QueryTile {
  int head, number;
};

/// What a block of threads computes.
template <class A, class Tiles> struct Work {
  static constexpr int rows = Tiles::rows, columns = Tiles::columns, blocks = A::row / rows,
                       tiles = A::row / columns, ofBlock = Tiles::tilesOfBlock,
                       ofFirst = blocks / 2, ///< blocks of keys of a row that come on first turns
      lastOfSecond = blocks - ofFirst - 1, tickets = blocks - ofFirst;
  static_assert(A::row % rows == 0 && A::tokens % A::row == 0);
  static_assert(attentionTileSize(A::headSize) == attentionTileSize(A::valueSize) &&
                A::headSize <= 128 && !A::hasScore && attentionHasMaps<A>);
  static_assert(Tiles::stages > 2, "a warpgroup holds one while it leaves out the next tile");
  int row, keyHead, number; ///< of its row and head of keys

  NANO_DEVICE explicit Work(int ticket)
      : row(ticket / tickets / A::keyHeads), keyHead(ticket / tickets % A::keyHeads),
        number(ticket % tickets) {}
  /// The first token of the row.
  NANO_DEVICE int begin() const { return row * A::row; }
  /// The middle one of an odd number of blocks has one turn, a second one.
  NANO_DEVICE int firstTurn() const { return number < ofFirst ? 0 : 1; }
  NANO_DEVICE Turn turn(int i) const { return {i, i == 0 ? blocks - 1 - number : number}; }
  /// body(Turn) of all turns.
  template <class Body> NANO_DEVICE void forTurns(Body body) const {
#pragma unroll 1
    for (int i = firstTurn(); i < 2; ++i)
      body(turn(i));
  }
  /// The tiles of a head that see the turn's keys.
  static NANO_DEVICE int tilesOf(const Turn &turn) { return tiles - ofBlock * turn.block; }
  /// body(QueryTile) of all tiles that see the turn's keys.
  template <class Body> NANO_DEVICE void forTiles(const Turn &turn, Body body) const {
    const int first = ofBlock * turn.block;
#pragma unroll 1
    for (int i = 0; i < sharing<A>; ++i)
#pragma unroll 1
      for (int tile = first; tile < tiles; ++tile)
        body(QueryTile{keyHead * sharing<A> + i,
                       turn.number == 0 ? tile : tiles - 1 - (tile - first)});
  }

  /// The place of a tile among units of sums and counts. Of first turns are the last tiles alone.
  static NANO_DEVICE int unit(int turn, int row, int head, int tile) {
    return (row * A::heads + head) * (tiles + ofBlock * ofFirst) + tile +
           (turn == 0 ? ofBlock * ofFirst : 0);
  }
  NANO_DEVICE int unit(int turn, const QueryTile &tile) const {
    return unit(turn, row, tile.head, tile.number);
  }
  /// The blocks that add to a tile before this one on such a turn.
  static NANO_DEVICE int before(const Turn &turn, const QueryTile &tile) {
    return turn.number == 0 ? tile.number / ofBlock - turn.block : turn.block;
  }
  /// The blocks that add to a tile on such turns.
  static NANO_DEVICE int all(int turn, int tile) {
    return turn == 0 ? larger(tile / ofBlock - lastOfSecond, 0)
                     : smaller(tile / ofBlock, lastOfSecond) + 1;
  }
};

/// This thread's part of a unit of sums: of each 64 columns those that it has of a product.
template <class A, class Tiles, class Operands>
NANO_DEVICE float *sumsOf(const Operands &x, int unit) {
  return x.partial + unit * Tiles::unit + 4 * (threadIdx.x % warpgroupThreads);
}

/// Copies everything by tensor maps, by a thread.
template <class A, class Tiles, class Operands>
NANO_DEVICE void copy(const Work<A, Tiles> &work, const Operands &x) {
  using S = Shared<A, Tiles>;
  constexpr int box = hopper::boxRows<A>;
  auto &barriers = S::barriers();
  int place = 0;
  work.forTurns([&](const Turn &turn) {
    if (turn.number > work.firstTurn())
      mbarrierWait(&barriers.rowsEmpty, 0);
    const int begin = work.begin() + turn.block * Tiles::rows;
    mbarrierArriveExpect(&barriers.rowsFull, S::KeyTile::bytes + S::ValueTile::bytes);
    hopper::loadBoxes<Tiles::rows, A::headSize, box>(S::keys(), x.maps[1], x.k, work.keyHead, begin,
                                                     barriers.rowsFull);
    hopper::loadBoxes<Tiles::rows, A::valueSize, box>(S::values(), x.maps[2], x.v, work.keyHead,
                                                      begin, barriers.rowsFull);
    work.forTiles(turn, [&](const QueryTile &tile) {
      const int stage = place % Tiles::stages, query = work.begin() + tile.number * Tiles::columns;
      if (place >= Tiles::stages)
        mbarrierWait(&barriers.empty[stage], uint32_t(place / Tiles::stages - 1) & 1);
      ++place;
      Mbarrier &full = barriers.full[stage];
      mbarrierArriveExpect(&full, S::stageBytes);
      hopper::loadBoxes<Tiles::columns, A::headSize, box>(S::queries(stage), x.maps[0], x.q,
                                                          tile.head, query, full);
      hopper::loadBoxes<Tiles::columns, A::valueSize, box>(S::dy(stage), x.maps[3], x.dy, tile.head,
                                                           query, full);
    });
  });
}

/// Reads what belongs to the tiles' queries, by a warp.
template <class A, class Tiles, class Operands>
NANO_DEVICE void readQueries(const Work<A, Tiles> &work, const Operands &x) {
  using S = Shared<A, Tiles>;
  auto &barriers = S::barriers();
  int place = 0;
  work.forTurns([&](const Turn &turn) {
    work.forTiles(turn, [&](const QueryTile &tile) {
      constexpr int ofLane = Tiles::columns / 32;
      const int stage = place % Tiles::stages;
      float logarithms[ofLane], deltas[ofLane];
#pragma unroll
      for (int i = 0; i < ofLane; ++i) {
        const int query = work.begin() + tile.number * Tiles::columns + 32 * i + laneIndex();
        logarithms[i] = *x.lse.row(query, tile.head) * log2e;
        deltas[i] = *x.delta.row(query, tile.head);
      }
      if (place >= Tiles::stages)
        mbarrierWait(&barriers.empty[stage], uint32_t(place / Tiles::stages - 1) & 1);
      ++place;
#pragma unroll
      for (int i = 0; i < ofLane; ++i) {
        S::columns(stage).logarithm[32 * i + laneIndex()] = logarithms[i];
        S::columns(stage).delta[32 * i + laneIndex()] = deltas[i];
      }
      mbarrierArrive(&barriers.full[stage]);
    });
  });
}

/// Waits for what other blocks add before this one, by a thread.
template <class A, class Tiles, class Operands>
NANO_DEVICE void waitForOthers(const Work<A, Tiles> &work, const Operands &x) {
  auto &barriers = Shared<A, Tiles>::barriers();
  int use = 0;
  work.forTurns([&](const Turn &turn) {
    work.forTiles(turn, [&](const QueryTile &tile) {
      if (use >= Tiles::turns)
        mbarrierWait(&barriers.told[use % Tiles::turns], uint32_t(use / Tiles::turns - 1) & 1);
      const int before = work.before(turn, tile);
      if (before > 0)
        waitForCount(x.counts + 1 + work.unit(turn.number, tile), before);
      mbarrierArrive(&barriers.turn[use % Tiles::turns]);
      ++use;
    });
  });
}

/// Tells other blocks what this one has added, by a thread.
template <class A, class Tiles, class Operands>
NANO_DEVICE void tellOthers(const Work<A, Tiles> &work, const Operands &x) {
  auto &barriers = Shared<A, Tiles>::barriers();
  int use = 0;
  work.forTurns([&](const Turn &turn) {
    work.forTiles(turn, [&](const QueryTile &tile) {
      mbarrierWait(&barriers.added[use % Tiles::turns], uint32_t(use / Tiles::turns) & 1);
      addToCount(x.counts + 1 + work.unit(turn.number, tile));
      mbarrierArrive(&barriers.told[use % Tiles::turns]);
      ++use;
    });
  });
}

/// What a block of keys gives to the gradients of queries, by a warpgroup, which adds it to the
/// sums in memory, 64 columns after the other. The first block stores, so that sums need not be
/// cleared.
template <class A, class Tiles, class Operands>
NANO_DEVICE void addUp(const Work<A, Tiles> &work, const Operands &x) {
  using S = Shared<A, Tiles>;
  constexpr int rows = Tiles::rows;
  auto &barriers = S::barriers();
  float sums[1][8][4];
  int use = 0;
  uint32_t parity = 0;
  work.forTurns([&](const Turn &turn) {
    mbarrierWait(&barriers.rowsFull, parity);
    parity ^= 1;
    work.forTiles(turn, [&](const QueryTile &tile) {
      const int stage = use % Tiles::scoreStages;
      const bool isFirst = work.before(turn, tile) == 0;
      float *const to = sumsOf<A, Tiles>(x, work.unit(turn.number, tile));
      mbarrierWait(&barriers.scoresFull[stage], uint32_t(use / Tiles::scoreStages) & 1);
#pragma unroll
      for (int part = 0; part < Tiles::parts; ++part) {
        warpgroupRegisters(flat(sums));
        warpgroupFence();
        const uint64_t left =
                           matrixDescriptor(S::scores(stage), rows * 128, 1024, Swizzle::Bytes128),
                       right = matrixDescriptor(S::keys() + part * rows * 128, rows * 128, 1024,
                                                Swizzle::Bytes128);
#pragma unroll
        for (int k = 0; k < rows / 16; ++k)
          warpgroupMultiply<bf16, bf16, Major::MN, Major::MN>(
              flat(sums), advanced(left, k * 16 * 128), advanced(right, k * 16 * 128), k > 0);
        warpgroupCommit();
        if (part == 0)
          mbarrierWait(&barriers.turn[use % Tiles::turns], uint32_t(use / Tiles::turns) & 1);
        warpgroupWait<0>();
        warpgroupRegisters(flat(sums));
        if (part == Tiles::parts - 1)
          mbarrierArrive(&barriers.scoresEmpty[stage]);
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          float *const place = to + (part * 8 + c) * 4 * warpgroupThreads;
          if (isFirst)
            *reinterpret_cast<Float4 *>(place) =
                Float4{{sums[0][c][0], sums[0][c][1], sums[0][c][2], sums[0][c][3]}};
          else
            addInMemory(place, sums[0][c]);
        }
      }
      mbarrierArrive(&barriers.added[use % Tiles::turns]);
      ++use;
    });
    mbarrierArrive(&barriers.rowsEmpty);
  });
}

/// dq of `tilesOfBlock` tiles of queries, by warpgroups that take 64 columns of one after the
/// other.
template <class A, class Tiles, class Operands>
NANO_DEVICE void queryTiles(int number, const Operands &x) {
  using W = Work<A, Tiles>;
  constexpr int columns = Tiles::columns, ofLaunch = A::tokens / columns * A::heads;
  const Lane lane;
  const int group = shuffle(lane.warp, 0) / 4,
            end = smaller((number + 1) * Tiles::tilesAtOnce, ofLaunch);
  uint8_t *const results = dynamicShared<uint8_t>(group * columns * 128);
  auto add = [&]<int part>(int head, int row, int tile) {
    float sums[1][8][4] = {};
#pragma unroll
    for (int turn = 1; turn >= 0; --turn) {
      const int count = W::all(turn, tile), unit = W::unit(turn, row, head, tile);
      if (count == 0)
        continue;
      waitForCount(x.counts + 1 + unit, count);
      const float *const from = sumsOf<A, Tiles>(x, unit) + part * 8 * 4 * warpgroupThreads;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const Float4 four = *reinterpret_cast<const Float4 *>(from + c * 4 * warpgroupThreads);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums[0][c][j] += four.value[j];
      }
    }
    mma::forElements(sums, lane, [](float &sum, Place) { sum *= A::scale; });
    constexpr int size = part == Tiles::parts - 1 ? A::headSize - 64 * part : 64;
    Operands shifted = x;
    for (int place = 0; place < Operands::dqPlaces; ++place)
      shifted.dq[place].base += 64 * part;
    const int warpRow = lane.warp % 4 * 16, begin = row * A::row + tile * columns;
    mma::storeTile<size, columns, Operands::dqPlaces>(sums, lane, results, warpRow, shifted.dq,
                                                      head, begin, begin + columns);
    if constexpr (attentionSumsQueries<A>) {
      shifted.dqSums.base += 64 * part;
      mma::storeColumnSums<size, columns>(lane, results, warpRow, shifted.dqSums, begin / columns,
                                          head, 1 + group);
      barrierSync(1 + group, warpgroupThreads); // all warps have read the others' sums
    }
  };
#pragma unroll 1
  for (int i = number * Tiles::tilesAtOnce + group / Tiles::parts; i < end;
       i += Tiles::threads / warpgroupThreads / Tiles::parts) {
    const int tile = i % W::tiles, head = i / W::tiles % A::heads, row = i / W::tiles / A::heads;
    if (Tiles::parts == 1 || group % 2 == 0)
      add.template operator()<0>(head, row, tile);
    else
      add.template operator()<Tiles::parts - 1>(head, row, tile);
  }
}

/// A thread of the two warpgroups that make scores.
struct Computing {
  Lane lane;
  int group = shuffle(lane.warp, 0) / 4, groupRow = group * warpgroupRows,
      warpRow = lane.warp * 16; ///< the first row of its warpgroup and of its warp
};

/// Stores the scores' gradients of tile `place` for the third warpgroup, to which giveScores gives
/// them.
template <class A, class Tiles>
NANO_DEVICE void storeScores(int place, const Computing &thread,
                             const uint32_t (&fragments)[Tiles::columns / 16][4]) {
  using S = Shared<A, Tiles>;
  const int stage = place % Tiles::scoreStages;
  if (place >= Tiles::scoreStages)
    mbarrierWait(&S::barriers().scoresEmpty[stage], uint32_t(place / Tiles::scoreStages - 1) & 1);
  uint8_t *const tile = S::scores(stage);
#pragma unroll
  for (int k = 0; k < Tiles::columns / 16; ++k)
    storeMatrix<4>(tile + S::ScoreTile::block(thread.lane.left, thread.warpRow, 2 * k),
                   fragments[k]);
}
template <class A, class Tiles> NANO_DEVICE void giveScores(int place) {
  fenceProxyAsync();
  mbarrierArrive(&Shared<A, Tiles>::barriers().scoresFull[place % Tiles::scoreStages]);
}

/// Tile `place`, whose queries are before the warpgroup's keys.
template <class A, class Tiles> NANO_DEVICE void leaveOut(int place, const Computing &thread) {
  auto &barriers = Shared<A, Tiles>::barriers();
  const int stage = place % Tiles::stages;
  mbarrierWait(&barriers.full[stage], uint32_t(place / Tiles::stages) & 1);
  const uint32_t none[Tiles::columns / 16][4] = {};
  storeScores<A, Tiles>(place, thread, none);
  giveScores<A, Tiles>(place);
  mbarrierArrive(&barriers.empty[stage]);
}

/// Waits for keys and values of a turn. Here and below the ticket is read once more where it is
/// wanted, so that it takes no registers meanwhile.
template <class A, class Tiles> NANO_DEVICE void waitForRows(const Turn &turn) {
  auto &barriers = Shared<A, Tiles>::barriers();
  const Work<A, Tiles> work(barriers.ticket);
  mbarrierWait(&barriers.rowsFull, uint32_t(turn.number - work.firstTurn()));
}

/// dk and dv of the keys of a block's turn `number`.
template <class A, class Tiles, class Operands, int keyTiles, int valueTiles>
NANO_DEVICE void storeGradients(int number, const Computing &thread,
                                float (&keySums)[1][keyTiles][4],
                                float (&valueSums)[1][valueTiles][4], const Operands &x) {
  using S = Shared<A, Tiles>;
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows;
  const Lane &lane = thread.lane;
  const int group = thread.group, warpRow = thread.warpRow;
  mma::forElements(keySums, lane, [](float &sum, Place) { sum *= A::scale; });
  barrierSync(1 + group, warpgroupThreads); // all warps have read the values
  // The third warpgroup may still read the keys.
  const Work<A, Tiles> here(S::barriers().ticket);
  const int begin = here.begin() + here.turn(number).block * rows,
            part = begin / warpgroupRows + group; // of sums of columns
  mma::storeTile<valueSize, rows, Operands::dvPlaces>(valueSums, lane, S::values(), warpRow, x.dv,
                                                      here.keyHead, begin, begin + rows);
  if constexpr (attentionSumsValues<A>) {
    mma::storeColumnSums<valueSize, rows>(lane, S::values(), warpRow, x.dvSums, part, here.keyHead,
                                          1 + group);
    barrierSync(1 + group, warpgroupThreads); // all warps have read the others' sums
  }
  mma::storeTile<size, rows, Operands::dkPlaces>(keySums, lane, S::values(), warpRow, x.dk,
                                                 here.keyHead, begin, begin + rows);
  if constexpr (attentionSumsKeys<A>)
    mma::storeColumnSums<size, rows>(lane, S::values(), warpRow, x.dkSums, part, here.keyHead,
                                     1 + group);
  fenceProxyAsync(); // the next keys come by bulk copies to where results were written
  mbarrierArrive(&S::barriers().rowsEmpty);
}

/// On the diagonal weights of keys behind a query become 0.
template <int columnTiles>
NANO_DEVICE void hideUnseen(float (&weights)[1][columnTiles][4], const Computing &thread) {
  mma::forElements(weights, thread.lane, [&](float &w, Place at) {
    w = thread.warpRow - thread.groupRow + at.row <= at.column ? w : 0;
  });
}

/// Scores, their gradients, dk and dv, by two warpgroups.
template <class A, class Tiles, class Operands>
NANO_DEVICE void compute(const Work<A, Tiles> &work, const Operands &x) {
  using S = Shared<A, Tiles>;
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns;
  auto &barriers = S::barriers();
  const Computing thread;
  const Lane &lane = thread.lane;
  constexpr int sumColumns = attentionTileSize(size), valueColumns = attentionTileSize(valueSize);
  float keySums[1][sumColumns / 8][4], valueSums[1][valueColumns / 8][4];
  uint32_t weights[columns / 16][4], gradients[columns / 16][4];
  int place = 0;
  work.forTurns([&](const Turn &turn) {
    mma::forElements(keySums, valueSums, lane, [](float &k, float &v, Place) { k = v = 0; });
    int pending = -1; // the stage whose last products have not been waited for
    auto releasePending = [&] {
      warpgroupRegisters(flat(keySums));
      warpgroupRegisters(flat(valueSums));
      if (pending >= 0)
        mbarrierArrive(&barriers.empty[pending]);
    };
    waitForRows<A, Tiles>(turn);
    work.forTiles(turn, [&](const QueryTile &tile) {
      const int stage = place % Tiles::stages,
                ofKeys = tile.number - Tiles::tilesOfBlock * turn.block;
      if (ofKeys < thread.group) // its queries are before the warpgroup's keys
        return leaveOut<A, Tiles>(place++, thread);
      const auto &queries = S::columns(stage);
      mbarrierWait(&barriers.full[stage], uint32_t(place / Tiles::stages) & 1);
      float scores[1][columns / 8][4], products[1][columns / 8][4];
      float statistics[columns / 8][2]; // of the lane's columns, read while products are made
      auto ofColumns = [&](const float (&all)[columns]) {
#pragma unroll
        for (int c = 0; c < columns / 8; ++c)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            statistics[c][i] = all[8 * c + 2 * lane.pair + i];
      };
      warpgroupWait<0>();
      releasePending();
      pending = stage;
      warpgroupRegisters(flat(scores));
      warpgroupFence();
      hopper::multiply<size, rows, columns>(scores, S::keys(), thread.groupRow, S::queries(stage));
      warpgroupCommit();
      ofColumns(queries.logarithm);
      warpgroupWait<0>();
      warpgroupRegisters(flat(scores));
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s = approximateExp2(fma(s, A::scale * log2e, -statistics[at.column / 8][at.column % 2]));
      });
      if (ofKeys == thread.group)
        hideUnseen(scores, thread);
      hopper::pack(weights, scores);
      warpgroupRegisters(flat(products));
      warpgroupRegisters(flat(valueSums));
      warpgroupFence();
      hopper::multiply<valueSize, rows, columns>(products, S::values(), thread.groupRow,
                                                 S::dy(stage));
      warpgroupCommit();
      hopper::accumulate<valueColumns, columns>(valueSums, weights, S::dy(stage));
      warpgroupCommit();
      ofColumns(queries.delta);
      warpgroupWait<1>();
      warpgroupRegisters(flat(products));
#pragma unroll
      for (int c = 0; c < columns / 8; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32_t two = weights[c / 2][2 * (c % 2) + i / 2];
          const float weight = i % 2 == 0 ? lowBf16(two) : highBf16(two);
          float &p = products[0][c][i];
          p = weight * (p - statistics[c][i % 2]);
          if (ofKeys == thread.group)
            p = weight == 0 ? 0 : p;
        }
      hopper::pack(gradients, products);
      storeScores<A, Tiles>(place, thread, gradients);
      warpgroupWait<0>();
      warpgroupRegisters(flat(valueSums));
      warpgroupRegisters(flat(keySums));
      warpgroupFence();
      hopper::accumulate<sumColumns, columns>(keySums, gradients, S::queries(stage));
      warpgroupCommit();
      giveScores<A, Tiles>(place++); // behind the products, which need not wait for its fence
    });
    warpgroupWait<0>();
    releasePending();
    storeGradients<A, Tiles>(turn.number, thread, keySums, valueSums, x);
  });
}

/// Starts products ← values in registers times rows of dy, transposed.
template <int size, int columns>
NANO_DEVICE void multiplyValues(float (&products)[1][columns / 8][4],
                                const uint32_t (&values)[size / 16][4], const uint8_t *dy) {
  const uint64_t right = matrixDescriptor(dy, 16, 1024, Swizzle::Bytes128);
#pragma unroll
  for (int k = 0; k < size / 16; ++k)
    warpgroupMultiply<bf16, bf16>(flat(products), values[k],
                                  advanced(right, k / 4 * columns * 128 + k % 4 * 32), k > 0);
}

/// Likewise where registers allow it: the values are in registers, and the products of dy and
/// values are under way while weights are made of scores. The warpgroups take turns to start
/// products, so that one has some while the other makes weights and gradients: left alone they do
/// the same at the same time.
template <class A, class Tiles, class Operands>
NANO_DEVICE void computeAhead(const Work<A, Tiles> &work, const Operands &x) {
  using S = Shared<A, Tiles>;
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns;
  auto &barriers = S::barriers();
  const Computing thread;
  const Lane &lane = thread.lane;
  constexpr int sumColumns = attentionTileSize(size), valueColumns = attentionTileSize(valueSize);
  float keySums[1][sumColumns / 8][4], valueSums[1][valueColumns / 8][4];
  float scores[1][columns / 8][4], products[1][columns / 8][4];
  uint32_t weights[columns / 16][4], gradients[columns / 16][4], values[valueSize / 16][4];
  int place = 0;
  // As often by either, also where one leaves out a tile; the first one begins.
  constexpr int turnBarrier = 3, both = computingWarpgroups * warpgroupThreads;
  auto waitForTurn = [&] { barrierSync(turnBarrier + thread.group, both); };
  auto passTurn = [&] { barrierArrive(turnBarrier + 1 - thread.group, both); };
  if (thread.group == 1)
    passTurn();
  work.forTurns([&](const Turn &turn) {
    mma::forElements(keySums, valueSums, lane, [](float &k, float &v, Place) { k = v = 0; });
    waitForRows<A, Tiles>(turn);
#pragma unroll
    for (int k = 0; k < valueSize / 16; ++k)
      loadMatrix<4>(values[k], S::values() + S::ValueTile::block(lane.left, thread.warpRow, 2 * k));
    const int count = work.tilesOf(turn) - thread.group; // but one that it leaves out
#pragma unroll 1
    for (int head = 0; head < sharing<A>; ++head) {
      waitForTurn();
      if (turn.number == 0 && thread.group > 0) {
        leaveOut<A, Tiles>(place++, thread);
        passTurn();
        waitForTurn();
      }
#pragma unroll 1
      for (int tile = 0; tile < count; ++tile, ++place) {
        const int stage = place % Tiles::stages;
        const bool isDiagonal = tile == (turn.number == 0 ? 0 : count - 1);
        const auto &queries = S::columns(stage);
        mbarrierWait(&barriers.full[stage], uint32_t(place / Tiles::stages) & 1);
        warpgroupRegisters(flat(scores));
        warpgroupRegisters(flat(products));
        warpgroupFence();
        hopper::multiply<size, rows, columns>(scores, S::keys(), thread.groupRow,
                                              S::queries(stage));
        warpgroupCommit();
        multiplyValues<valueSize, columns>(products, values, S::dy(stage));
        warpgroupCommit();
        passTurn();
        warpgroupWait<1>(); // for the last tile's sums, too
        warpgroupRegisters(flat(scores));
        warpgroupRegisters(flat(keySums));
        warpgroupRegisters(flat(valueSums));
        if (tile > 0)
          mbarrierArrive(&barriers.empty[(place - 1) % Tiles::stages]);
        mma::forElements(scores, lane, [&](float &s, Place at) {
          s = approximateExp2(fma(s, A::scale * log2e, -queries.logarithm[at.column]));
        });
        if (isDiagonal)
          hideUnseen(scores, thread);
        hopper::pack(weights, scores);
        warpgroupWait<0>();
        warpgroupRegisters(flat(products));
        mma::forElements(scores, products, lane, [&](float &s, float &p, Place at) {
          p = s * (p - queries.delta[at.column]);
        });
        if (isDiagonal)
          mma::forElements(scores, products, lane,
                           [](float &s, float &p, Place) { p = s == 0 ? 0 : p; });
        hopper::pack(gradients, products);
        storeScores<A, Tiles>(place, thread, gradients);
        waitForTurn();
        warpgroupRegisters(flat(valueSums));
        warpgroupRegisters(flat(keySums));
        warpgroupFence();
        hopper::accumulate<valueColumns, columns>(valueSums, weights, S::dy(stage));
        hopper::accumulate<sumColumns, columns>(keySums, gradients, S::queries(stage));
        warpgroupCommit();
        giveScores<A, Tiles>(place); // behind the products, which need not wait for its fence
      }
      passTurn();
      warpgroupWait<0>();
      warpgroupRegisters(flat(keySums));
      warpgroupRegisters(flat(valueSums));
      mbarrierArrive(&barriers.empty[(place - 1) % Tiles::stages]);
      if (turn.number > 0 && thread.group > 0) {
        waitForTurn();
        leaveOut<A, Tiles>(place++, thread);
        passTurn();
      }
    }
    storeGradients<A, Tiles>(turn.number, thread, keySums, valueSums, x);
  });
  if (thread.group == 0) // the last turn, which nobody else takes
    waitForTurn();
}

/// The work of a block of threads. All of them call it.
template <class A, class Tiles, class Operands> NANO_DEVICE void attentionGrads(const Operands &x) {
  auto &barriers = Shared<A, Tiles>::barriers();
  barriers.init(x.counts);
  constexpr int tickets = A::tokens / A::row * A::keyHeads * Work<A, Tiles>::tickets;
  const int ticket = barriers.ticket;
  if (ticket >= tickets)
    return queryTiles<A, Tiles>(ticket - tickets, x);
  const Work<A, Tiles> work(ticket);
  const int group = shuffle(warpIndex(), 0) / 4, warp = warpIndex() % 4;
  if (group == computingWarpgroups + 1) {
    decreaseRegisters<Tiles::copyRegisters>();
    if (warp == 1)
      readQueries(work, x);
    else if (laneIndex() == 0)
      switch (warp) {
      case 0:
        return copy(work, x);
      case 2:
        return waitForOthers(work, x);
      default:
        return tellOthers(work, x);
      }
  } else if (group == computingWarpgroups) {
    decreaseRegisters<Tiles::addRegisters>();
    addUp(work, x);
  } else {
    increaseRegisters<Tiles::computeRegisters>();
    if constexpr (Tiles::ahead)
      computeAhead(work, x);
    else
      compute(work, x);
  }
}

} // namespace nano::ends
