// Symmetric matrix products on Hopper, C = alpha · op(X) · op(X)ᵀ + beta · D with a symmetric D:
// tiles on and below the diagonal are multiplied as nano_matmul.h does and stored twice, the second
// time mirrored.
//
// A kernel names its product S with
//   matrices, size, inner, transpose   as in SymmetricShape
//   blocks                             of the launch, as symmetricLaunch says
//   hasAddend                          whether there is a D
//   alpha, beta                        f32
// and calls symmetricProduct. Of D the lower triangle is used. C is symmetric to the bit, for every
// element above the diagonal is a copy of the one below it. Sums have the order of nano_matmul.h's.
#pragma once

#include "nano_kernels.h"
#include "nano_matmul_stages.h"
#include "nano_symmetric_shape.h"

namespace nano {
namespace hopper {

/// The product as the templates of nano_matmul_stages.h know it.
template <class S> struct SymmetricFactors : ProductAlone {
  using ElementA = bf16;
  using ElementB = bf16;
  using Result = bf16;
  static constexpr int rows = S::size, columns = S::size, inner = S::inner, blocks = S::blocks;
  static constexpr bool transposeA = S::transpose, transposeB = !S::transpose;
};

/// The squares of a block's cluster: begin, begin + step, … before end. What clusters make at one
/// time are neighbours of a row of squares, whose first factor is the same.
template <class S> struct SymmetricWork {
  using Tiles = SymmetricTiles;
  static constexpr int squares = int(symmetricSquares(S::size)), end = S::matrices * squares,
                       step = S::blocks / MatmulTiles::clusterBlocks;
  static_assert(step <= end); // each cluster has one
  int begin;

  NANO_DEVICE SymmetricWork(int block) : begin(block / MatmulTiles::clusterBlocks) {}

  /// Where one is.
  struct Square {
    int matrix, row, column; ///< the first row of the cluster's first block
  };
  static NANO_DEVICE Square at(int index) {
    int row = 0, column = index % squares;
    while (column > row)
      column -= ++row;
    return {index / squares, row * Tiles::side, column * Tiles::side};
  }
};

/// Loads the block's operands, stage after stage, by a thread.
template <class S>
NANO_DEVICE void loadSymmetric(int block, const TensorMap &a, const TensorMap &b) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<SymmetricFactors<S>>;
  constexpr uint16_t both = (1 << Tiles::clusterBlocks) - 1;
  constexpr TensorBox rowsBox = SymmetricTiles::rowsBox(S::transpose),
                      box = SymmetricTiles::columnsBox(S::transpose);
  constexpr int boxBytes = box.rows * Tiles::rowBytes;
  const SymmetricWork<S> work(block);
  auto &stages = Stages::get();
  prefetchTensorMap(a);
  prefetchTensorMap(b);
  StageCounter at;
  const int rank = int(clusterRank());
#pragma unroll 1
  for (int index = work.begin; index < work.end; index += work.step) {
    const auto square = work.at(index);
    const int row = square.row + rank * Tiles::rows;
#pragma unroll 1
    for (int step = 0; step < Stages::steps; ++step, at.advance()) {
      const int k = step * Stages::inner;
      mbarrierWait(&stages.empty[at.stage], (at.round & 1) ^ 1);
      Mbarrier *const full = &stages.full[at.stage];
      mbarrierArriveExpect(full, Tiles::stageBytes);
      uint8_t *const part = stages.b(at.stage) + rank * boxBytes;
      if constexpr (S::transpose) {
        const int line = square.matrix * S::inner + k;
#pragma unroll
        for (int i = 0; i < Tiles::rows / rowsBox.columns; ++i)
          bulkTensorLoad(stages.a(at.stage) + i * rowsBox.rows * Tiles::rowBytes, a,
                         row + i * rowsBox.columns, line, full);
#pragma unroll
        for (int i = 0; i < Tiles::columns / box.columns; ++i)
          bulkTensorLoadMulticast(part + i * Tiles::clusterBlocks * boxBytes, b,
                                  square.column + i * box.columns, line + rank * box.rows, full,
                                  both);
      } else {
        const int line = square.matrix * S::size;
        bulkTensorLoad(stages.a(at.stage), a, k, line + row, full);
        bulkTensorLoadMulticast(part, b, k, line + square.column + rank * box.rows, full, both);
      }
    }
  }
}

/// What a warpgroup does with its 64 rows of a tile: by blocks of 64 columns, which lie in shared
/// memory as they are and mirrored, 8 KB each, so that whole lines of both are stored.
template <class S> class SymmetricEpilogue {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<SymmetricFactors<S>>;
  static constexpr int block = SymmetricTiles::block, lanes = 8, ///< of bf16 in 16 bytes
      warpRows = Tiles::rows / Tiles::warps, chunks = warpRows / 4;
  static_assert(4 * warpRows == block && Tiles::heldParts == 2);

public:
  /// `warp` is the one that multiplies.
  NANO_DEVICE SymmetricEpilogue(const bf16 *addend, bf16 *result, int warp)
      : addend(addend), result(result), warp(warp) {}

  /// The warpgroup's rows of the block's tile of that square are next; of a block of columns what
  /// is added comes before its sums are needed.
  NANO_DEVICE void begin(const typename SymmetricWork<S>::Square &square) {
    matrix = int64_t(square.matrix) * S::size * S::size;
    row = square.row + int(clusterRank()) * Tiles::rows + warp / 4 * block;
    column = square.column;
    load();
  }
  NANO_DEVICE void finish(const TileSums<SymmetricFactors<S>> &sums) {
#pragma unroll
    for (int part = 0; part < Tiles::parts; ++part, column += block)
      if (isComputed()) // likewise of all of the warpgroup
        finish(&sums.piece[0][part * block / 2]);
  }

private:
  /// Whether the block of columns that is next is on or below the diagonal, and within the matrix.
  NANO_DEVICE bool isComputed() const { return column <= row && row < S::size; }
  NANO_DEVICE static bool exists(int place) { return S::size % block == 0 || place < S::size; }
  /// Eight neighbours of a line of a block in shared memory, permuted so that neither those who
  /// write blocks of 8 × 8 nor those who read lines meet in a bank.
  NANO_DEVICE Vec<uint32_t, 4> *place(bool isMirrored, int line, int chunk) const {
    return reinterpret_cast<Vec<uint32_t, 4> *>(
        Stages::a(Stages::count) + (2 * (warp / 4) + isMirrored) * 4 * Tiles::partBytes +
        line * Tiles::rowBytes + 16 * (chunk ^ (line & 7)));
  }
  /// The lane's line of four that are read or written at a time, and its neighbours of it.
  NANO_DEVICE int line(int i) const { return warp % 4 * warpRows + laneIndex() / 8 + 4 * i; }
  NANO_DEVICE int chunk() const { return laneIndex() % 8; }

  NANO_DEVICE void load() {
    if constexpr (S::hasAddend)
      if (isComputed())
#pragma unroll
        for (int i = 0; i < chunks; ++i)
          if (exists(row + line(i)) && exists(column + lanes * chunk()))
            ahead[i] = *reinterpret_cast<const Vec<uint32_t, 4> *>(
                addend + matrix + int64_t(row + line(i)) * S::size + column + lanes * chunk());
  }

  /// Of the thread's sums of a block of columns.
  NANO_DEVICE void finish(const float *sums) {
    barrierSync(1 + warp / 4, 128); // the block before has been read
    uint32_t pairs[block / 4];
    const int ofRows = warp % 4 * warpRows + laneIndex() % 16;
    if constexpr (S::hasAddend) {
#pragma unroll
      for (int i = 0; i < chunks; ++i)
        *place(false, line(i), chunk()) = ahead[i];
      column += block;
      load(); // of the next one
      column -= block;
      syncWarp();
#pragma unroll
      for (int i = 0; i < block / 16; ++i) {
        uint32_t four[4];
        loadMatrix<4>(four, place(false, ofRows, 2 * i + laneIndex() / 16));
#pragma unroll
        for (int j = 0; j < 4; ++j)
          pairs[4 * i + j] = four[j];
      }
      syncWarp(); // over which the results are written
    }
#pragma unroll
    for (int i = 0; i < block / 4; ++i) {
      float two[2] = {sums[2 * i], sums[2 * i + 1]};
      if constexpr (S::hasAddend) {
        const Vec<bf16, 2> added = elementsOf<bf16>(Vec<uint32_t, 1>{pairs[i]});
        for (int j = 0; j < 2; ++j)
          two[j] = fma(S::alpha, two[j], S::beta * float(added.lane[j]));
      } else if (S::alpha != 1) {
        two[0] *= S::alpha;
        two[1] *= S::alpha;
      }
      pairs[i] = packBf16(two[0], two[1]);
    }
    // Four blocks of 8 × 8 at once: two of rows, of two neighbouring chunks.
    const int ofColumns = laneIndex() / 16 * 8 + laneIndex() % 8,
              mirroredChunk = 2 * (warp % 4) + laneIndex() / 8 % 2;
#pragma unroll
    for (int i = 0; i < block / 16; ++i) {
      const uint32_t four[4] = {pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]};
      storeMatrix<4>(place(false, ofRows, 2 * i + laneIndex() / 16), four);
      storeMatrixTransposed<4>(place(true, 16 * i + ofColumns, mirroredChunk), four);
    }
    barrierSync(1 + warp / 4, 128); // both are there
    if (column < row) {
      store(row, column, [&](int i) { return *place(false, line(i), chunk()); });
      store(column, row, [&](int i) { return *place(true, line(i), chunk()); });
    } else {
      store(row, column, [&](int i) { return merged(line(i)); });
    }
  }
  /// On the diagonal: of a line the elements up to it, and behind it mirrored ones.
  NANO_DEVICE Vec<uint32_t, 4> merged(int line) const {
    const Vec<bf16, 8> below = elementsOf<bf16>(*place(false, line, chunk())),
                       above = elementsOf<bf16>(*place(true, line, chunk()));
    Vec<bf16, 8> both;
#pragma unroll
    for (int i = 0; i < lanes; ++i)
      both.lane[i] = lanes * chunk() + i <= line ? below.lane[i] : above.lane[i];
    return wordsOf<uint32_t>(both);
  }
  /// A warp's 16 lines of the block of C that begins there, whole lines of 128 bytes.
  template <class F> NANO_DEVICE void store(int firstRow, int firstColumn, F at) {
#pragma unroll
    for (int i = 0; i < chunks; ++i)
      if (exists(firstRow + line(i)) && exists(firstColumn + lanes * chunk()))
        *reinterpret_cast<Vec<uint32_t, 4> *>(result + matrix +
                                              int64_t(firstRow + line(i)) * S::size + firstColumn +
                                              lanes * chunk()) = at(i);
  }

