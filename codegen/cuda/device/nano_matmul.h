// Matrix products on Hopper whose epilogue is generated: tiles of 128 × 256 by two warpgroups that
// multiply, for which a thread loads. While the tensor cores make a tile, the epilogue of the tile
// before is done by the warps that started them, a part with every step along the inner dimension;
// or, where it makes sums and has much to compute, by as many other warps.
//
// A kernel names its product P with
//   rows, columns, inner, transposeB   as in MatmulShape
//   blocks                             of the launch, as in MatmulLaunch
//   Element                            of both factors: bf16, or f8e4m3
//   scale()                            of f8e4m3: what sums of products are multiplied with
//   Others                             what else an epilogue reads for eight neighbours of a row,
//                                      which is Held: it comes long before it is used
//   load(row, column) → Others and store(row, column, products, others)
//                                      for the eight columns from `column` on; all of them exist
//   sums                               how many sums along rows the epilogue makes. Where it makes
//                                      some, store returns what the eight columns add to them,
//                                      Vec<float, sums>, and
//   storeSums(row, part, totals)       takes those of the columns 128·part … 128·part + 127
// Products are sums in f32, scaled, rounded to bf16. One thread loads what else is read at a place
// and stores there.
#pragma once

#include "nano_hopper.h"
#include "nano_matmul_shape.h"
#include "nano_pairs.h"

