// How the template of fused matrix products cuts its work into thread blocks and what its tensor
// maps describe. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

/// C [rows, columns] = A · B, where A is [rows, inner] or, transposed, [inner, rows], and B is
/// [inner, columns] or, transposed, [columns, inner]; the last dimensions contiguous. A and B are
/// of elements of two bytes, where A must not be transposed, or of one byte, where B has to be, and
/// A may be if `isWide`. `sums`: whether the epilogue makes sums along rows. `products`: of how
/// many matrices B with the same A; the epilogue ends two products at once, each of so many
/// columns.
struct MatmulShape {
  long long rows, columns, inner;
  bool transposeA, transposeB;
  int elementBytes;
  bool sums;
  bool isWide; ///< whether the epilogue gets f32, not bf16
  int products = 1;
};

/// What one bulk load of an operand brings: so many columns of so many rows of the matrix.
struct TensorBox {
  int columns, rows;
};

/// A pair of blocks, a cluster, makes two tiles that have their columns in common: each loads its
/// own rows of A and half of B's part for both. Of two products a tile has half as many columns of
/// each, side by side. Of a block's warpgroups two multiply, one warp of the next one loads, and
/// where an epilogue makes sums, two more do the epilogue: it computes much, which the warps that
/// multiply would have to wait for.
struct MatmulTiles {
  static constexpr int rows = 128, columns = 256;
  static constexpr int clusterBlocks = 2, multiplying = 2, warps = 4 * multiplying;
  static NANO_BOTH constexpr int threads(bool sums) {
    return 128 * (multiplying + 1 + (sums ? multiplying : 0));
  }
  /// The width of rows in shared memory, and bytes of a stage's tiles, which have as many elements
  /// along the inner dimension as such a row holds.
  static constexpr int rowBytes = 128, aBytes = rows * rowBytes, bBytes = columns * rowBytes;
  static constexpr int stageBytes = aBytes + bBytes;
  static NANO_BOTH constexpr int inner(int elementBytes) { return rowBytes / elementBytes; }
  static constexpr int stages = 4;
  /// Products on their way from the lanes that have summed them to those that finish them: of a
  /// warp's 16 rows two parts, each as many columns of bf16 as rowBytes hold, or half as many of
  /// f32. What has no place there waits in registers, of which an epilogue needs many; room for
  /// more would cost a stage: measured, that is slower.
  static constexpr int partColumns = rowBytes / 2, partBytes = 16 * rowBytes,
                       parts = columns / partColumns, heldParts = 2;
  /// With two barriers of 8 bytes a stage and a part.
  static constexpr int sharedBytes =
      stages * (stageBytes + 16) + warps * heldParts * (partBytes + 16);
  /// Neighbours of a row of which an epilogue's sums are stored.
  static constexpr int sumColumns = 128;
  /// Rows whose sums along columns are stored: a warp's of a tile.
  static constexpr int sumRows = rows / warps;
  static NANO_BOTH constexpr TensorBox aBox(bool transposeA, int elementBytes) {
    return transposeA ? TensorBox{rows, inner(elementBytes)} : TensorBox{inner(elementBytes), rows};
  }
  /// Halves of B: of its columns, or where they are contiguous of its rows, as many columns at a
  /// time as a row in shared memory holds.
  static NANO_BOTH constexpr TensorBox bBox(bool transposeB, int elementBytes) {
    return transposeB ? TensorBox{inner(elementBytes), columns / clusterBlocks}
                      : TensorBox{rowBytes / elementBytes, inner(elementBytes) / clusterBlocks};
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
                          divideUp(shape.columns, Tiles::columns / shape.products);
  const long long most = multiprocessors < 2 ? 1 : multiprocessors / Tiles::clusterBlocks;
  const long long share = divideUp(pairs, most);
  return {Tiles::threads(shape.sums), Tiles::clusterBlocks * divideUp(pairs, share),
          Tiles::sharedBytes};
}

} // namespace nano
