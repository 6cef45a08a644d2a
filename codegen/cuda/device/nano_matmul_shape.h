// How the template of fused matrix products cuts its work into thread blocks and what its tensor
// maps describe. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

/// C [rows, columns] = A [rows, inner] · B, where B is [columns, inner], transposed, or
/// [inner, columns]; bf16, the last dimensions contiguous.
struct MatmulShape {
  long long rows, columns, inner;
  bool transposeB;
};

/// What one bulk load of an operand brings: so many columns of so many rows of the matrix.
struct TensorBox {
  int columns, rows;
};

/// A pair of blocks, a cluster, makes two tiles that have their columns in common: each loads its
/// own rows of A and half of B's part for both. Of a block's warpgroups two multiply, and one warp
/// of the last one loads.
struct MatmulTiles {
  static constexpr int rows = 128, columns = 256, inner = 64, stages = 4;
  static constexpr int clusterBlocks = 2, multiplying = 2, threads = 128 * (multiplying + 1);
  /// Bytes of a stage's tiles, and the width of their rows in shared memory: 64 bf16.
  static constexpr int aBytes = rows * inner * 2, bBytes = columns * inner * 2, rowBytes = 128;
  static constexpr int stageBytes = aBytes + bBytes;
  /// Products on their way from the lanes that have summed them to those that finish them: of a
  /// warp's 16 rows one part, as many columns as rowBytes hold.
  static constexpr int partColumns = rowBytes / 2, partBytes = 16 * rowBytes;
  static constexpr int sharedBytes = stages * (stageBytes + 16) + 4 * multiplying * partBytes;
  static constexpr TensorBox aBox = {inner, rows};
  /// Halves of B: of its columns, or where they are contiguous of its rows, 64 columns at a time.
  static NANO_BOTH constexpr TensorBox bBox(bool transposeB) {
    return transposeB ? TensorBox{inner, columns / clusterBlocks}
                      : TensorBox{64, inner / clusterBlocks};
  }
};

/// A launch of blocks that stay until all tiles are made.
struct MatmulLaunch {
  int threads;
  long long blocks;
  int sharedBytes; ///< dynamic
};

/// One block a multiprocessor, or fewer when there are fewer tiles. Each cluster makes its share.
NANO_BOTH constexpr MatmulLaunch matmulLaunch(const MatmulShape &shape, long long multiprocessors) {
  using Tiles = MatmulTiles;
  const long long pairs = divideUp(shape.rows, Tiles::clusterBlocks * Tiles::rows) *
                          divideUp(shape.columns, Tiles::columns);
  const long long most = multiprocessors < 2 ? 1 : multiprocessors / Tiles::clusterBlocks;
  const long long share = divideUp(pairs, most);
  return {Tiles::threads, Tiles::clusterBlocks * divideUp(pairs, share), Tiles::sharedBytes};
}

} // namespace nano
