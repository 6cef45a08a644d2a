// How the scatter template cuts its work into thread blocks, and the scratch buffer that its two
// launches share. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct ScatterShape {
  long long tokens, rows, columns; ///< T, V, D
};

constexpr int scatterSortThreads = 1024, scatterSumThreads = 256;
/// A block of the sum has this many rows of the table, and this many columns.
constexpr int scatterSumRows = 32, scatterSumColumns = 256;

/// Rows of the table that one block of the sort looks for.
NANO_BOTH constexpr int scatterSortRows(long long rows) {
  const long long some = divideUp(rows, 128);
  return int(some > 1024 ? 1024 : some);
}

/// Bytes of the scratch buffer, aligned to 4: T sorted positions, then V + 1 numbers of the first
/// position of every row. The sort writes all of it.
NANO_BOTH constexpr long long scatterScratchBytes(const ScatterShape &s) {
  return 4 * (s.tokens + s.rows + 1);
}

/// The first launch: reads the ids, writes the scratch buffer.
NANO_BOTH constexpr TemplateLaunch scatterSortLaunch(const ScatterShape &s) {
  const int warps = scatterSortThreads / 32, rows = scatterSortRows(s.rows);
  return {scatterSortThreads, divideUp(s.rows, rows), 4 * ((warps + 1) * rows + warps)};
}

/// The second launch: reads x and the scratch buffer, writes the table.
NANO_BOTH constexpr TemplateLaunch scatterSumLaunch(const ScatterShape &s) {
  return {scatterSumThreads,
          divideUp(s.rows, scatterSumRows) * divideUp(s.columns, scatterSumColumns),
          4 * scatterSumThreads / 32 * scatterSumColumns};
}

} // namespace nano
