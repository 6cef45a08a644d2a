// How the templates of products along a band cut their work into thread blocks. Plain constant
// expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct BandShape {
  long long tokens, heads, size, width; ///< T, H, D, W
  bool onMatrices;     ///< on tensor cores: see BandMatrixPlan, or BandSlicesPlan and BandRowsPlan
  int weightBytes = 4; ///< of a weight of products
  bool transpose = false;    ///< of products
  int rowBytes = 2;          ///< of an element of k or v: 2 or 4
  int multiprocessors = 132; ///< of the GPU: for its speed, not for the results
};

/// On tensor cores, of rows of bf16: tokens come in groups of 16, whose bands lie in a window of
/// rows of k or v, some steps of 16. A block makes tiles of so many groups one after the other
/// along the tokens of a head. The rows lie in a ring in shared memory, where a tile finds those of
/// its window that the one before had as well, while those that the next one adds are on their way.
/// A window that is too long for that comes in parts, of which each has its rows to itself.
struct BandMatrixPlan {
  int columns; ///< of rows in shared memory, in whole 128 bytes: all of scores, at most 128 of
               ///< products
  int taken;   ///< of products: those that are multiplied, a multiple of 32
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

/// Blocks that share the tiles of a line, which are a head's, or those of its columns that a block
/// has: so many that all blocks together take least time on a GPU with room for `room` of them at a
/// time, in as few rounds as that takes, and as many as these have room for.
NANO_BOTH constexpr long long bandBlocks(long long lines, long long tiles, long long room) {
  long long best = 1, shortest = 0, fewest = 0;
  for (long long blocks = 1; blocks <= tiles && lines * (blocks - 1) < 2 * room; ++blocks) {
    const long long rounds = divideUp(lines * blocks, room),
                    time = rounds * divideUp(tiles, blocks);
    if (shortest == 0 || time < shortest || (time == shortest && rounds == fewest)) {
      shortest = time;
      fewest = rounds;
      best = blocks;
    }
  }
  return best;
}
/// The first tile of a line's block; these differ by one tile at most. (In 64 bits it would
/// cost registers.)
NANO_BOTH constexpr int bandFirstTile(long long block, long long blocks, long long tiles) {
  return int(block) * int(tiles) / int(blocks);
}

/// Shared memory that the blocks of a multiprocessor have, each with 1 KB of the system's.
constexpr int bandSharedBytes = 227 * 1024;
/// Steps of products whose weights are in registers at a time.
constexpr int bandSteps = 12;

/// Tiles of so many groups, with so many steps at a time.
NANO_BOTH constexpr BandMatrixPlan bandMatrixPlan(const BandShape &s, bool isScores, int groups,
                                                  int across, int part) {
  BandMatrixPlan p{};
  constexpr int rowBytes = 2, line = 128 / rowBytes;
  p.columns = int(divideUp(s.size, line)) * line;
  p.taken = int(divideUp(s.size, 32)) * 32;
  if (!isScores && p.columns > 128)
    p.columns = p.taken = 128;
  p.groups = groups;
  p.across = across;
  p.warps = groups * across;
  p.window = int(divideUp(s.width - 1, 16)) + 1;
  p.part = part;
  p.itemGroups = part + groups - 1;
  p.moves = part == p.window ? groups : p.itemGroups;
  p.slots = p.itemGroups + p.moves;
  if (isScores) {
    p.firstBytes = rowBytes * 16 * groups * p.columns;
    p.stride = int(divideUp(16 * part, 32)) * 32 + 8;
    p.turnedBytes = 4 * 16 * groups * p.stride;
  } else {
    p.stride = 16 * (s.transpose ? groups : part) + 16 / s.weightBytes;
    p.firstBytes = s.weightBytes * p.stride * 16 * (s.transpose ? p.itemGroups : groups);
  }
  p.sharedBytes = rowBytes * 16 * p.slots * p.columns + p.firstBytes + p.turnedBytes;
  // Registers of a thread: of products those of sums and weights, of f32 as three words.
  const int steps = p.itemGroups < bandSteps ? p.itemGroups : bandSteps,
            registers = p.taken / 2 + 4 * (s.weightBytes == 4 ? 3 : 1) * steps + 26,
            most = isScores || registers <= 128 ? 16
                   : registers <= 168           ? 12
                                                : 8;
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
/// four warps; tiles of one group, and fewer warps, are for where there is no room for others.
/// Products are those of a warpgroup.
NANO_BOTH constexpr BandMatrixPlan bandMatrixPlan(const BandShape &s, bool isScores) {
  const int window = int(divideUp(s.width - 1, 16)) + 1;
  BandMatrixPlan best{};
  for (int parts = 1; parts <= window && best.residentBlocks == 0; ++parts)
    for (int groups = 4; groups >= (isScores ? 1 : 4); groups /= 2)
      for (int across = 1; across <= (isScores ? 4 : 1); across *= 2) {
        const BandMatrixPlan p =
            bandMatrixPlan(s, isScores, groups, across, int(divideUp(window, parts)));
        if (p.part < across || p.warps > 4 || (groups == 1 && best.groups > 1) ||
            (p.warps < 4 && best.warps == 4))
          continue;
        const int more = p.residentBlocks * p.warps - best.residentBlocks * best.warps;
        if (more > 0 || (more == 0 && p.residentBlocks > best.residentBlocks))
          best = p;
      }
  return best;
}

/// Scores of f32 rows on tensor cores: each of a block's warps has 32 tokens, in two halves of 16,
/// and holds their scores with all the keys of a part of the band. Queries and keys pass through
/// shared memory by slices of their columns, the next one on its way meanwhile; a block makes tiles
/// of its tokens one after the other along the tokens of a head.
struct BandSlicesPlan {
  int parts, width;            ///< of the band; its numbers in a part
  int tiles;                   ///< of eight keys, of a half
  int keys;                    ///< rows of keys of a block
  int stageBytes;              ///< a slice's keys, then its queries
  int stride;                  ///< numbers from a token's scores on their way out to the next one's
  int sharedBytes;             ///< two slices'
  int residentBlocks;          ///< of a multiprocessor
  long long lineTiles, blocks; ///< of a line: see bandBlocks
};
constexpr int bandSliceWarps = 4, bandSliceTokens = 32 * bandSliceWarps, bandSliceColumns = 32;
/// Most numbers of a part: the sums of its 16 tiles are half of a thread's registers.
constexpr int bandSliceWidth = 112;

NANO_BOTH constexpr BandSlicesPlan bandSlicesPlan(const BandShape &s) {
  BandSlicesPlan p{};
  p.parts = int(divideUp(s.width, bandSliceWidth));
  p.width = 4 * int(divideUp(s.width, 4 * p.parts));
  p.tiles = int(divideUp(p.width + 15, 8));
  p.keys = bandSliceTokens - 16 + 8 * p.tiles;
  p.stageBytes = 4 * bandSliceColumns * (p.keys + bandSliceTokens);
  p.stride = 8 * p.tiles + 20;
  p.sharedBytes = 2 * p.stageBytes;
  // Of few keys a thread has registers for a third block.
  p.residentBlocks = p.tiles <= 7 && 3 * (p.sharedBytes + 1024) <= bandSharedBytes + 1024 ? 3 : 2;
  p.lineTiles = divideUp(s.tokens, bandSliceTokens);
  p.blocks =
      bandBlocks(s.heads * p.parts, p.lineTiles, (long long)s.multiprocessors * p.residentBlocks);
  return p;
}

/// Products of f32 rows on tensor cores: each of a block's warps has 32 tokens, in two halves of
/// 16, and goes over the rows of its own window in groups of 16. These lie in a ring in shared
/// memory, where the warps of later tokens have left those that earlier ones come to; the next
/// step's rows and weights are on their way meanwhile. A block makes tiles of its tokens one after
/// the other where the ring has room for the rows of the end of one and of the begin of the next.
struct BandRowsPlan {
  int columns, slices;        ///< of a block, in multiples of 32; blocks side by side
  int groups;                 ///< of rows, of a half: a tile has one step more
  int slots;                  ///< of groups, in the ring
  int lines, stride;          ///< of a warp's weights of a step; from one line to the next
  int ringBytes, weightBytes; ///< the weights of a step
  int sharedBytes;            ///< the ring, then two steps' weights
  int residentBlocks;         ///< of a multiprocessor
  long long blockTiles;
};
constexpr int bandRowWarps = 4, bandRowTokens = 32 * bandRowWarps;
/// Groups of rows that a block's warps read in a step, from that of the first on.
constexpr int bandRowGroups = 2 * bandRowWarps - 1;

NANO_BOTH constexpr BandRowsPlan bandRowsPlan(const BandShape &s) {
  BandRowsPlan p{};
  const int chunks = int(divideUp(s.size, 32)), tokenGroups = bandRowTokens / 16;
  p.slices = int(divideUp(chunks, 4));
  p.columns = 32 * int(divideUp(chunks, p.slices));
  p.groups = int(divideUp(s.width + 15, 16));
  p.lines = s.transpose ? 16 : 32;
  p.stride = (s.transpose ? 32 : 16) + 16 / s.weightBytes;
  p.weightBytes = bandRowWarps * p.lines * p.stride * s.weightBytes;
  const int moves = p.groups < tokenGroups ? tokenGroups - p.groups : p.groups - tokenGroups,
            slots = bandRowGroups + (moves > 1 ? moves : 1);
  // Of few columns a thread has registers for a third block.
  p.residentBlocks =
      p.columns <= 64 &&
              3 * (4 * 16 * slots * p.columns + 2 * p.weightBytes + 1024) <= bandSharedBytes + 1024
          ? 3
          : 2;
  p.blockTiles = divideUp(s.heads * p.slices * divideUp(s.tokens, bandRowTokens),
                          (long long)s.multiprocessors * p.residentBlocks);
  for (p.slots = slots;; p.slots = bandRowGroups + 1) {
    p.ringBytes = 4 * 16 * p.slots * p.columns;
    p.sharedBytes = p.ringBytes + 2 * p.weightBytes;
    if (p.residentBlocks * (p.sharedBytes + 1024) <= bandSharedBytes + 1024)
      return p;
    p.blockTiles = 1;
  }
}

/// Of f32 rows on tensor cores by warpgroups, where there is room for it: a ring of rows in shared
/// memory, each as three of bf16, and two warpgroups whose tiles of 64 tokens follow one another
/// along the tokens of a head. The ring has what two tiles that follow each other need.
struct BandPlanesPlan {
  int columns;       ///< of a row in shared memory, in whole 128 bytes
  int taken, slices; ///< of products: columns of a block, multiples of 32; blocks side by side
  int steps;         ///< of 16 rows, of a tile's window
  int batch;         ///< of products: steps whose weights' lower terms are in registers at a time
  int rows;          ///< of the ring, a multiple of 64
  int planeBytes;    ///< of the ring of one of the three
  int stride;        ///< of scores on their way out: numbers from a token's to the next one's
  int sharedBytes;   ///< the rings, then eight tokens' scores of each warp
  int registers;     ///< of a thread that multiplies
  bool isThere;      ///< whether it fits
  long long blockTiles;
};
constexpr int bandPlanes = 3, bandPlaneThreads = 384, bandPlaneTokens = 64;
/// Of three warpgroups, of which two multiply, each thread's as the launch has them.
constexpr int bandPlaneRegisters = 168;
/// Most sums and words of weights or queries of a thread that multiplies.
constexpr int bandPlaneNumbers = 196;

NANO_BOTH constexpr BandPlanesPlan bandPlanesPlan(const BandShape &s, bool isScores) {
  BandPlanesPlan p{};
  const int chunks = int(divideUp(s.size, 32));
  p.slices = isScores ? 1 : int(divideUp(chunks, 4));
  p.taken = 32 * int(divideUp(chunks, p.slices));
  p.columns = 64 * int(divideUp(p.taken, 64));
  p.steps = bandPlaneTokens / 16 + int(divideUp(s.width - 1, 16));
  p.rows = 64 * int(divideUp(16 * p.steps + bandPlaneTokens, 64));
  p.planeBytes = 2 * p.rows * p.columns;
  p.stride = 4 * int(divideUp(s.width, 4)) + 4;
  p.sharedBytes = bandPlanes * p.planeBytes + (isScores ? 4 * 64 * p.stride : 0);
  // A thread has sums in registers and, as words of two bf16, its queries, or the highest terms of
  // all of its weights and the others of a batch of them.
  const long long sums = isScores ? 8 * p.steps : p.taken / 2;
  const int lowTerms = s.weightBytes == 4 ? bandPlanes - 1 : 0;
  long long words = bandPlanes * 4 * divideUp(s.size, 16);
  p.batch = p.steps;
  for (int batches = 1; !isScores; ++batches) {
    p.batch = int(divideUp(p.steps, batches));
    words = 4 * p.steps + 4 * lowTerms * p.batch;
    if (sums + words <= bandPlaneNumbers || p.batch == 1)
      break;
  }
  p.registers = int(divideUp(sums + words + 28, 8)) * 8;
  if (p.registers < bandPlaneRegisters)
    p.registers = bandPlaneRegisters;
  p.isThere = p.sharedBytes <= bandSharedBytes && sums + words <= bandPlaneNumbers;
  p.blockTiles = divideUp(s.heads * p.slices * divideUp(s.tokens, bandPlaneTokens),
                          (long long)s.multiprocessors);
  return p;
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

/// Shorter bands have so few operations for each number that is read that warps, which read it when
/// they need it, take less time.
constexpr int bandPlanesWidth = 96;
NANO_BOTH constexpr bool hasBandPlanes(const BandShape &s, bool isScores) {
  return s.onMatrices && s.rowBytes == 4 && s.width >= bandPlanesWidth &&
         bandPlanesPlan(s, isScores).isThere;
}
NANO_BOTH constexpr TemplateLaunch bandPlanesLaunch(const BandShape &s, bool isScores) {
  const BandPlanesPlan p = bandPlanesPlan(s, isScores);
  return {bandPlaneThreads, s.heads * p.slices * divideUp(s.tokens, bandPlaneTokens * p.blockTiles),
          p.sharedBytes};
}

/// `columns`: of the result, W of scores and D of products.
NANO_BOTH constexpr long long bandTiles(const BandShape &s, long long columns) {
  return s.heads * divideUp(s.tokens, bandTokens(columns)) *
         divideUp(columns, bandColumns(columns));
}
NANO_BOTH constexpr TemplateLaunch bandScoresLaunch(const BandShape &s) {
  if (hasBandPlanes(s, true))
    return bandPlanesLaunch(s, true);
  if (s.onMatrices && s.rowBytes == 4) {
    const BandSlicesPlan p = bandSlicesPlan(s);
    return {32 * bandSliceWarps, s.heads * p.parts * p.blocks, p.sharedBytes};
  }
  if (s.onMatrices) {
    const BandMatrixPlan p = bandMatrixPlan(s, true);
    return {32 * p.warps, s.heads * divideUp(s.tokens, 16 * p.groups * p.tiles), p.sharedBytes};
  }
  const int rows = bandTokens(s.width), keys = rows + bandColumns(s.width);
  return {bandThreads, bandTiles(s, s.width),
          4 * bandDepth * (bandStride(rows) + bandStride(keys))};
}
NANO_BOTH constexpr TemplateLaunch bandProductLaunch(const BandShape &s) {
  if (hasBandPlanes(s, false))
    return bandPlanesLaunch(s, false);
  if (s.onMatrices && s.rowBytes == 4) {
    const BandRowsPlan p = bandRowsPlan(s);
    return {32 * bandRowWarps,
            s.heads * p.slices * divideUp(s.tokens, bandRowTokens * p.blockTiles), p.sharedBytes};
  }
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

/// Products of bf16 that tensor cores take for one of the op's: of f32 rows those of forPairs, of
/// f32 weights for bf16 rows what Terms says.
NANO_BOTH constexpr int bandProductsOfOne(const BandShape &s, int resultBytes) {
  return s.rowBytes == 4      ? (s.weightBytes == 4 ? 6 : 3)
         : s.weightBytes == 2 ? 1
         : resultBytes == 4   ? 3
                              : 2;
}

/// Blocks of a multiprocessor that registers are for, on tensor cores.
NANO_BOTH constexpr int bandResidentBlocks(const BandShape &s, bool isScores) {
  return hasBandPlanes(s, isScores) ? 1
         : s.rowBytes == 2          ? bandMatrixPlan(s, isScores).residentBlocks
         : isScores                 ? bandSlicesPlan(s).residentBlocks
                                    : bandRowsPlan(s).residentBlocks;
}

} // namespace nano
