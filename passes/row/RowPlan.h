// What each pass over a row computes, keeps and stores.
#pragma once

#include "ir/graph/ReduceOps.h"
#include "passes/emit/KernelEmitter.h"
#include "passes/row/RowForm.h"

namespace nano::kernels {

/// One loop over the columns of a row.
struct RowPass {
  llvm::SmallVector<graph::ReduceOp> rowReduces, columnReduces; ///< that take this pass's elements
  llvm::SmallVector<graph::ReduceOp> picks; ///< row reductions that are one element of the row
  llvm::SmallVector<mlir::Value>
      kept; ///< tensors that later passes need again: the emitter decides where they stay
  llvm::SmallVector<unsigned> outputs; ///< outputs stored
  int64_t cost = 0;                    ///< of the code for one vector of columns

  /// What the pass computes, given the task's outputs as tensors.
  llvm::SmallVector<mlir::Value> roots(mlir::ValueRange yielded) const;

  /// True when there is nothing to walk the columns for.
  bool isEmpty() const {
    return rowReduces.empty() && columnReduces.empty() && kept.empty() && outputs.empty();
  }
};

/// The passes over a row, and what is stored outside them.
struct RowPlan {
  llvm::SmallVector<RowPass, 2> passes;
  llvm::SmallVector<unsigned> rowOutputs; ///< one number a row
  llvm::SmallVector<unsigned>
      columnOutputs; ///< computed from column reductions, after the last row

  /// The plan of a task, or an error at the op or task that does not fit. With `straight`, a row's
  /// vectors all stay in registers: nothing is kept in memory, and outputs are stored after the
  /// last pass.
  static mlir::FailureOr<RowPlan> of(KernelFrame &frame, const RowForm &form, bool straight);
};

/// Cost of computing one vector of each of the values, shared subexpressions counted once.
int64_t costOfAll(mlir::ValueRange values);

} // namespace nano::kernels
