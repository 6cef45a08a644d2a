// How the templates of products along a band cut their work into thread blocks. Plain constant
// expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct BandShape {
  long long tokens, heads, size, width; ///< T, H, D, W
};

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
  const int rows = bandTokens(s.width), keys = rows + bandColumns(s.width);
  return {bandThreads, bandTiles(s, s.width),
          4 * bandDepth * (bandStride(rows) + bandStride(keys))};
}
NANO_BOTH constexpr TemplateLaunch bandProductLaunch(const BandShape &s) {
  const int rows = bandTokens(s.size);
  return {bandThreads, bandTiles(s, s.size),
          4 * (bandDepth * bandStride(rows) + (rows + bandDepth) * bandColumns(s.size))};
}

} // namespace nano
