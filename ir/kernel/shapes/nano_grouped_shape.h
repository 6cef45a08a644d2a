// How the templates of grouped products cut their work into thread blocks and what their tensor
// maps describe. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_matmul_shape.h"

namespace nano {

/// `rows` rows in `groups` groups, whose ends only a run knows. A product of rows of `inner`
/// numbers with a matrix of each group gives them `columns`; sums of outer products are of rows of
/// `inner` and of `columns` numbers.
struct GroupedShape {
  long long rows, groups, columns, inner;
};

/// Tiles of multiply-adds: results of a block, four rows and four columns of a thread, and how much
/// of what is summed over lies in shared memory at a time.
struct GroupedTiles {
  static constexpr int side = 64, threads = side * side / 16, depth = 16;
  /// Elements of a row in shared memory.
  static constexpr int stride = side + 4;
  static constexpr int sharedBytes = 4 * 2 * depth * stride;
};

/// Tiles of `side` rows that the groups, and the rows behind them, have at most, wherever these
/// end: of each the last one may hold few.
NANO_BOTH constexpr long long groupedRowTiles(const GroupedShape &s, long long side) {
  return s.rows / side + (s.groups < s.rows ? s.groups + 1 : s.rows);
}

/// On tensor cores, by the tiles of nano_matmul_shape.h: a cluster makes pairs of tiles one below
/// the other, each of one group. Rows of 16 bytes and their multiples; a product's matrices that do
/// not lie transposed have whole stages of rows, for what lies behind one is the next one's.
NANO_BOTH constexpr bool isGroupedMatmulShape(const GroupedShape &s, bool transpose) {
  return s.inner % (transpose ? 8 : MatmulTiles::inner(2)) == 0 && s.columns % 8 == 0;
}
NANO_BOTH constexpr bool isGroupedOuterShape(const GroupedShape &s) {
  return s.inner % 8 == 0 && s.columns % 8 == 0;
}
/// One block a multiprocessor, or fewer where there are fewer tiles; clusters take turns.
NANO_BOTH constexpr MatmulLaunch groupedLaunch(long long pairs, long long multiprocessors) {
  using Tiles = MatmulTiles;
  const long long most = multiprocessors < 2 ? 1 : multiprocessors / Tiles::clusterBlocks;
  return {Tiles::threads(/*sums=*/false), Tiles::clusterBlocks * (pairs < most ? pairs : most),
          Tiles::sharedBytes};
}
NANO_BOTH constexpr MatmulLaunch groupedMatmulLaunch(const GroupedShape &s,
                                                     long long multiprocessors) {
  using Tiles = MatmulTiles;
  return groupedLaunch(groupedRowTiles(s, Tiles::clusterBlocks * Tiles::rows) *
                           divideUp(s.columns, Tiles::columns),
                       multiprocessors);
}
NANO_BOTH constexpr MatmulLaunch groupedOuterLaunch(const GroupedShape &s,
                                                    long long multiprocessors) {
  using Tiles = MatmulTiles;
  return groupedLaunch(s.groups * divideUp(s.inner, Tiles::clusterBlocks * Tiles::rows) *
                           divideUp(s.columns, Tiles::columns),
                       multiprocessors);
}
/// What one load brings of the rows whose outer products are summed: as a factor's columns, a
/// warpgroup's at a time, and as the other factor's, half of a stage for both blocks of a cluster.
struct GroupedOuterTiles {
  static constexpr int inner = MatmulTiles::inner(2);
  static NANO_BOTH constexpr TensorBox aBox() { return {MatmulTiles::rows / 2, inner}; }
  static NANO_BOTH constexpr TensorBox bBox() { return MatmulTiles::bBox(false, 2); }
};

/// By multiply-adds, a tile an iteration.
NANO_BOTH constexpr TemplateLaunch plainGroupedMatmulLaunch(const GroupedShape &s) {
  using Tiles = GroupedTiles;
  return {Tiles::threads, groupedRowTiles(s, Tiles::side) * divideUp(s.columns, Tiles::side),
          Tiles::sharedBytes};
}
NANO_BOTH constexpr TemplateLaunch plainGroupedOuterLaunch(const GroupedShape &s) {
  using Tiles = GroupedTiles;
  return {Tiles::threads,
          s.groups * divideUp(s.inner, Tiles::side) * divideUp(s.columns, Tiles::side),
          Tiles::sharedBytes};
}

} // namespace nano
