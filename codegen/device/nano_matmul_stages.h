// The stages of a block that makes products: tiles of both factors in shared memory, which a thread
// loads and warpgroups multiply.
#pragma once

#include "nano_hopper.h"
#include "nano_matmul_shape.h"
#include "nano_vectors.h"

namespace nano {
namespace hopper {

/// What the stages ask of a product, for templates that store its sums by themselves.
struct ProductAlone {
  struct Others {};
  static constexpr int sums = 0, copies = 0, products = 1;
  static constexpr bool addsColumns = false;
};

/// Whether other warps end what a warp has multiplied: where an epilogue makes sums along rows,
/// unless P says otherwise.
template <class P> constexpr bool handsOver() {
  if constexpr (requires { P::handsOver; })
    return P::handsOver;
  else
    return P::sums > 0;
}

/// Whether those who multiply also write to stages, of which loads of the other block come after.
template <class P> constexpr bool writesStages = requires { P::writesStages; };

/// The stages of a block: full when both operands' bytes have come, empty when all warps of both
/// blocks of the cluster have read them, because each loads half of B for both. Where other warps
/// finish a warp's products, these are given when they are in shared memory, and taken when they
/// have been read.
template <class P> struct MatmulStages {
  using Tiles = MatmulTiles;
  static constexpr bool handsOver = hopper::handsOver<P>(),
                        isWide = sizeof(typename P::Result) == 4;
  static_assert(!isWide || !handsOver);
  static_assert(P::products == 1 || (P::products == Tiles::heldParts && !isWide && !handsOver &&
                                     !P::addsColumns && P::copies == 0));
  static constexpr int elementBytes = sizeof(typename P::ElementA);
  static_assert(elementBytes == sizeof(typename P::ElementB));
  /// Whether elements are of 8 bits; and whether the sums of every stage are added up in f32 by the
  /// threads. Of products of 8 bits the tensor cores keep 13 bits behind the point of the largest:
  /// a relative error of some 2⁻¹³ with every addition, towards zero, which a sum that is rounded
  /// to bf16 hardly shows, but a long one does. Gradients, which are of f8e5m2, are added up so
  /// too.
  static constexpr bool isScaled = elementBytes == 1,
                        isGradient = isScaled && !(isSame<typename P::ElementA, f8e4m3> &&
                                                   isSame<typename P::ElementB, f8e4m3>),
                        addsUp = isScaled && (isWide || isGradient);
  static_assert(!addsUp || (!handsOver && P::products == 1));
  static_assert(!P::transposeA || isWide || elementBytes == 2);
  static constexpr int inner = Tiles::inner(elementBytes), steps = int(divideUp(P::inner, inner));
  static constexpr int count = Tiles::stages;
  /// Pieces of an epilogue whose other operands are on their way to shared memory, to the place of
  /// one of two parts of products; 0: they come to registers, or there are none. A thread that
  /// waits for one of several loads to registers waits for all of them, not so for copies. Of
  /// each operand a lane has 16 bytes.
  static constexpr int copied = handsOver || isWide || addsUp || P::copies == 0
                                    ? 0
                                    : Tiles::partBytes / (32 * 16 * P::copies);
  static constexpr int held = copied > 0 ? Tiles::heldParts - 1 : Tiles::heldParts;
  Mbarrier full[count], empty[count];
  Mbarrier given[Tiles::warps][held], taken[Tiles::warps][held];

  static NANO_DEVICE uint8_t *a(int stage) {
    return dynamicShared<uint8_t>(stage * Tiles::stageBytes);
  }
  static NANO_DEVICE uint8_t *b(int stage) { return a(stage) + Tiles::aBytes; }
  /// A warp's products on their way: 16 rows of 128 bytes. Of two products each has a place, where
  /// its parts come one after the other.
  static NANO_DEVICE uint8_t *part(int warp, int part) {
    const int place = P::products > 1 ? part / (Tiles::parts / P::products) : part % held;
    return a(count) + (warp * Tiles::heldParts + place) * Tiles::partBytes;
  }
  /// What else the lane's epilogue of a piece reads: its first operand's, and 32 places behind it
  /// the second one's.
  static NANO_DEVICE Vec<uint32_t, 4> *others(int warp, int piece) {
    return reinterpret_cast<Vec<uint32_t, 4> *>(part(warp, 0) + Tiles::partBytes) +
           (piece % copied * 32 * P::copies + laneIndex());
  }
  static NANO_DEVICE MatmulStages &get() {
    return *reinterpret_cast<MatmulStages *>(part(Tiles::warps, 0));
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
    if (laneIndex() < Tiles::clusterBlocks) {
      if constexpr (writesStages<P>)
        mbarrierArriveCluster(&empty[stage], uint32_t(laneIndex()));
      else
        mbarrierArriveRemote(&empty[stage], uint32_t(laneIndex()));
    }
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

/// Where the block's tile of a pair lies, and which of its elements exist.
template <class Edge> struct TilePlace : Edge {
  int row, column;
};

/// The pairs of tiles of a block's cluster: begin, begin + step, … before end; and where the
/// block's tile of each lies. What all clusters make at one time are neighbours, which have few
/// rows of the larger factor in common and go through those of the smaller one: each comes from
/// memory once.
template <class P> struct MatmulWork {
  using Tiles = MatmulTiles;
  static constexpr int pairRows = Tiles::clusterBlocks * Tiles::rows,
                       tileColumns = Tiles::columns / P::products; ///< of each product
  static constexpr int rowPairs = int(divideUp(P::rows, pairRows)),
                       columnTiles = int(divideUp(P::columns, tileColumns)),
                       end = rowPairs * columnTiles, step = P::blocks / Tiles::clusterBlocks;
  static constexpr bool alongRows = P::rows < P::columns * P::products;
  static_assert(step <= end); // each cluster has one
  int begin;

  /// Tiles may reach beyond the matrix.
  struct Edge {
    static NANO_DEVICE bool exists(int row, int column) {
      constexpr bool always = P::rows % pairRows == 0 && P::columns % tileColumns == 0;
      return always || (row < P::rows && column < P::columns);
    }
  };

  NANO_DEVICE MatmulWork(int block) : begin(block / Tiles::clusterBlocks) {}
  /// The block's in its cluster: asked for where it is wanted, for a register is too much for it.
  static NANO_DEVICE int rank() { return int(clusterRank()); }
  NANO_DEVICE int row(int pair) const {
    const int rows = alongRows ? pair % rowPairs : pair / columnTiles;
    return (rows * Tiles::clusterBlocks + rank()) * Tiles::rows;
  }
  NANO_DEVICE int column(int pair) const {
    return (alongRows ? pair / rowPairs : pair % columnTiles) * tileColumns;
  }
  NANO_DEVICE TilePlace<Edge> at(int pair) const { return {{}, row(pair), column(pair)}; }
};

/// The work of P, which may have one of its own.
template <class P> struct WorkOf {
  using Type = MatmulWork<P>;
};
template <class P>
  requires requires { typename P::Work; }
struct WorkOf<P> {
  using Type = typename P::Work;
};
template <class P> using Work = typename WorkOf<P>::Type;

/// Loads the block's operands, stage after stage, by a thread. Of two products `second` is the
/// other one's B.
template <class P>
NANO_DEVICE void loadOperands(const MatmulWork<P> &work, const TensorMap &a, const TensorMap &b,
                              const TensorMap &second) {
  using Tiles = MatmulTiles;
  constexpr uint16_t both = (1 << Tiles::clusterBlocks) - 1;
  using Stages = MatmulStages<P>;
  constexpr TensorBox box = Tiles::bBox(P::transposeB, Stages::elementBytes);
  constexpr int boxBytes = box.rows * Tiles::rowBytes;
  auto &stages = Stages::get();
  prefetchTensorMap(a);
  prefetchTensorMap(b);
  if constexpr (P::products > 1)
    prefetchTensorMap(second);
  StageCounter at;
  const int rank = work.rank();
  // Of columns of B each block loads half, which are all of one product's where there are two.
  const TensorMap &ofRank = P::products > 1 && rank > 0 ? second : b;
  const int firstOfRank = P::products > 1 ? 0 : rank * box.rows;
  static_assert(Tiles::clusterBlocks == 2);
  // Tiles that are made at one time go through all of the smaller factor again and again.
  const CachePolicy<MatmulWork<P>::alongRows> ofA;
  const CachePolicy<!MatmulWork<P>::alongRows> ofB;
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    const int row = work.row(pair), column = work.column(pair);
#pragma unroll 1
    for (int step = 0; step < Stages::steps; ++step, at.advance()) {
      const int k = step * Stages::inner;
      mbarrierWait(&stages.empty[at.stage], (at.round & 1) ^ 1);
      Mbarrier *const full = &stages.full[at.stage];
      mbarrierArriveExpect(full, Tiles::stageBytes);
      const int columnOfA = P::transposeA ? row : k, rowOfA = P::transposeA ? k : row;
      bulkTensorLoad(stages.a(at.stage), a, columnOfA, rowOfA, full, ofA);
      uint8_t *const part = stages.b(at.stage) + rank * boxBytes;
      if constexpr (P::transposeB) {
        bulkTensorLoadMulticast(part, ofRank, k, column + firstOfRank, full, both, ofB);
      } else {
        constexpr int boxes = MatmulWork<P>::tileColumns / box.columns;
#pragma unroll
        for (int i = 0; i < Tiles::columns / box.columns; ++i)
          bulkTensorLoadMulticast(part + i * Tiles::clusterBlocks * boxBytes,
                                  i < boxes ? b : second, column + i % boxes * box.columns,
                                  k + rank * box.rows, full, both, ofB);
      }
    }
  }
}

/// A thread's sums of a tile, by the instructions that make them. Those of kernels of 640 threads
/// can name fewer registers than 256 columns take; and where the sums of each stage are added up
/// apart from the tensor cores, there is room for those of two quarters of the columns.
template <class P> struct TileSums {
  using Stages = MatmulStages<P>;
  static constexpr int pieces = Stages::addsUp      ? 4
                                : Stages::handsOver ? 2
                                                    : 1,
                       columns = MatmulTiles::columns / pieces;
  float piece[pieces][columns / 2];
  /// Puts what is read or written outside the tensor cores before or after what they do.
  NANO_DEVICE void settle() {
#pragma unroll
    for (auto &sums : piece)
      warpgroupRegisters(sums);
  }
};

/// The descriptor of B in a stage, and how many bytes behind it the part lies that instruction k of
/// piece i multiplies.
template <class P> struct FactorB {
  using Stages = MatmulStages<P>;
  static constexpr int rowBytes = MatmulTiles::rowBytes, bytes = 32; ///< along K, of an instruction
  static constexpr int steps = rowBytes / bytes;
  static constexpr Major major = P::transposeB ? Major::K : Major::MN;
  static NANO_DEVICE uint64_t descriptor(const uint8_t *b) {
    return matrixDescriptor(b, P::transposeB ? 16 : Stages::inner * rowBytes, 1024,
                            Swizzle::Bytes128);
  }
  static NANO_DEVICE int offset(int k, int i) {
    constexpr int columns = TileSums<P>::columns, inner = Stages::inner;
    return P::transposeB
               ? i * columns * rowBytes + k * bytes
               : (i * columns / inner * inner + k * bytes / Stages::elementBytes) * rowBytes;
  }
};

/// Likewise of a warpgroup's 64 rows of A. Where these are contiguous they lie in a box of their
/// own.
template <class P> struct FactorA {
  using B = FactorB<P>;
  static constexpr Major major = P::transposeA ? Major::MN : Major::K;
  static NANO_DEVICE uint64_t descriptor(const uint8_t *a, int warpgroup) {
    return matrixDescriptor(a + warpgroup * 64 * B::rowBytes, 16, 1024, Swizzle::Bytes128);
  }
  static NANO_DEVICE int offset(int k) {
    return P::transposeA ? k * B::bytes / MatmulStages<P>::elementBytes * B::rowBytes
                         : k * B::bytes;
  }
};

/// Starts sums (+)= 64 rows of a stage's A, by their descriptor, times its B.
template <class P>
NANO_DEVICE void multiplyStage(TileSums<P> &sums, uint64_t left, const uint8_t *b,
                               bool accumulate) {
  using A = FactorA<P>;
  using B = FactorB<P>;
  const uint64_t right = B::descriptor(b);
#pragma unroll
  for (int k = 0; k < B::steps; ++k)
#pragma unroll
    for (int i = 0; i < sums.pieces; ++i)
      warpgroupMultiply<typename P::ElementA, typename P::ElementB, A::major, B::major>(
          sums.piece[i], advanced(left, A::offset(k)), advanced(right, B::offset(k, i)),
          accumulate || k > 0);
}

/// A warp's 16 rows of a stage's A of 8 bits, in registers, from which the instructions read them
/// once for all columns. Where A lies transposed they have to be turned, since the instructions
/// read 8 bits along K only; of its rows, `group` and `group` + 8 of a fragment are then 2 · group
/// and 2 · group + 1.
template <class P> struct HeldRows {
  using B = FactorB<P>;
  uint32_t fragment[B::steps][4];

  NANO_DEVICE void load(const uint8_t *a, int warp) {
    static_assert(MatmulStages<P>::isScaled);
    if constexpr (P::transposeA)
      loadTurned(a, warp);
    else
      loadStraight(a + warp * 16 * B::rowBytes);
  }

private:
  NANO_DEVICE void loadStraight(const uint8_t *first) {
    const int row = laneIndex() % 16, half = laneIndex() / 16;
#pragma unroll
    for (int k = 0; k < B::steps; ++k)
      loadMatrix(fragment[k], first + row * B::rowBytes + 16 * ((2 * k + half) ^ (row & 7)));
  }
  /// From the stage's A: 128 rows along the inner dimension, of 128 bytes along A's rows.
  NANO_DEVICE void loadTurned(const uint8_t *a, int warp) {
    const int lane = laneIndex(), line = lane % 8, matrix = lane / 8 % 2;
    // A matrix is 8 lines of 16 bytes, read as pairs, so that a lane gets bytes 2 · group and
    // 2 · group + 1 of two lines of it. From two matrices it is to have four lines in a row. Which
    // one has the first two of them depends on the lane: so the lines of a matrix all have
    // different places in the swizzled rows.
    const int row = lane / 16 * 16 + line / 2 * 4 + line % 2 + 2 * (matrix ^ line / 4);
    const uint8_t *const from = a + row * B::rowBytes + 16 * (warp ^ row % 8);
    const bool inOrder = lane % 4 < 2;
    const uint32_t even = inOrder ? 0x6420 : 0x2064, odd = inOrder ? 0x7531 : 0x3175;
    uint32_t pairs[B::steps][4];
#pragma unroll
    for (int k = 0; k < B::steps; ++k)
      loadMatrixTransposed(pairs[k], from + k * B::bytes * B::rowBytes);
#pragma unroll
    for (int k = 0; k < B::steps; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        fragment[k][i] =
            selectBytes(pairs[k][i / 2 * 2], pairs[k][i / 2 * 2 + 1], i % 2 == 0 ? even : odd);
  }
};

/// A thread's part in its warpgroup's sums of 64 rows of tiles, stage after stage.
template <class P> struct Multiplier {
  using Stages = MatmulStages<P>;
  Stages &stages = Stages::get();
  const int warp;
  StageCounter at;
  TileSums<P> sums;
  int last = 0;

  NANO_DEVICE explicit Multiplier(int warp) : warp(warp) {}
  /// A tile's first stage is next.
  NANO_DEVICE void begin() {
    if constexpr (Stages::addsUp)
      sums = {};
  }
  /// The products of a stage, `step` of the tile.
  NANO_DEVICE void multiply(int step) {
    mbarrierWait(&stages.full[at.stage], at.round & 1);
    if constexpr (Stages::addsUp)
      addUp();
    else
      start(step);
    at.advance();
  }
  /// Ends those of the last stage of a tile.
  NANO_DEVICE void end() {
    if constexpr (!Stages::addsUp) {
      warpgroupWait<0>();
      sums.settle();
      stages.release(last);
    }
  }

private:
  using B = FactorB<P>;
  /// Whether A is multiplied from registers.
  static constexpr bool holdsRows = P::transposeA || !Stages::isWide;
  /// The descriptor of the warpgroup's 64 rows of the stage's A.
  NANO_DEVICE uint64_t rowsOfA() const {
    return FactorA<P>::descriptor(stages.a(at.stage), warp / 4);
  }

  /// Starts the stage's products, and ends those of the one before.
  NANO_DEVICE void start(int step) {
    sums.settle();
    warpgroupFence();
    multiplyStage(sums, rowsOfA(), stages.b(at.stage), step > 0);
    warpgroupCommit();
    if (step > 0) {
      warpgroupWait<1>();
      stages.release(last);
    }
    last = at.stage;
  }
  /// Adds the stage's products up, a part of the columns after the other: while the threads add
  /// one, the tensor cores make the next.
  NANO_DEVICE void addUp() {
    HeldRows<P> rows;
    if constexpr (holdsRows)
      rows.load(stages.a(at.stage), warp);
    float ofStage[2][TileSums<P>::columns / 2];
    startPiece(0, rows, ofStage[0]);
#pragma unroll
    for (int i = 0; i < sums.pieces; ++i) {
      auto &piece = ofStage[i % 2];
      if (i + 1 < sums.pieces) {
        startPiece(i + 1, rows, ofStage[(i + 1) % 2]);
        warpgroupWait<1>();
      } else {
        warpgroupWait<0>();
        stages.release(at.stage);
      }
      warpgroupRegisters(piece);
#pragma unroll
      for (int j = 0; j < TileSums<P>::columns / 2; ++j)
        sums.piece[i][j] += piece[j];
      warpgroupRegisters(piece);
    }
  }
  /// Starts the products of a piece of the columns, of the stage alone.
  NANO_DEVICE void startPiece(int i, const HeldRows<P> &rows,
                              float (&piece)[TileSums<P>::columns / 2]) {
    const uint64_t right = B::descriptor(stages.b(at.stage));
    warpgroupFence();
#pragma unroll
    for (int k = 0; k < B::steps; ++k) {
      const uint64_t factor = advanced(right, B::offset(k, i));
      if constexpr (holdsRows)
        warpgroupMultiply<typename P::ElementA, typename P::ElementB>(piece, rows.fragment[k],
                                                                      factor, k > 0);
      else
        warpgroupMultiply<typename P::ElementA, typename P::ElementB>(
            piece, advanced(rowsOfA(), k * B::bytes), factor, k > 0);
    }
    warpgroupCommit();
  }
};

} // namespace hopper
} // namespace nano
