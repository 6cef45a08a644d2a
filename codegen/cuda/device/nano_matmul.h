// Matrix products on Hopper whose epilogue is generated: tiles of 128 × 256 by two warpgroups that
// multiply, for which a thread loads. While the tensor cores make a tile, the warps that started
// them do the epilogue of the tile before, a part with every step along the inner dimension.
//
// A kernel names its product P with
//   rows, columns, inner, transposeB   as in MatmulShape
//   blocks                             of the launch, as in MatmulLaunch
//   Others                             what else an epilogue reads for eight neighbours of a row,
//                                      which is Held: it comes long before it is used
//   load(row, column) → Others and store(row, column, products, others)
//                                      for the eight columns from `column` on; all of them exist
// Products are sums in f32, rounded to bf16. One thread loads what else is read at a place and
// stores there.
#pragma once

#include "nano_hopper.h"
#include "nano_matmul_shape.h"
#include "nano_pairs.h"

namespace nano {
namespace hopper {

/// The stages of a block: full when both operands' bytes have come, empty when all warps of both
/// blocks of the cluster have read them, because each loads half of B for both.
struct MatmulStages {
  using Tiles = MatmulTiles;
  Mbarrier full[Tiles::stages], empty[Tiles::stages];

  static NANO_DEVICE uint8_t *a(int stage) {
    return dynamicShared<uint8_t>(stage * Tiles::stageBytes);
  }
  static NANO_DEVICE uint8_t *b(int stage) { return a(stage) + Tiles::aBytes; }
  /// Eight neighbours of a row of a warp's part, permuted so that neither those who write blocks of
  /// 8 × 8 nor those who read rows meet in a bank.
  static NANO_DEVICE Vec<bf16, 8> *part(int warp, int row, int chunk) {
    return reinterpret_cast<Vec<bf16, 8> *>(a(Tiles::stages) + warp * Tiles::partBytes +
                                            row * Tiles::rowBytes + 16 * (chunk ^ (row & 7)));
  }
  static NANO_DEVICE MatmulStages &get() {
    return *reinterpret_cast<MatmulStages *>(part(4 * Tiles::multiplying, 0, 0));
  }

  /// By all threads of the cluster.
  NANO_DEVICE void init() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Tiles::stages; ++i) {
        mbarrierInit(&full[i], 1);
        mbarrierInit(&empty[i], Tiles::clusterBlocks * Tiles::multiplying * 4);
      }
      fenceMbarrierInit();
    }
    clusterSync();
  }
  /// The warp has finished reading the stage.
  NANO_DEVICE void release(int stage) {
    syncWarp();
    if (laneIndex() < Tiles::clusterBlocks)
      mbarrierArriveRemote(&empty[stage], uint32_t(laneIndex()));
  }
};
static_assert(sizeof(MatmulStages) == 16 * MatmulTiles::stages);

/// A stage and how often all stages have been gone through.
struct StageCounter {
  int stage = 0;
  uint32_t round = 0;
  NANO_DEVICE void advance() {
    if (++stage == MatmulTiles::stages) {
      stage = 0;
      ++round;
    }
  }
};

/// The pairs of tiles of a block's cluster, in order, and where the block's tile of each lies.
/// Pairs that have their rows in common follow each other.
template <class P> struct MatmulWork {
  using Tiles = MatmulTiles;
  static constexpr int columnTiles = int(divideUp(P::columns, Tiles::columns));
  static constexpr int steps = int(divideUp(P::inner, Tiles::inner));
  int begin, end, rank;

  NANO_DEVICE MatmulWork(int block) : rank(block % Tiles::clusterBlocks) {
    constexpr int pairs = int(divideUp(P::rows, Tiles::clusterBlocks * Tiles::rows)) * columnTiles,
                  clusters = P::blocks / Tiles::clusterBlocks;
    const int cluster = block / Tiles::clusterBlocks;
    begin = int(int64_t(pairs) * cluster / clusters);
    end = int(int64_t(pairs) * (cluster + 1) / clusters);
  }
  NANO_DEVICE int row(int pair) const {
    return (pair / columnTiles * Tiles::clusterBlocks + rank) * Tiles::rows;
  }
  NANO_DEVICE int column(int pair) const { return pair % columnTiles * Tiles::columns; }
};

