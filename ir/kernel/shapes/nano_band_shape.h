// How the templates of products along a band cut their work into thread blocks. Plain constant
// expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct BandShape {
  long long tokens, heads, size, width; ///< T, H, D, W
  bool onMatrices;                      ///< on tensor cores: see bandMatrixSize
};

/// On tensor cores: tokens of a block, 16 a warp, rows of k or v that are in shared memory at a
/// time, and elements from one row of results on their way to the next.
constexpr int bandMatrixTokens = 128, bandMatrixThreads = 2 * bandMatrixTokens, bandMatrixRows = 64,
              bandTurnedStride = 72, bandMatrixResidentBlocks = 2;
/// D of scores as tiles have it; at most 256.
constexpr long long bandMostSize = 256;
NANO_BOTH constexpr int bandMatrixSize(long long size) { return int(divideUp(size, 64)) * 64; }
/// Columns of products that a block has.
constexpr int bandMatrixColumns = 64;
constexpr int bandTurnedBytes = 4 * bandMatrixTokens * bandTurnedStride;

/// A block's tile of results has so many, 4×4 of them a thread's.
constexpr int bandThreads = 256, bandTile = 16 * bandThreads;
/// Elements of the summed dimension that are in shared memory at a time.
constexpr int bandDepth = 16;

/// Of a tile, along the last dimension of the result: 16 to 128.
NANO_BOTH constexpr int bandColumns(long long columns) {
  int tile = 16;
  while (tile < 128 && tile < columns)
    tile *= 2;
  return tile;
}
NANO_BOTH constexpr int bandTokens(long long columns) { return bandTile / bandColumns(columns); }
/// Numbers from one row of shared memory to the next: 4 more than a multiple of 32.
NANO_BOTH constexpr int bandStride(int numbers) { return (numbers + 31) / 32 * 32 + 4; }

/// `columns`: of the result, W of scores and D of products.
NANO_BOTH constexpr long long bandTiles(const BandShape &s, long long columns) {
  return s.heads * divideUp(s.tokens, bandTokens(columns)) *
         divideUp(columns, bandColumns(columns));
}
NANO_BOTH constexpr TemplateLaunch bandScoresLaunch(const BandShape &s) {
  if (s.onMatrices)
    return {bandMatrixThreads, s.heads * divideUp(s.tokens, bandMatrixTokens),
            2 * bandMatrixSize(s.size) * (bandMatrixTokens + 2 * bandMatrixRows) + bandTurnedBytes};
  const int rows = bandTokens(s.width), keys = rows + bandColumns(s.width);
  return {bandThreads, bandTiles(s, s.width),
          4 * bandDepth * (bandStride(rows) + bandStride(keys))};
}
NANO_BOTH constexpr TemplateLaunch bandProductLaunch(const BandShape &s) {
  if (s.onMatrices) {
    constexpr int columns = bandMatrixColumns, rowBytes = 2 * 2 * bandMatrixRows * columns;
    return {bandMatrixThreads,
            s.heads * divideUp(s.size, columns) * divideUp(s.tokens, bandMatrixTokens),
            rowBytes > bandTurnedBytes ? rowBytes : bandTurnedBytes};
  }
  const int rows = bandTokens(s.size);
  return {bandThreads, bandTiles(s, s.size),
          4 * (bandDepth * bandStride(rows) + (rows + bandDepth) * bandColumns(s.size))};
}

} // namespace nano
