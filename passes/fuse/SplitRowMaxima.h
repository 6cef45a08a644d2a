// Cuts a kernel that reads a matrix product and finds the largest of its rows into two, so that the
// first can be the product's epilogue.
#pragma once

#include "ir/graph/ReduceOps.h"
#include "passes/fuse/SplitRowSums.h"

namespace nano {

/// True for the largest of each row.
bool isRowMaximum(graph::ReduceOp reduce);
/// True when the kernel finds the largest of rows, and reduces nothing else.
bool hasRowMaxima(graph::FusedOp fused);
/// Finds those of a kernel that may sum columns besides, or says why they cannot begin as a
/// product's end.
std::string findRowMaxima(graph::FusedOp fused, llvm::SmallVectorImpl<graph::ReduceOp> &maxima);

/// Makes `sums` and `rows` of a kernel F that finds the largest of each row of what an epilogue of
/// `product`, the argument of its body, computes, once or more often: `sums` yields in its place
/// that of each partialSumRows rows and partialMaxColumns columns, and else what F does; `rows`
/// that of each partialSumRows rows. Fewer numbers than F yields: what reads these must only look
/// for the largest of all, and is given the fewer ones by `readBlockMaxima`. Returns why that
/// cannot be, as the rest of a sentence, and makes nothing then.
std::string splitRowMaxima(graph::FusedOp fused, mlir::Value product, RowSumParts &parts);

/// Lets what reads the largest of F's rows read those of `rows`.
void readBlockMaxima(graph::FusedOp fused, const RowSumParts &parts);

} // namespace nano
