// Rows of a batch, as the ranges of attention's queries say them.
#pragma once

#include "ir/graph/Nano.h"

namespace nano::graph {

/// How many tokens the rows of queries have, 0 where nothing is known, and whether each query sees
/// the keys of its row up to itself.
struct RowsOfQueries {
  int64_t tokens = 0;
  bool areCausal = false;
};

/// Where the first keys that queries see, i32 [T], are the beginnings of rows of a size,
/// t / row · row of the tokens t. They are causal where the last ones are t. Null: nothing is
/// known.
RowsOfQueries rowsOfQueries(mlir::Value first, mlir::Value last);

} // namespace nano::graph
