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
  int multiprocessors = 132;            ///< of the GPU: for its speed, not for the results
};

/// On tensor cores: tokens come in groups of 16, whose bands lie in a window of rows of k or v,
/// some steps of 16. A block makes tiles of so many groups one after the other along the tokens of
/// a head. The rows lie in a ring in shared memory, where a tile finds those of its window that the
/// one before had as well, while those that the next one adds are on their way. A window that is
/// too long for that comes in parts, of which each has its rows to itself.
struct BandMatrixPlan {
  int columns; ///< of rows in shared memory, in whole 128 bytes: all of scores, at most 128 of
               ///< products
  int groups, across; ///< of a tile; warps that share a group: its steps of scores, its columns of
                      ///< products
  int warps;
  int window, part;      ///< steps; those in shared memory at a time
  int itemGroups, moves; ///< groups of rows of a tile's part; those from there to the next one's
  int slots;             ///< of groups of rows in shared memory
  int stride; ///< numbers from one line to the next, of weights or of scores on their way
  int firstBytes, turnedBytes; ///< queries or weights; scores on their way
  int sharedBytes;             ///< rows, then those
  int residentBlocks;          ///< of a multiprocessor
  long long tiles;             ///< of a block
};
/// Largest D of scores.
constexpr long long bandMostSize = 256;
/// Shared memory that the blocks of a multiprocessor have, each with 1 KB of the system's.
constexpr int bandSharedBytes = 227 * 1024;
/// Steps of products whose weights are in registers at a time.
constexpr int bandSteps = 12;

/// Tiles of so many groups, with so many steps at a time.
NANO_BOTH constexpr BandMatrixPlan bandMatrixPlan(const BandShape &s, bool isScores, int groups,
                                                  int across, int part) {
  BandMatrixPlan p{};
  const bool isWide = s.rowBytes == 4;
  const int line = 128 / s.rowBytes;
  p.columns = int(divideUp(s.size, line)) * line;
  if (!isScores && p.columns > 128)
    p.columns = 128;
  p.groups = groups;
  p.across = across;
  p.warps = groups * across;
  p.window = int(divideUp(s.width - 1, 16)) + 1;
  p.part = part;
  p.itemGroups = part + groups - 1;
  p.moves = part == p.window ? groups : p.itemGroups;
  p.slots = p.itemGroups + p.moves;
  if (isScores) {
    p.firstBytes = s.rowBytes * 16 * groups * p.columns;
    p.stride = int(divideUp(16 * part, 32)) * 32 + 8;
    p.turnedBytes = 4 * 16 * groups * p.stride;
  } else {
    p.stride = 16 * (s.transpose ? groups : part) + 16 / s.weightBytes;
    p.firstBytes = s.weightBytes * p.stride * 16 * (s.transpose ? p.itemGroups : groups);
  }
  p.sharedBytes = s.rowBytes * 16 * p.slots * p.columns + p.firstBytes + p.turnedBytes;
  // Registers of a thread: of f32 up to 255; of products those of sums and weights, of f32 as two
  // or three numbers.
  const int most = isWide ? 8 : isScores ? 16 : p.columns > 64 || s.weightBytes == 4 ? 8 : 16;
  const int blocks = (bandSharedBytes + 1024) / (p.sharedBytes + 1024),
            ofRegisters = most / p.warps;
  p.residentBlocks = blocks < ofRegisters ? blocks : ofRegisters;
  if (p.residentBlocks > 0) {
    const long long slices = isScores ? 1 : divideUp(s.size, p.columns);
    p.tiles = divideUp(s.heads * slices * divideUp(s.tokens, 16 * groups),
                       (long long)s.multiprocessors * p.residentBlocks);
  }
  return p;
}
/// Of the plans with the fewest parts those with most warps on a multiprocessor, of these those
/// with most blocks, which hide each other's waits, and of these the largest tiles. Blocks have
/// four warps, of f32 up to eight; tiles of one group, and fewer warps, are for where there is no
/// room for others. Products of bf16 are those of a warpgroup.
NANO_BOTH constexpr BandMatrixPlan bandMatrixPlan(const BandShape &s, bool isScores) {
  const int window = int(divideUp(s.width - 1, 16)) + 1;
  const bool isGroup = !isScores && s.rowBytes == 2;
  BandMatrixPlan best{};
  for (int parts = 1; parts <= window && best.residentBlocks == 0; ++parts)
    for (int groups = 4; groups >= (isGroup ? 4 : 1); groups /= 2)
      for (int across = 1; across <= (isGroup ? 1 : 4); across *= 2) {
        const BandMatrixPlan p =
            bandMatrixPlan(s, isScores, groups, across, int(divideUp(window, parts)));
        if ((isScores ? p.part < across : p.columns % (32 * across) != 0) ||
            p.warps > (s.rowBytes == 4 ? 8 : 4) || (groups == 1 && best.groups > 1) ||
            (p.warps < 4 && best.warps >= 4))
          continue;
        const int more = p.residentBlocks * p.warps - best.residentBlocks * best.warps;
        if (more > 0 || (more == 0 && p.residentBlocks > best.residentBlocks))
          best = p;
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
    return {32 * p.warps, s.heads * divideUp(s.tokens, 16 * p.groups * p.tiles), p.sharedBytes};
  }
  const int rows = bandTokens(s.width), keys = rows + bandColumns(s.width);
  return {bandThreads, bandTiles(s, s.width),
          4 * bandDepth * (bandStride(rows) + bandStride(keys))};
}
NANO_BOTH constexpr TemplateLaunch bandProductLaunch(const BandShape &s) {
  if (s.onMatrices) {
    const BandMatrixPlan p = bandMatrixPlan(s, false);
    return {32 * p.warps,
            s.heads * divideUp(s.size, p.columns) * divideUp(s.tokens, 16 * p.groups * p.tiles),
            p.sharedBytes};
  }
  const int rows = bandTokens(s.size);
  return {bandThreads, bandTiles(s, s.size),
          4 * (bandDepth * bandStride(rows) + (rows + bandDepth) * bandColumns(s.size))};
}

} // namespace nano
