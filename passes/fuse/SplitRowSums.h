// Cuts a kernel that reads a matrix product and sums its rows into three, so that the first can be
// the product's epilogue.
#pragma once

#include "ir/graph/Nano.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace nano {

/// What a kernel F of p [R, C], one of its operands, is cut into.
struct RowSumParts {
  /// Reads p and yields p as it is, where another part reads it; of each sum of rows the sums over
  /// each partialSumColumns columns, [R, C / partialSumColumns]; and those whole results of F that
  /// need nothing else than an epilogue computes, and lie as p does.
  graph::FusedOp sums;
  /// Adds those up, and yields F's numbers a row and those that `elements` reads. Sums that pick
  /// one element of the row are taken here, from p.
  graph::FusedOp rows;
  /// Looks for the largest of each row's blocks, where columns are summed besides; else null.
  graph::FusedOp maxima;
  /// Computes F's other whole results from p and numbers a row, by the ops that F has for that.
  /// Null where F has none.
  graph::FusedOp elements;
  /// In place of F's results.
  llvm::SmallVector<mlir::Value> results;
  /// Columns are summed, by SplitColumnSums.h, and not rows.
  bool ofColumns = false;
  /// The largest of blocks is found, by SplitRowMaxima.h, and no row is summed. Columns may be.
  bool ofBlocks = false;

  /// True where there are parts and rows are summed.
  bool ofRows() const { return sums && !ofColumns && !ofBlocks; }

  /// Erases the parts that there are, and views of their results.
  void erase();
};

/// True when the kernel reduces anything.
bool hasReductions(graph::FusedOp fused);

/// Makes `parts` of `fused`, in front of it, which stays; `product` is the argument of its body
/// that stands for p. They compute what it does but for the order in which a row is summed.
/// Returns why that cannot be, as the rest of a sentence, and makes nothing then: p's rows are no
/// multiples of partialSumColumns; other reductions than sums of rows in f32; sums of what no
/// epilogue of p computes, such as of elements for which another sum of the row is needed; values
/// that are neither whole, nor one number a row or a column, nor one number.
std::string splitRowSums(graph::FusedOp fused, mlir::Value product, RowSumParts &parts);

} // namespace nano
