// How the numbers of a report lie in its state: what nano-lower-reports writes and plans say.
#pragma once

#include "llvm/ADT/SmallVector.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace nano::graph {

/// The states of the numbers that a step's micro-batches leave, and its updates.
inline constexpr llvm::StringLiteral reportsSymbol = "reports", stepReportsSymbol = "reports.step";

/// Behind a histogram's counts: smallest, largest, sum, sum of squares.
inline constexpr int64_t histogramMoments = 4;

/// The numbers of a report: of a histogram one below the first edge, one between each two, one from
/// the last on, and the moments; else one.
constexpr int64_t reportNumbers(ReportKind kind, int64_t edges) {
  return kind == ReportKind::histogram ? edges + 1 + histogramMoments : 1;
}

/// Edges that hold what networks have, from gradients' 6e-8 to activations' 4096: ±4ᵏ for k = −12 …
/// 6, rising.
llvm::SmallVector<double> histogramEdges();

} // namespace nano::graph