/// Loads the block's operands, stage after stage, by a thread.
template <class P>
NANO_DEVICE void loadOperands(const MatmulWork<P> &work, const TensorMap &a, const TensorMap &b) {
  using Tiles = MatmulTiles;
  constexpr uint16_t both = (1 << Tiles::clusterBlocks) - 1;
  constexpr TensorBox box = Tiles::bBox(P::transposeB);
  constexpr int boxBytes = box.rows * Tiles::rowBytes;
  auto &stages = MatmulStages::get();
  prefetchTensorMap(a);
  prefetchTensorMap(b);
  StageCounter at;
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; ++pair) {
    const int row = work.row(pair), column = work.column(pair);
#pragma unroll 1
    for (int step = 0; step < work.steps; ++step, at.advance()) {
      const int k = step * Tiles::inner;
      mbarrierWait(&stages.empty[at.stage], (at.round & 1) ^ 1);
      Mbarrier *const full = &stages.full[at.stage];
      mbarrierArriveExpect(full, Tiles::stageBytes);
      bulkTensorLoad(stages.a(at.stage), a, k, row, full);
      uint8_t *const part = stages.b(at.stage) + work.rank * boxBytes;
      if constexpr (P::transposeB) {
        bulkTensorLoadMulticast(part, b, k, column + work.rank * box.rows, full, both);
      } else {
#pragma unroll
        for (int i = 0; i < Tiles::columns / box.columns; ++i)
          bulkTensorLoadMulticast(part + i * Tiles::clusterBlocks * boxBytes, b,
                                  column + i * box.columns, k + work.rank * box.rows, full, both);
      }
    }
  }
}

/// Starts sums (+)= rows groupRow … groupRow + 63 of the stage's A times its B.
template <class P, int N>
NANO_DEVICE void multiplyStage(float (&sums)[N], const uint8_t *a, const uint8_t *b, int groupRow,
                               bool accumulate) {
  using Tiles = MatmulTiles;
#pragma unroll
  for (int k = 0; k < Tiles::inner / 16; ++k) {
    const uint64_t left =
        matrixDescriptor(a + groupRow * Tiles::rowBytes + k * 32, 16, 1024, Swizzle::Bytes128);
    if constexpr (P::transposeB)
      warpgroupMultiply<bf16, bf16>(sums, left,
                                    matrixDescriptor(b + k * 32, 16, 1024, Swizzle::Bytes128),
                                    accumulate || k > 0);
    else
      warpgroupMultiply<bf16, bf16, Major::K, Major::MN>(
          sums, left,
          matrixDescriptor(b + k * 16 * Tiles::rowBytes, Tiles::inner * Tiles::rowBytes, 1024,
                           Swizzle::Bytes128),
          accumulate || k > 0);
  }
}