  const bf16 *const addend;
  bf16 *const result;
  const int warp;
  int64_t matrix = 0; ///< elements before it
  int row = 0, column = 0;
  Vec<uint32_t, 4> ahead[chunks] = {};
};

/// The block's squares, by a warpgroup its 64 rows of them; `warp` is known to be one number for a
/// warp.
template <class S>
NANO_DEVICE void multiplySymmetric(int block, const bf16 *addend, bf16 *result, int warp) {
  using P = SymmetricFactors<S>;
  const SymmetricWork<S> work(block);
  Multiplier<P> multiplier(warp);
  SymmetricEpilogue<S> epilogue(addend, result, warp);
#pragma unroll 1
  for (int index = work.begin; index < work.end; index += work.step) {
#pragma unroll 1
    for (int step = 0; step < MatmulStages<P>::steps; ++step)
      multiplier.multiply(step);
    epilogue.begin(work.at(index));
    multiplier.end();
    epilogue.finish(multiplier.sums);
  }
}

} // namespace hopper

/// The share of block `block` of the product S of the matrices that the maps describe, X as its
/// rows and as its columns; by all threads of all blocks of the grid. `addend` is null where there
/// is none. `result` overlaps neither operand.
template <class S>
NANO_DEVICE void symmetricProduct(int block, const TensorMap &rows, const TensorMap &columns,
                                  const bf16 *addend, bf16 *result) {
  using Tiles = MatmulTiles;
  hopper::MatmulStages<hopper::SymmetricFactors<S>>::get().init();
  constexpr int loading = Tiles::warps;     // the warp
  const int warp = shuffle(warpIndex(), 0); // known to be one number for a warp
  if (warp < loading) {
    increaseRegisters<240>();
    hopper::multiplySymmetric<S>(block, addend, result, warp);
  } else {
    decreaseRegisters<24>();
    if (warp == loading && laneIndex() == 0)
      hopper::loadSymmetric<S>(block, rows, columns);
    syncWarp();
  }
  clusterSync(); // nobody leaves while the other block's loads or arrivals are still to come
}

} // namespace nano