namespace nano {
namespace hopper {

/// The stages of a block: full when both operands' bytes have come, empty when all warps of both
/// blocks of the cluster have read them, because each loads half of B for both. Where other warps
/// finish a warp's products, these are given when they are in shared memory, and taken when they
/// have been read.
template <class P> struct MatmulStages {
  using Tiles = MatmulTiles;
  static constexpr bool handsOver = P::sums > 0;
  static constexpr int count = Tiles::stages, held = Tiles::heldParts(handsOver);
  static constexpr int steps = int(divideUp(P::inner, Tiles::inner(sizeof(typename P::Element))));
  Mbarrier full[count], empty[count], given[Tiles::warps][held], taken[Tiles::warps][held];

  static NANO_DEVICE uint8_t *a(int stage) {
    return dynamicShared<uint8_t>(stage * Tiles::stageBytes);
  }
  static NANO_DEVICE uint8_t *b(int stage) { return a(stage) + Tiles::aBytes; }
  /// Eight neighbours of a row of a warp's part, permuted so that neither those who write blocks of
  /// 8 × 8 nor those who read rows meet in a bank.
  static NANO_DEVICE Vec<bf16, 8> *products(int warp, int part, int row, int chunk) {
    return reinterpret_cast<Vec<bf16, 8> *>(a(count) +
                                            (warp * held + part % held) * Tiles::partBytes +
                                            row * Tiles::rowBytes + 16 * (chunk ^ (row & 7)));
  }
  static NANO_DEVICE MatmulStages &get() {
    return *reinterpret_cast<MatmulStages *>(products(Tiles::warps, 0, 0, 0));
  }

  /// By all threads of the cluster.
  NANO_DEVICE void init() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < count; ++i) {
        mbarrierInit(&full[i], 1);
        mbarrierInit(&empty[i], Tiles::clusterBlocks * Tiles::warps);
      }
      for (int warp = 0; warp < Tiles::warps; ++warp)
        for (int i = 0; i < held; ++i) {
          mbarrierInit(&given[warp][i], 1);
          mbarrierInit(&taken[warp][i], 1);
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
  /// Waits until a part has been handed over, and hands one over when the warp has finished with
  /// it. An even number of parts of a tile pass through each place, whose barriers' phases
  /// alternate.
  static NANO_DEVICE void await(Mbarrier *over, int part, bool isFirst) {
    static_assert(Tiles::parts % (2 * held) == 0 || !handsOver);
    mbarrierWait(&over[part % held], uint32_t((part / held & 1) ^ isFirst));
  }
  static NANO_DEVICE void hand(Mbarrier *over, int part) {
    syncWarp();
    if (laneIndex() == 0)
      mbarrierArrive(&over[part % held]);
  }
};

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
  constexpr TensorBox box = Tiles::bBox(P::transposeB, sizeof(typename P::Element));
  constexpr int boxBytes = box.rows * Tiles::rowBytes;
  using Stages = MatmulStages<P>;
  auto &stages = Stages::get();
  prefetchTensorMap(a);
  prefetchTensorMap(b);
  StageCounter at;
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; ++pair) {
    const int row = work.row(pair), column = work.column(pair);
#pragma unroll 1
    for (int step = 0; step < Stages::steps; ++step, at.advance()) {
      const int k = step * Tiles::inner(sizeof(typename P::Element));
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

/// A thread's sums of a tile, by the instructions that make them. Those of kernels of 640 threads
/// can name fewer registers than 256 columns take.
template <class P> struct TileSums {
  static constexpr int pieces = MatmulStages<P>::handsOver ? 2 : 1,
                       columns = MatmulTiles::columns / pieces;
  float piece[pieces][columns / 2];
  /// Puts what is read or written outside the tensor cores before or after what they do.
  NANO_DEVICE void settle() {
#pragma unroll
    for (auto &sums : piece)
      warpgroupRegisters(sums);
  }
};

/// Starts sums (+)= rows groupRow … groupRow + 63 of the stage's A times its B.
template <class P>
NANO_DEVICE void multiplyStage(TileSums<P> &sums, const uint8_t *a, const uint8_t *b, int groupRow,
                               bool accumulate) {
  using Tiles = MatmulTiles;
  using Element = typename P::Element;
  constexpr int rowBytes = Tiles::rowBytes, elements = Tiles::inner(sizeof(Element));
  constexpr int bytes = 32, depth = bytes / int(sizeof(Element)); // of an instruction
#pragma unroll
  for (int k = 0; k < rowBytes / bytes; ++k) {
    const uint64_t left =
        matrixDescriptor(a + groupRow * rowBytes + k * bytes, 16, 1024, Swizzle::Bytes128);
#pragma unroll
    for (int i = 0; i < sums.pieces; ++i)
      if constexpr (P::transposeB)
        warpgroupMultiply<Element, Element>(
            sums.piece[i], left,
            matrixDescriptor(b + i * sums.columns * rowBytes + k * bytes, 16, 1024,
                             Swizzle::Bytes128),
            accumulate || k > 0);
      else
        warpgroupMultiply<Element, Element, Major::K, Major::MN>(
            sums.piece[i], left,
            matrixDescriptor(b + (i * sums.columns / elements * elements + k * depth) * rowBytes,
                             elements * rowBytes, 1024, Swizzle::Bytes128),
            accumulate || k > 0);
  }
}

/// The sums of a thread, rounded to bf16 in pairs and shared with the warp that finishes them.
template <class P> class Products {
  using Tiles = MatmulTiles;
  static constexpr bool isScaled = sizeof(typename P::Element) == 1;

public:
  NANO_DEVICE explicit Products(const P &x) {
    if constexpr (isScaled)
      scale = x.scale();
  }
  NANO_DEVICE void take(const TileSums<P> &sums) {
#pragma unroll
    for (int i = 0; i < Tiles::columns / 4; ++i)
      pairs[i] = pairOf(sums, i);
  }
  /// Writes a part of what was taken, or of `sums`, to shared memory.
  NANO_DEVICE void share(int part) const {
    share(part, [&](int i) { return pairs[i]; });
  }
  NANO_DEVICE void share(int part, const TileSums<P> &sums) const {
    share(part, [&](int i) { return pairOf(sums, i); });
  }

private:
  NANO_DEVICE uint32_t pairOf(const TileSums<P> &sums, int i) const {
    constexpr int inPiece = TileSums<P>::columns / 4;
    const float *const pair = &sums.piece[i / inPiece][i % inPiece * 2];
    return isScaled ? packBf16(pair[0] * scale, pair[1] * scale) : packBf16(pair[0], pair[1]);
  }
  template <class F> NANO_DEVICE static void share(int part, F pairAt) {
    // Four blocks of 8 × 8 at once: two of rows, of two neighbouring chunks.
#pragma unroll
    for (int i = 0; i < Tiles::partColumns / 16; ++i) {
      const int first = (part * Tiles::partColumns / 16 + i) * 4;
      const uint32_t blocks[4] = {pairAt(first), pairAt(first + 1), pairAt(first + 2),
                                  pairAt(first + 3)};
      storeMatrix<4>(
          MatmulStages<P>::products(warpIndex(), part, laneIndex() % 16, 2 * i + laneIndex() / 16),
          blocks);
    }
  }

  uint32_t pairs[Tiles::columns / 4];
  float scale = 1;
};

/// The epilogue of a warp's 16 rows of tiles, in parts of 64 columns and of these in halves of 8
/// rows: four rows at once, 128 bytes of each by eight lanes.
template <class P> class Epilogue {
  using Tiles = MatmulTiles;
  /// Halves whose operands are on their way; a multiple of 2 where parts are gone through in a
  /// loop.
  static constexpr unsigned ahead = MatmulStages<P>::handsOver ? 2 : 3;

public:
  static constexpr int halves = 2 * Tiles::parts;

  /// `warp` is the one that has multiplied.
  NANO_DEVICE Epilogue(const P &x, int warp) : x(x), warp(warp) {}

  /// The warp's rows of the tile at that place are next.
  NANO_DEVICE void begin(int tileRow, int tileColumn) {
    firstRow = tileRow + warp * 16 + laneIndex() / 8;
    firstColumn = tileColumn + laneIndex() % 8 * 8;
#pragma unroll
    for (int half = 0; half < int(ahead); ++half)
      load(half);
  }
  /// Reads the lane's chunks of a half from shared memory: as words, from which the compiler widens
  /// with one instruction an element.
  NANO_DEVICE void read(int half) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      chunks[unsigned(half) % 2][i] =
          *reinterpret_cast<const Vec<uint32_t, 4> *>(MatmulStages<P>::products(
              warp, half / 2, laneIndex() / 8 + 8 * (half % 2) + 4 * i, laneIndex() % 8));
  }
  /// Stores the half that has been read; they come in order, and whether `half` is even is known
  /// when the kernel is compiled.
  NANO_DEVICE void finish(int half) {
    if constexpr (isRegular) {
      // Both at once: what an epilogue computes has long latencies, and few warps hide them.
      if (exists(half, 0)) {
        store(half, 0);
        store(half, 1);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (exists(half, i))
          store(half, i);
    }
    if constexpr (P::sums > 0)
      if ((half + 1) % (2 * sumParts) == 0)
        storeTotals(half);
    if (half + int(ahead) < halves)
      load(half + int(ahead));
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
        others[unsigned(half) % ahead][i] = x.load(row(half, i), column(half));
  }
  NANO_DEVICE void store(int half, int i) {
    const Vec<bf16, 8> chunk = elementsOf<bf16>(chunks[unsigned(half) % 2][i]);
    if constexpr (P::sums == 0)
      x.store(row(half, i), column(half), chunk, others[unsigned(half) % ahead][i]);
    else
      totals[unsigned(half) % 2][i] =
          totals[unsigned(half) % 2][i] +
          x.store(row(half, i), column(half), chunk, others[unsigned(half) % ahead][i]);
  }
  /// Adds up the totals of eight lanes, which have the same four rows, and begins anew. With every
  /// exchange a lane keeps half of its rows, so that the first four lanes end with one each.
  NANO_DEVICE void storeTotals(int last) {
    const int i = laneIndex() % 2, half = laneIndex() / 2 % 2;
    Vec<float, P::sums> total;
#pragma unroll
    for (int sum = 0; sum < P::sums; ++sum) {
      float ofHalves[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float first = totals[j][0].lane[sum], second = totals[j][1].lane[sum];
        ofHalves[j] = (i ? second : first) + shuffleXor(i ? first : second, 1);
      }
      float own = half ? ofHalves[1] : ofHalves[0];
      own += shuffleXor(half ? ofHalves[0] : ofHalves[1], 2);
      total.lane[sum] = own + shuffleXor(own, 4);
    }
    if (laneIndex() % 8 < 4 && row(half, i) < P::rows && column(last) < P::columns)
      x.storeSums(row(half, i), column(last) / Tiles::sumColumns, total);
#pragma unroll
    for (auto &ofHalf : totals)
#pragma unroll
      for (auto &one : ofHalf)
        one = {};
  }

  const P &x;
  const int warp;
  /// Whether of a half all rows and columns exist or none.
  static constexpr bool isRegular = P::rows % 8 == 0 && P::columns % Tiles::partColumns == 0;
  /// Parts of a tile whose sums are stored together.
  static constexpr int sumParts = Tiles::sumColumns / Tiles::partColumns;
  static_assert(P::sums == 0 || P::columns % Tiles::sumColumns == 0);

  Vec<uint32_t, 4> chunks[2][2]; ///< of two halves
  typename P::Others others[ahead][2];
  Vec<float, P::sums == 0 ? 1 : P::sums> totals[2][2] = {}; ///< of a lane's rows, as `row` has them
  int firstRow = 0, firstColumn = 0;
};

/// The block's tiles, by a warpgroup its 64 rows of them.
template <class P> NANO_DEVICE void multiplyTiles(const MatmulWork<P> &work, const P &x) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  constexpr int halves = Epilogue<P>::halves;
  auto &stages = Stages::get();
  const int warp = warpIndex(), groupRow = warp / 4 * 64;
  StageCounter at;
  TileSums<P> sums;
  Products<P> products(x);
  Epilogue<P> epilogue(x, warp);
  int last = 0;
  auto start = [&](int step) {
    mbarrierWait(&stages.full[at.stage], at.round & 1);
    sums.settle();
    warpgroupFence();
    multiplyStage(sums, stages.a(at.stage), stages.b(at.stage), groupRow, step > 0);
    warpgroupCommit();
    if (step > 0) {
      warpgroupWait<1>();
      stages.release(last);
    }
    last = at.stage;
    at.advance();
  };
  auto finish = [&](int half) {
    if (half % 2 == 0)
      syncWarp(); // the part is there
    epilogue.read(half);
    // The next part is on its way while this one is computed with.
    if (half % 2 != 0 && half + 1 < halves) {
      syncWarp();
      products.share((half + 1) / 2);
    }
    epilogue.finish(half);
  };
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; ++pair) {
    int step = 0;
    if constexpr (!Stages::handsOver) {
      // Each of the first steps has its share of the halves in its shadow.
      constexpr int shadows = Stages::steps < halves ? Stages::steps : halves;
#pragma unroll
      for (; step < shadows; ++step) {
        start(step);
        if (pair > work.begin)
#pragma unroll
          for (int half = halves * step / shadows; half < halves * (step + 1) / shadows; ++half)
            finish(half);
      }
    }
#pragma unroll 1
    for (; step < Stages::steps; ++step)
      start(step);
    warpgroupWait<0>();
    sums.settle();
    stages.release(last);
    if constexpr (Stages::handsOver) {
#pragma unroll
      for (int part = 0; part < Tiles::parts; ++part) {
        stages.await(stages.taken[warp], part, true);
        products.share(part, sums);
        stages.hand(stages.given[warp], part);
      }
    } else {
      products.take(sums);
      syncWarp(); // the last part of the tile before has been read
      products.share(0);
      epilogue.begin(work.row(pair), work.column(pair));
    }
  }
  if constexpr (!Stages::handsOver)
    if (work.begin < work.end)
#pragma unroll
      for (int half = 0; half < halves; ++half)
        finish(half);
}

/// The epilogues of the rows that warp `warp` multiplies, by another one.
template <class P> NANO_DEVICE void finishTiles(const MatmulWork<P> &work, const P &x, int warp) {
  auto &stages = MatmulStages<P>::get();
  Epilogue<P> epilogue(x, warp);
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; ++pair) {
    epilogue.begin(work.row(pair), work.column(pair));
#pragma unroll 1
    for (int part = 0; part < MatmulTiles::parts; ++part) {
      stages.await(stages.given[warp], part, false);
      // Both halves at once, but where an epilogue holds other operands: registers are few.
      constexpr bool atOnce = sizeof(typename P::Others) == 1;
      epilogue.read(2 * part);
      if constexpr (!atOnce)
        epilogue.finish(2 * part);
      epilogue.read(2 * part + 1);
      stages.hand(stages.taken[warp], part);
      if constexpr (atOnce)
        epilogue.finish(2 * part);
      epilogue.finish(2 * part + 1);
    }
  }
}

} // namespace hopper

