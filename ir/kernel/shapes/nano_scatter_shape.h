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
NANO_BOTH constexpr int scatterSumBlocks(long long elementBytes) {
  return elementBytes > 2 ? 4 : 5;
}
/// Tokens whose elements a warp reads at a time: as many as there are registers for.
NANO_BOTH constexpr int scatterSumAhead(long long elementBytes, long long resultBytes) {
  return elementBytes + resultBytes > 4 ? 3 : 6;
}
/// Rows of more tokens are summed by whole blocks, others by warps.
constexpr int scatterManyTokens = 32;
/// A block that sums by warps has the rows that begin within so many sorted positions, as many rows
/// of the table among which those without tokens become zero, and this many columns.
constexpr int scatterRows = 32, scatterColumns = 256;
/// A block that sums rows of many tokens has those that begin within so many sorted positions, and
/// this many columns.
constexpr int scatterPositions = scatterManyTokens * scatterSumThreads / 32,
              scatterManyColumns = 128;

/// Lanes that share these, eight columns each: of rows with fewer columns fewer lanes, so that none
/// is idle, and more tokens are read at a time.
NANO_BOTH constexpr int scatterManyLanes(long long columns) {
  int lanes = scatterManyColumns / 8;
  while (lanes > 1 && columns <= 4 * lanes)
    lanes /= 2;
  return lanes;
}

/// Rows of the table whose tokens a block of the sort counts at a time, which reads all ids for
/// them: a number of shared memory for each, of which a block can have 227 KiB.
NANO_BOTH constexpr int scatterSortRows(long long rows) {
  constexpr int most = 55 * scatterSortThreads;
  return int(divideUp(rows, divideUp(rows, most)));
}
/// Of these a thread has so many when sums are formed: an odd number.
NANO_BOTH constexpr int scatterSortRowsOfThread(long long rows) {
  return int(divideUp(scatterSortRows(rows), scatterSortThreads)) | 1;
}
/// Tokens that a block of the sort places: at most one a thread.
NANO_BOTH constexpr int scatterSortTokens(long long tokens) {
  const long long some = divideUp(divideUp(tokens, 128), 32) * 32;
  return int(some > scatterSortThreads ? scatterSortThreads : some);
}

/// Bytes of the scratch buffer, aligned to 4: T sorted positions, their ids, then V + 1 numbers of
/// the first position of every row. The sort writes all of it.
NANO_BOTH constexpr long long scatterScratchBytes(const ScatterShape &s) {
  return 4 * (2 * s.tokens + s.rows + 1);
}

/// The first launch: reads the ids, writes the scratch buffer.
NANO_BOTH constexpr TemplateLaunch scatterSortLaunch(const ScatterShape &s) {
  return {scatterSortThreads, divideUp(s.tokens, scatterSortTokens(s.tokens)),
          4 * scatterSortThreads * scatterSortRowsOfThread(s.rows) + scatterSortThreads / 8};
}

/// Iterations of the second launch that are for rows of many tokens: the first ones.
NANO_BOTH constexpr long long scatterManyIterations(const ScatterShape &s) {
  return divideUp(s.tokens, scatterPositions) * divideUp(s.columns, scatterManyColumns);
}

/// The second launch: reads x and the scratch buffer, writes the table.
NANO_BOTH constexpr TemplateLaunch scatterSumLaunch(const ScatterShape &s) {
  return {scatterSumThreads,
          scatterManyIterations(s) + divideUp(s.tokens > s.rows ? s.tokens : s.rows, scatterRows) *
                                         divideUp(s.columns, scatterColumns),
          4 * scatterSumThreads * 8};
}

} // namespace nano
