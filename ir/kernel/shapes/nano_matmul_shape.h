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
/// columns. `cluster`: blocks of a cluster, two or four.
struct MatmulShape {
  long long rows, columns, inner;
  bool transposeA, transposeB;
  int elementBytes;
  bool sums;
  bool isWide; ///< whether the epilogue gets f32, not bf16
  int products = 1, cluster = 2;
};

/// What one bulk load of an operand brings: so many columns of so many rows of the matrix.
struct TensorBox {
  int columns, rows;
};

/// The blocks of a cluster, two or four, make as many tiles that have their columns in common: each
/// loads its own rows of A and its share of B's part for all. Of two products a tile has half as
/// many columns of each, side by side. Of a block's warpgroups two multiply, one warp of the next
/// one loads, and where an epilogue makes sums, two more do the epilogue: it computes much, which
/// the warps that multiply would have to wait for.
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
  /// A block's share of B: of its columns, or where they are contiguous of its rows, as many
  /// columns at a time as a row in shared memory holds.
  static NANO_BOTH constexpr TensorBox bBox(bool transposeB, int elementBytes,
                                            int cluster = clusterBlocks) {
    return transposeB ? TensorBox{inner(elementBytes), columns / cluster}
                      : TensorBox{rowBytes / elementBytes, inner(elementBytes) / cluster};
  }
};

/// A launch of blocks that stay until all tiles are made.
struct MatmulLaunch {
  int threads;
  long long blocks;
  int sharedBytes; ///< dynamic
};

/// Clusters that the machine has room for at one time, one block a multiprocessor. The blocks of
/// one lie in a group of multiprocessors, of which an H100 has eight, of 16 or 18.
NANO_BOTH constexpr long long matmulClusters(int cluster, long long multiprocessors) {
  constexpr long long group = 16;
  const long long clusters =
      cluster == 2 ? multiprocessors / cluster : multiprocessors / group * (group / cluster);
  return clusters < 1 ? 1 : clusters;
}

/// Places of a cluster's tiles.
NANO_BOTH constexpr long long matmulPlaces(const MatmulShape &shape) {
  using Tiles = MatmulTiles;
  return divideUp(shape.rows, shape.cluster * Tiles::rows) *
         divideUp(shape.columns, Tiles::columns / shape.products);
}

/// Blocks of a cluster that may be faster than two: four, which read a quarter less from the
/// second-level cache, where they have at most 5% more tiles each; else two. What the epilogue
/// reads and writes comes through that cache too.
NANO_BOTH constexpr int matmulCluster(MatmulShape shape, long long multiprocessors) {
  long long shares[2] = {};
  for (int i = 0; i < 2; ++i) {
    shape.cluster = i == 0 ? 2 : 4;
    shares[i] = divideUp(matmulPlaces(shape), matmulClusters(shape.cluster, multiprocessors));
  }
  const bool isLarge = shape.rows >= 4 * MatmulTiles::rows && multiprocessors >= 32;
  return !shape.sums && !shape.isWide && isLarge && 20 * shares[1] <= 21 * shares[0] ? 4 : 2;
}

/// One block a multiprocessor, or fewer when there are fewer tiles. Each cluster makes its share.
NANO_BOTH constexpr MatmulLaunch matmulLaunch(const MatmulShape &shape, long long multiprocessors) {
  using Tiles = MatmulTiles;
  const long long places = matmulPlaces(shape),
                  share = divideUp(places, matmulClusters(shape.cluster, multiprocessors));
  return {Tiles::threads(shape.sums), shape.cluster * divideUp(places, share), Tiles::sharedBytes};
}

} // namespace nano