/// A warp's 16 rows of a tile's products until they are stored, in parts of 64 columns and of these
/// in halves of 8 rows: four rows at once, 128 bytes of each by eight lanes.
template <class P> class Epilogue {
  using Tiles = MatmulTiles;
  static constexpr int parts = Tiles::columns / Tiles::partColumns, ahead = 3;

public:
  static constexpr int halves = 2 * parts;

  NANO_DEVICE explicit Epilogue(const P &x) : x(x) {}

  /// Takes the sums of the tile whose rows of this warp begin at `row`.
  template <int N> NANO_DEVICE void take(const float (&sums)[N], int row, int column) {
    static_assert(2 * N == Tiles::columns);
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      products[i] = packBf16(sums[2 * i], sums[2 * i + 1]);
    firstRow = row + laneIndex() / 8;
    firstColumn = column + laneIndex() % 8 * 8;
#pragma unroll
    for (int half = 0; half < ahead; ++half)
      load(half);
  }
  /// Stores a half; they come in order, and `half` is known when the kernel is compiled.
  NANO_DEVICE void finish(int half) {
    if (half % 2 == 0)
      share(half / 2);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (exists(half, i))
        x.store(row(half, i), column(half),
                *MatmulStages::part(warpIndex(), row(half, i) % 16, laneIndex() % 8),
                others[half % ahead][i]);
    if (half + ahead < halves)
      load(half + ahead);
  }

private:
  NANO_DEVICE int row(int half, int i) const { return firstRow + 8 * (half % 2) + 4 * i; }
  NANO_DEVICE int column(int half) const { return firstColumn + half / 2 * Tiles::partColumns; }
  NANO_DEVICE bool exists(int half, int i) const {
    constexpr bool always =
        P::rows % (Tiles::clusterBlocks * Tiles::rows) == 0 && P::columns % Tiles::columns == 0;
    return always || (row(half, i) < P::rows && column(half) < P::columns);
  }
  NANO_DEVICE void load(int half) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (exists(half, i))
        others[half % ahead][i] = x.load(row(half, i), column(half));
  }
  /// Puts a part where all lanes of the warp can read it.
  NANO_DEVICE void share(int part) {
    // Four blocks of 8 × 8 at once: two of rows, of two neighbouring chunks. First the warp has to
    // have read the part before.
    syncWarp();
#pragma unroll
    for (int i = 0; i < Tiles::partColumns / 16; ++i) {
      const uint32_t *const first = &products[(part * Tiles::partColumns / 16 + i) * 4];
      const uint32_t blocks[4] = {first[0], first[1], first[2], first[3]};
      storeMatrix<4>(MatmulStages::part(warpIndex(), laneIndex() % 16, 2 * i + laneIndex() / 16),
                     blocks);
    }
    syncWarp();
  }

  const P &x;
  uint32_t products[Tiles::columns / 4]; ///< pairs, as sums are
  typename P::Others others[ahead][2];
  int firstRow = 0, firstColumn = 0;
};

/// The block's tiles, by a warpgroup its 64 rows of them.
template <class P> NANO_DEVICE void multiplyTiles(const MatmulWork<P> &work, const P &x) {
  using Tiles = MatmulTiles;
  constexpr int halves = Epilogue<P>::halves;
  auto &stages = MatmulStages::get();
  const int groupRow = warpIndex() / 4 * 64;
  StageCounter at;
  float sums[Tiles::columns / 2];
  Epilogue<P> epilogue(x);
  int last = 0;
  auto start = [&](int step) {
    mbarrierWait(&stages.full[at.stage], at.round & 1);
    warpgroupRegisters(sums);
    warpgroupFence();
    multiplyStage<P>(sums, stages.a(at.stage), stages.b(at.stage), groupRow, step > 0);
    warpgroupCommit();
    if (step > 0) {
      warpgroupWait<1>();
      stages.release(last);
    }
    last = at.stage;
    at.advance();
  };
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; ++pair) {
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      if (half < work.steps)
        start(half);
      if (pair > work.begin)
        epilogue.finish(half);
    }
#pragma unroll 1
    for (int step = halves; step < work.steps; ++step)
      start(step);
    warpgroupWait<0>();
    warpgroupRegisters(sums);
    stages.release(last);
    epilogue.take(sums, work.row(pair) + warpIndex() * 16, work.column(pair));
  }
  if (work.begin < work.end)
#pragma unroll
    for (int half = 0; half < halves; ++half)
      epilogue.finish(half);
}

} // namespace hopper

/// The share of block `block` of the product x of the matrices that the maps describe; by all
/// threads of all blocks of the grid.
template <class P>
NANO_DEVICE void matmul(int block, const TensorMap &a, const TensorMap &b, const P &x) {
  using Tiles = MatmulTiles;
  const hopper::MatmulWork<P> work(block);
  hopper::MatmulStages::get().init();
  constexpr int loading = 4 * Tiles::multiplying; // the warp
  // Registers of a thread: 168 before, and 2 · 240 + 24 of three warpgroups.
  if (warpIndex() < loading) {
    increaseRegisters<240>();
    hopper::multiplyTiles(work, x);
  } else {
    decreaseRegisters<24>();
    if (warpIndex() == loading && laneIndex() == 0)
      hopper::loadOperands(work, a, b);
    syncWarp();
  }
  clusterSync(); // nobody leaves while the other block's loads or arrivals are still to come
}

} // namespace nano
