// How the scatter template cuts its work into thread blocks, and the scratch buffer that its two
// launches share. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct ScatterShape {
  long long tokens, rows, columns; ///< T, V, D
};

constexpr int scatterSortThreads = 1024, scatterSumThreads = 256;
/// Blocks of the sum that a multiprocessor has at a time: their loads hide each other's latency, as
/// far as there are registers for what they bring.
NANO_BOTH constexpr int scatterSumBlocks(long long elementBytes, long long resultBytes) {
  return resultBytes > elementBytes ? 3 : elementBytes > 2 ? 4 : 5;
}
/// Tokens whose elements a warp reads at a time: as many as there are registers for.
NANO_BOTH constexpr int scatterSumAhead(long long elementBytes) { return elementBytes > 2 ? 3 : 6; }
/// Rows of more tokens are summed by whole blocks, others by warps.
constexpr int scatterManyTokens = 32;
/// A block that sums by warps has the rows that begin within so many sorted positions, as many rows
/// of the table among which those without tokens become zero, and this many columns.
constexpr int scatterRows = 32, scatterColumns = 256;
/// A block that sums rows of many tokens has those that begin within some sorted positions, and
/// this many columns.
constexpr int scatterManyColumns = 128;
/// So many of these times scatterManyTokens: where few rows can have as many tokens, most blocks
/// end as soon as they have looked for one, and fewer blocks look.
NANO_BOTH constexpr int scatterManyParts(const ScatterShape &s) {
  return 8 * s.rows < s.tokens ? 8 : 32;
}
NANO_BOTH constexpr int scatterPositions(const ScatterShape &s) {
  return scatterManyTokens * scatterManyParts(s);
}

/// Lanes that share these, eight columns each: of rows with fewer columns fewer lanes, so that none
/// is idle, and more tokens are read at a time.
NANO_BOTH constexpr int scatterManyLanes(long long columns) {
  int lanes = scatterManyColumns / 8;
  while (lanes > 1 && columns <= 4 * lanes)
    lanes /= 2;
  return lanes;
}

/// Row r of the table is of class r mod so many, a power of two: a block of the sort has the tokens
/// of a class, so that it has its share of those of common ids too, which often are neighbours.
/// Every block reads all ids: there are no more classes than have 128 tokens each.
NANO_BOTH constexpr int scatterClasses(long long tokens, long long rows) {
  int classes = 128;
  while (classes > 1 && (classes / 2 >= rows || classes / 2 * 128 >= tokens))
    classes /= 2;
  while (divideUp(rows, classes) > scatterSortThreads)
    classes *= 2;
  return classes;
}
/// Rows of a class; the last ones of some classes may not be there.
NANO_BOTH constexpr int scatterClassRows(long long tokens, long long rows) {
  return int(divideUp(rows, scatterClasses(tokens, rows)));
}
/// Pairs of a class's rows, whose counters are two halves of a word.
NANO_BOTH constexpr int scatterClassPairs(long long tokens, long long rows) {
  return int(divideUp(scatterClassRows(tokens, rows), 2));
}
/// What is sorted by: the rows of a class are side by side, in order.
NANO_BOTH constexpr int scatterPlaceOf(int row, long long tokens, long long rows) {
  const int classes = scatterClasses(tokens, rows);
  return row % classes * scatterClassRows(tokens, rows) + row / classes;
}
NANO_BOTH constexpr int scatterRowAt(int place, long long tokens, long long rows) {
  const int classRows = scatterClassRows(tokens, rows);
  return place % classRows * scatterClasses(tokens, rows) + place / classRows;
}
NANO_BOTH constexpr long long scatterPlaces(long long tokens, long long rows) {
  return (long long)scatterClasses(tokens, rows) * scatterClassRows(tokens, rows);
}
/// Tokens that a thread of the sort looks at before it places any, of which it notes the numbers
/// among its warp's in 16 bits.
NANO_BOTH constexpr int scatterSortTokens(long long tokens) {
  const long long all = divideUp(tokens, scatterSortThreads);
  return int(all < 64 ? all : 64);
}
/// What a block of the sort has in shared memory, in bytes from its begin: the tokens of its class,
/// counts by warp and row, numbers by row and by warp.
struct ScatterSortMemory {
  int counts, starts, totals, bytes;
};
NANO_BOTH constexpr ScatterSortMemory scatterSortMemory(const ScatterShape &s) {
  ScatterSortMemory m{};
  m.counts = 2 * scatterSortThreads * scatterSortTokens(s.tokens);
  m.starts = m.counts + int(divideUp(4 * 32 * scatterClassPairs(s.tokens, s.rows), 16)) * 16;
  m.totals = m.starts + 4 * scatterSortThreads;
  m.bytes = m.totals + 2 * 4 * 32;
  return m;
}

/// Bytes of the scratch buffer, aligned to 4: T sorted positions, their rows' places, then for
/// every place the number of the first position, and T. The sort writes all of it.
NANO_BOTH constexpr long long scatterScratchBytes(const ScatterShape &s) {
  return 4 * (2 * s.tokens + scatterPlaces(s.tokens, s.rows) + 1);
}

/// The first launch: reads the ids, writes the scratch buffer.
NANO_BOTH constexpr TemplateLaunch scatterSortLaunch(const ScatterShape &s) {
  return {scatterSortThreads, scatterClasses(s.tokens, s.rows), scatterSortMemory(s).bytes};
}

/// Iterations of the second launch that are for rows of many tokens: the first ones.
NANO_BOTH constexpr long long scatterManyIterations(const ScatterShape &s) {
  return divideUp(s.tokens, scatterPositions(s)) * divideUp(s.columns, scatterManyColumns);
}

/// Blocks of the second launch that sum by warps, in some columns: a multiple of the classes.
NANO_BOTH constexpr long long scatterFewBlocks(const ScatterShape &s) {
  const long long places = scatterPlaces(s.tokens, s.rows),
                  most = s.tokens > places ? s.tokens : places,
                  classes = scatterClasses(s.tokens, s.rows);
  return divideUp(divideUp(most, scatterRows), classes) * classes;
}

/// The second launch: reads x and the scratch buffer, writes the table.
NANO_BOTH constexpr TemplateLaunch scatterSumLaunch(const ScatterShape &s) {
  return {scatterSumThreads,
          scatterManyIterations(s) + scatterFewBlocks(s) * divideUp(s.columns, scatterColumns),
          4 * scatterSumThreads * 8};
}

} // namespace nano
