// How a row kernel walks its task: which dimensions are iterations, rows and columns, and what each
// pass over a row computes.
#pragma once

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

/// A text that is equal for tasks that one kernel can serve: ops, types, layouts and overlaps,
/// without the number of iterations.
std::string rowKey(step::TaskOp task, const RowForm &form);

/// Number of elements of a tensor or memref value.
int64_t elementsOf(mlir::Value value);
/// Number of elements that become one.
int64_t elementsOfEach(graph::ReduceOp reduce);

/// The choice under an output, or under its conversion, that takes its first value in at most one
/// column of each row: select(eq, column, a number a row, …). Null if it is not one.
graph::SelectOp columnChoice(mlir::Value output, int64_t columns);

/// The choice that a row reduction adds up, when its sum is one element of the row: its first
/// value, in the column that a number of the row says, and zeros elsewhere. Null if it is not one.
graph::SelectOp pickedBy(graph::ReduceOp reduce);

/// How many elements of each row a task reads at most of an operand that it only picks elements
/// from (see pickedBy); 0 when it reads others.
int64_t picksFrom(step::TaskOp task, mlir::Value operand);

/// Rough cost of computing one vector of the op's result, in simple vector instructions.
int64_t costOf(mlir::Operation *op);

/// True when a value is worth keeping in memory rather than computing again.
inline bool isExpensive(mlir::Operation *op) { return costOf(op) >= 8; }

} // namespace nano::kernels
