// How the template of symmetric products cuts its work into thread blocks and what its tensor maps
// describe. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_matmul_shape.h"

namespace nano {

/// C = alpha · op(X) · op(X)ᵀ + beta · D for each of `matrices` matrices of bf16, which lie one
/// behind the other: X is [size, inner], or `transpose`d [inner, size] with op(X) = Xᵀ; C and D,
/// which is symmetric, are [size, size].
struct SymmetricShape {
  long long matrices, size, inner;
  bool transpose;
};

/// The tiles of nano_matmul_shape.h: a cluster makes a square of them, on or below the diagonal.
/// The results are stored by blocks of `block` rows and columns, also mirrored.
struct SymmetricTiles {
  using Tiles = MatmulTiles;
  static constexpr int side = Tiles::columns, block = Tiles::partColumns, elementBytes = 2;
  static_assert(side == Tiles::clusterBlocks * Tiles::rows);
  static constexpr int inner = Tiles::inner(elementBytes);
  /// Of X as the rows of the product; where it is transposed, a warpgroup's rows at a time.
  static NANO_BOTH constexpr TensorBox rowsBox(bool transpose) {
    return transpose ? TensorBox{block, inner} : TensorBox{inner, Tiles::rows};
  }
  /// Of X as its columns.
  static NANO_BOTH constexpr TensorBox columnsBox(bool transpose) {
    return Tiles::bBox(!transpose, elementBytes);
  }
};

/// Squares of a matrix of `size` rows and columns, and those of them that are computed.
NANO_BOTH constexpr long long symmetricSides(long long size) {
  return divideUp(size, SymmetricTiles::side);
}
NANO_BOTH constexpr long long symmetricSquares(long long size) {
  return symmetricSides(size) * (symmetricSides(size) + 1) / 2;
}

/// What the template needs: rows of 16 bytes and their multiples, and where matrices lie one behind
/// the other along the summed dimension, whole stages of each.
NANO_BOTH constexpr bool isSymmetricShape(const SymmetricShape &shape) {
  return shape.size % 8 == 0 && shape.inner % 8 == 0 &&
         (!shape.transpose || shape.matrices == 1 || shape.inner % SymmetricTiles::inner == 0);
}

/// As matmulLaunch.
NANO_BOTH constexpr MatmulLaunch symmetricLaunch(const SymmetricShape &shape,
                                                 long long multiprocessors) {
  using Tiles = MatmulTiles;
  const long long squares = shape.matrices * symmetricSquares(shape.size);
  const long long most = multiprocessors < 2 ? 1 : multiprocessors / Tiles::clusterBlocks;
  const long long share = divideUp(squares, most);
  return {Tiles::threads(/*sums=*/false), Tiles::clusterBlocks * divideUp(squares, share),
          Tiles::sharedBytes};
}

} // namespace nano
