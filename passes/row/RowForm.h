// How a row kernel walks its task: which dimensions are iterations, rows and columns, and what each
// pass over a row computes.
#pragma once

#include "ir/graph/ReduceOps.h"
#include "ir/graph/RowOps.h"
#include "ir/step/Step.h"

#include "llvm/ADT/DenseMap.h"

namespace nano::kernels {

/// The iteration space of a task. Every tensor of the task has one of a few sizes: all =
/// iterations·rows·columns elements, one a row, one a column of each iteration (what a column
/// reduction leaves), or smaller ones that are broadcast.
///
/// - Elements: every tensor is contiguous and of one size (or a single number): iterations are
/// elements, in any shape.
/// - Rows: an iteration computes `rows` rows (1 without column reductions) of `columns` elements:
/// first what row reductions
///   need, pass by pass, then the outputs. Column reductions add rows up in private memory. What a
///   row reduction picks one element of (see pickedBy) may have rows of any length.
/// - Columns: column reductions alone: an iteration is `columnStrip` columns, walked over all rows.
struct RowForm {
  enum class Kind { Elements, Rows, Columns };
  Kind kind = Kind::Elements;
  int64_t iterations = 1; ///< Elements: elements; Rows: what runs in parallel; Columns: the same
                          ///< before strips are counted
  int64_t rows = 1;       ///< rows of one iteration, what a column reduction sums
  int64_t columns = 1;
  llvm::SmallVector<graph::ReduceOp> rowReduces,
      columnReduces; ///< in program order; reductions of size 1 are neither

  /// The form of a task, or an error at the op that has no place in a row kernel.
  static mlir::FailureOr<RowForm> of(step::TaskOp task);

  int64_t elements() const { return iterations * rows * columns; }
  bool isRowReduce(mlir::Operation *op) const { return llvm::is_contained(rowReduces, op); }
  bool isColumnReduce(mlir::Operation *op) const { return llvm::is_contained(columnReduces, op); }
};

/// True for a last dimension of pairs that each aligned vector of lanes holds some of, where rows
/// are `columns` long: what is rotated or repeated in a pair is found in the vector's lanes.
bool arePairs(int64_t size, int64_t columns);

/// A text that is equal for tasks that one kernel can serve: ops, types, layouts and overlaps,
/// without the number of iterations.
std::string rowKey(step::TaskOp task, const RowForm &form);

/// How many elements of each row a task reads at most of an operand that it only picks elements
/// from (see pickedBy); 0 when it reads others.
int64_t picksFrom(step::TaskOp task, mlir::Value operand);

} // namespace nano::kernels