/// The share of block `block` of the product x of the matrices that the maps describe; by all
/// threads of all blocks of the grid.
template <class P>
NANO_DEVICE void matmul(int block, const TensorMap &a, const TensorMap &b, const P &x) {
  using Tiles = MatmulTiles;
  const hopper::MatmulWork<P> work(block);
  hopper::MatmulStages<P>::get().init();
  constexpr bool handsOver = hopper::MatmulStages<P>::handsOver;
  constexpr int loading = Tiles::warps; // the warp
  // Registers of a thread: 168 before, and 2 · 240 + 24 of three warpgroups; or 96, and
  // 2 · 160 + 24 + 2 · 64 of five.
  if (warpIndex() < loading) {
    increaseRegisters<handsOver ? 160 : 240>();
    hopper::multiplyTiles(work, x);
  } else if (!handsOver || warpIndex() < loading + 4) {
    decreaseRegisters<24>();
    if (warpIndex() == loading && laneIndex() == 0)
      hopper::loadOperands(work, a, b);
    syncWarp();
  } else if constexpr (handsOver) {
    decreaseRegisters<64>();
    hopper::finishTiles(work, x, warpIndex() - loading - 4);
  }
  clusterSync(); // nobody leaves while the other block's loads or arrivals are still to come
}

} // namespace nano
