// How the templates of products along a band cut their work into thread blocks. Plain constant
// expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct BandShape {
  long long tokens, heads, size, width; ///< T, H, D, W
  bool onMatrices;                      ///< on tensor cores: see BandMatrixPlan
  int weightBytes = 4;                  ///< of a weight of products
  bool transpose = false;               ///< of products
  int rowBytes = 2;                     ///< of an element of k or v: 2 or 4
};

/// On tensor cores: a warp has 16 tokens, whose bands lie in a window of rows of k or v, some steps
/// of 16. Windows of neighbouring warps begin 16 rows apart, so that a block has little more in
/// shared memory than one of them; a window that is too long for that comes in parts.
struct BandMatrixPlan {
  int columns; ///< of rows in shared memory, in whole 128 bytes: all of scores, at most 128 of
               ///< products
  int warps;
  int window, part; ///< steps; those in shared memory at a time
  int weightStride; ///< numbers from one token of a warp's weights to the next, or from one row
  int warpBytes;    ///< of a warp's own: its queries (of f32 in registers) or weights, then results
                    ///< on their way (of f32 those of scores)
  int rows;         ///< in shared memory
  int sharedBytes;  ///< rows, then what the warps have
  int residentBlocks; ///< of a multiprocessor
};
/// Largest D of scores.
constexpr long long bandMostSize = 256;
/// Scores of a warp on their way: 64 of each of 16 tokens, 8 more than a multiple of 32 apart.
constexpr int bandRing = 64, bandRingStride = bandRing + 8, bandRingBytes = 4 * 16 * bandRingStride;
/// Results of a warp on their way from fragments to whole rows: 16 rows of 32, 8 more than a
/// multiple of 32 apart.
constexpr int bandTurnedColumns = 32, bandTurnedStride = bandTurnedColumns + 8,
              bandTurnedBytes = 4 * 16 * bandTurnedStride;
/// Shared memory that the blocks of a multiprocessor have, each with 1 KB of the system's.
constexpr int bandSharedBytes = 227 * 1024;

/// With so many warps and steps at a time.
NANO_BOTH constexpr BandMatrixPlan bandMatrixPlan(const BandShape &s, bool isScores, int warps,
                                                  int part) {
  BandMatrixPlan p{};
  const bool isWide = s.rowBytes == 4;
  const int line = 128 / s.rowBytes;
  p.columns = int(divideUp(s.size, line)) * line;
  if (!isScores && p.columns > 128)
    p.columns = 128;
  p.warps = warps;
  p.window = int(divideUp(s.width - 1, 16)) + 1;
  p.part = part;
  p.rows = 16 * (part + warps - 1);
  if (isScores) {
    p.warpBytes = isWide ? 0 : 16 * p.columns * 2;
    p.warpBytes = p.warpBytes > bandRingBytes ? p.warpBytes : bandRingBytes;
  } else {
    p.weightStride = (s.transpose ? 16 : 16 * part) + 16 / s.weightBytes;
    p.warpBytes = s.weightBytes * p.weightStride * (s.transpose ? 16 * part : 16);
    if (!isWide && p.warpBytes < bandTurnedBytes)
      p.warpBytes = bandTurnedBytes;
  }
  p.sharedBytes = s.rowBytes * p.rows * p.columns + warps * p.warpBytes;
  // A thread of f32 has 168 registers, or with more than 128 elements of a query 255.
  const int most = !isWide ? 16 : isScores && p.columns > 128 ? 8 : 12;
  const int blocks = (bandSharedBytes + 1024) / (p.sharedBytes + 1024), ofRegisters = most / warps;
  p.residentBlocks = blocks < ofRegisters ? blocks : ofRegisters;
  return p;
}
/// Most warps at a time, of such plans the fewest parts, and of such the largest blocks of which
/// there are two, so that one computes while another copies. Blocks have four warps or eight: one
/// or two for each of a multiprocessor's schedulers, of which a block of six keeps two half idle.
/// Parts of less than four steps, whose blocks would read most rows several times, are only for
/// windows that shared memory has no room for otherwise.
NANO_BOTH constexpr BandMatrixPlan bandMatrixPlan(const BandShape &s, bool isScores) {
  const int window = int(divideUp(s.width - 1, 16)) + 1;
  BandMatrixPlan best{};
  for (int parts = 1; parts <= window; ++parts) {
    const int part = int(divideUp(window, parts));
    if (part < 4 && best.residentBlocks >= 2)
      break;
    for (int warps = 4; warps <= 8; warps += 4) {
      const BandMatrixPlan p = bandMatrixPlan(s, isScores, warps, part);
      const int more = p.residentBlocks * warps - best.residentBlocks * best.warps;
      const bool areTwo = p.residentBlocks >= 2 && (best.residentBlocks < 2 || part == best.part);
      if (p.residentBlocks > 0 && (best.residentBlocks == 0 || more > 0 || (more == 0 && areTwo)))
        best = p;
    }
  }
  return best;
}

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
  if (s.onMatrices) {
    const BandMatrixPlan p = bandMatrixPlan(s, true);
    return {32 * p.warps, s.heads * divideUp(s.tokens, 16 * p.warps), p.sharedBytes};
  }
  const int rows = bandTokens(s.width), keys = rows + bandColumns(s.width);
  return {bandThreads, bandTiles(s, s.width),
          4 * bandDepth * (bandStride(rows) + bandStride(keys))};
}
NANO_BOTH constexpr TemplateLaunch bandProductLaunch(const BandShape &s) {
  if (s.onMatrices) {
    const BandMatrixPlan p = bandMatrixPlan(s, false);
    return {32 * p.warps, s.heads * divideUp(s.size, p.columns) * divideUp(s.tokens, 16 * p.warps),
            p.sharedBytes};
  }
  const int rows = bandTokens(s.size);
  return {bandThreads, bandTiles(s, s.size),
          4 * (bandDepth * bandStride(rows) + (rows + bandDepth) * bandColumns(s.size))};
}

} // namespace nano
