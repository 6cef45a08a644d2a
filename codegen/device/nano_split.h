// Products with a long inner dimension on Hopper, C = Aᵀ·B or C += Aᵀ·B of bf16 operands that both
// lie with their columns in a row, as the gradients of weights: several of them in one launch,
// whose tiles are cut along the inner dimension so that all clusters work equally long.
//
// A kernel names its products S with
//   count, inner, rows(i), columns(i)   as in nano_split_shape.h
//   blocks                              of the launch, as splitLaunch says
//   adds                                whether C += Aᵀ·B
// and calls splitProducts. The parts of a tile are added to C in memory one after the other, in an
// order that does not depend on time, and each part's sums have the order of nano_matmul.h's.
#pragma once

#include "nano_kernels.h"
#include "nano_matmul_stages.h"
#include "nano_split_shape.h"

namespace nano {

/// Where the products of a launch go.
template <int Count> struct SplitResults {
  float *c[Count];
};

namespace hopper {

/// The products as the templates of nano_matmul_stages.h know them.
template <class S> struct SplitFactors : ProductAlone {
  using ElementA = bf16;
  using ElementB = bf16;
  using Result = float;
  static constexpr int inner = S::inner;
  static constexpr bool transposeA = true, transposeB = false;
};

/// The parts of the cluster with that ticket.
template <class S> struct ClusterWork : SplitWork<S> {
  NANO_DEVICE ClusterWork(int ticket)
      : SplitWork<S>(S{}, S::blocks / MatmulTiles::clusterBlocks, ticket) {}
};

/// The next ticket, for all threads of the cluster: who waits does so for clusters with smaller
/// ones. `counts` begins with the ticket's number.
template <class S> NANO_DEVICE int takeTicket(int32_t *counts) {
  auto *const ticket = reinterpret_cast<int32_t *>(MatmulStages<SplitFactors<S>>::part(0, 0));
  if (threadIdx.x == 0 && clusterRank() == 0) {
    const int32_t taken = fetchAdd(counts, 1);
#pragma unroll
    for (int rank = 0; rank < MatmulTiles::clusterBlocks; ++rank)
      *clusterShared(ticket, uint32_t(rank)) = taken;
  }
  clusterSync();
  return shuffle(*ticket, 0);
}

/// Loads the block's operands, stage after stage, by a thread: what the cluster's tiles have in
/// common half a stage for both.
template <class S> NANO_DEVICE void loadSplit(int ticket, const TensorMap *maps) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<SplitFactors<S>>;
  constexpr TensorBox box = SplitTiles::box();
  constexpr int boxBytes = box.rows * Tiles::rowBytes, halves = Tiles::clusterBlocks;
  constexpr uint16_t both = (1 << halves) - 1;
  auto &stages = Stages::get();
#pragma unroll
  for (int i = 0; i < 2 * S::count; ++i)
    prefetchTensorMap(maps[i]);
  ClusterWork<S> work(ticket);
  StageCounter at;
  const int rank = int(clusterRank());
#pragma unroll 1
  for (SplitPart part; work.next(part);) {
    const TensorMap &a = maps[2 * part.product], &b = maps[2 * part.product + 1];
    const int row = part.row + (part.sharesRows ? 0 : rank * Tiles::rows),
              column = part.column + (part.sharesRows ? rank * Tiles::columns : 0);
#pragma unroll 1
    for (int step = part.begin; step < part.end; ++step, at.advance()) {
      const int k = step * Stages::inner;
      mbarrierWait(&stages.empty[at.stage], (at.round & 1) ^ 1);
      Mbarrier *const full = &stages.full[at.stage];
      mbarrierArriveExpect(full, Tiles::stageBytes);
      // The operand of one block, and that of both.
      auto own = [&](uint8_t *to, const TensorMap &map, int from) {
#pragma unroll
        for (int half = 0; half < halves; ++half)
          bulkTensorLoad(to + half * boxBytes, map, from, k + half * box.rows, full);
      };
      auto shared = [&](uint8_t *to, const TensorMap &map, int from) {
        bulkTensorLoadMulticast(to + rank * boxBytes, map, from, k + rank * box.rows, full, both);
      };
      auto operands = [&](auto &&loadA, auto &&loadB) {
#pragma unroll
        for (int i = 0; i < Tiles::rows / box.columns; ++i)
          loadA(stages.a(at.stage) + i * halves * boxBytes, a, row + i * box.columns);
#pragma unroll
        for (int i = 0; i < Tiles::columns / box.columns; ++i)
          loadB(stages.b(at.stage) + i * halves * boxBytes, b, column + i * box.columns);
      };
      if (part.sharesRows)
        operands(shared, own);
      else
        operands(own, shared);
    }
  }
}

/// Stores the thread's sums of a warp's 16 rows of a tile, or adds them to what is there: of two
/// neighbouring lanes, which have two columns of two rows, each gets four columns of one.
template <bool Add>
NANO_DEVICE void storeSums(const float (&sums)[MatmulTiles::columns / 2], float *c, int row,
                           int column, int rows, int columns) {
  const int lane = laneIndex(), isSecond = lane % 2;
  row += lane / 4 + 8 * isSecond;
  column += lane % 4 / 2 * 4;
  float *const to = c + (int64_t(row) * columns + column);
#pragma unroll
  for (int j = 0; j < MatmulTiles::columns / 8; ++j) {
    const float *const of = sums + 4 * j;
    const float first[2] = {of[0], of[1]}, second[2] = {of[2], of[3]};
    float kept[2], other[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      kept[i] = isSecond ? second[i] : first[i];
      other[i] = shuffleXor(isSecond ? first[i] : second[i], 1);
    }
    const float four[4] = {isSecond ? other[0] : kept[0], isSecond ? other[1] : kept[1],
                           isSecond ? kept[0] : other[0], isSecond ? kept[1] : other[1]};
    if (row < rows && column + 8 * j < columns) {
      if constexpr (Add)
        addInMemory(to + 8 * j, four);
      else
        *reinterpret_cast<Vec<float, 4> *>(to + 8 * j) = {four[0], four[1], four[2], four[3]};
    }
  }
}

/// The parts of the cluster, by a warpgroup its 64 rows of the block's tiles; `warp` is known to be
/// one number for a warp.
template <class S>
NANO_DEVICE void multiplySplit(int ticket, const SplitResults<S::count> &results, int32_t *counts,
                               int warp) {
  using Tiles = MatmulTiles;
  const int group = warp / 4, rank = int(clusterRank());
  ClusterWork<S> work(ticket);
  Multiplier<SplitFactors<S>> multiplier(warp);
#pragma unroll 1
  for (SplitPart part; work.next(part);) {
    int step = 0;
#pragma unroll 1
    do { // there is one, which the compiler has to see: else the tensor cores' work is put in order
      multiplier.multiply(step);
    } while (++step < part.end - part.begin);
    float *c = results.c[0];
#pragma unroll
    for (int i = 1; i < S::count; ++i)
      c = part.product == i ? results.c[i] : c;
    int32_t *const count =
        counts + 1 + (part.pair * Tiles::clusterBlocks + rank) * Tiles::multiplying + group;
    const int row = part.row + (part.sharesRows ? 0 : rank * Tiles::rows) + 16 * warp,
              column = part.column + (part.sharesRows ? rank * Tiles::columns : 0);
    const int rows = S::rows(part.product), columns = S::columns(part.product);
    multiplier.end();
    if (part.before > 0) {
      if (warp % 4 == 0 && laneIndex() == 0)
        waitForCount(count, part.before);
      barrierSync(1 + group, 128);
    }
    if (S::adds || part.before > 0)
      storeSums<true>(multiplier.sums.piece[0], c, row, column, rows, columns);
    else
      storeSums<false>(multiplier.sums.piece[0], c, row, column, rows, columns);
    if (part.hasNext) {
      barrierSync(1 + group, 128);
      if (warp % 4 == 0 && laneIndex() == 0)
        addToCount(count);
    }
  }
}

} // namespace hopper

/// A block's share of the products S, by all threads of all blocks of the grid: of the i-th one
/// maps 2·i and 2·i + 1 describe A and B. `counts` are splitCounts zeros before the launch. Results
/// overlap neither operands nor each other.
template <class S>
NANO_DEVICE void splitProducts(const TensorMap *maps, const SplitResults<S::count> &results,
                               int32_t *counts) {
  using Tiles = MatmulTiles;
  hopper::MatmulStages<hopper::SplitFactors<S>>::get().init();
  const int ticket = hopper::takeTicket<S>(counts);
  constexpr int loading = Tiles::warps;     // the warp
  const int warp = shuffle(warpIndex(), 0); // known to be one number for a warp
  if (warp < loading) {
    increaseRegisters<224>();
    hopper::multiplySplit<S>(ticket, results, counts, warp);
  } else {
    decreaseRegisters<56>();
    if (warp == loading && laneIndex() == 0)
      hopper::loadSplit<S>(ticket, maps);
    syncWarp();
  }
  clusterSync(); // nobody leaves while the other block's loads or arrivals are still to come
}

} // namespace nano
