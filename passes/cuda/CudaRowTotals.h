// What the threads of a row's group find together: sums and maxima of the row.
#pragma once

#include "passes/cuda/CudaRowsAhead.h"
#include "passes/row/RowPlan.h"

namespace nano::kernels {

/// A group within a warp exchanges its parts by shuffles, a block or a team through shared memory,
/// each time behind a barrier. Where a block walks over rows, numbers of a row that are only
/// written need none: each warp leaves its part in shared memory, and they are combined behind the
/// last row.
class CudaRowTotals : protected CudaRowsAhead {
protected:
  using CudaRowsAhead::CudaRowsAhead;

  void syncGroup();

  /// Shared memory for what is exchanged of a row of the threads' `group`; takes the outputs that
  /// are written behind the last row from the plan's.
  void openTotals(RowPlan &plan, Index group);

  /// The results, not rounded yet, of a pass's row reductions, of which this thread has `parts`.
  llvm::SmallVector<mlir::Value> totalsOf(const RowPass &pass, llvm::ArrayRef<mlir::Value> parts);

  /// True for a pass whose reductions are combined behind the last row, and what is left there.
  bool isLate(const RowPass &pass) const;
  mlir::LogicalResult leave(const RowPass &pass, llvm::ArrayRef<mlir::Value> parts);
  /// Combines and writes what has been left of an iteration's rows, behind a barrier.
  mlir::LogicalResult storeLate(const Digit &iteration);

  mlir::Value team; ///< the row's group, where it is some warps of a block
  Index turn;       ///< rows that the group has walked over, where it does
  Index rowOfBlock; ///< the present row, counted from the block's first

private:
  /// A number of every row that is only written.
  struct Late {
    graph::ReduceOp reduce;
    unsigned output;
    mlir::Value parts; ///< shared memory: of each row what its warps have
  };

  mlir::Value total(bool isSum, mlir::Value number);
  llvm::SmallVector<mlir::Value> totalsOfTeam(llvm::ArrayRef<graph::ReduceOp> reduces,
                                              llvm::ArrayRef<mlir::Value> parts);
  mlir::Value nextPartials();
  void openLate(RowPlan &plan);
  int64_t warps() const { return layout.group / 32; }

  mlir::Value partials;                        ///< shared memory of block reductions
  llvm::SmallVector<mlir::Value> teamPartials; ///< of each of a team's exchanges in a row
  size_t exchanges = 0;                        ///< of which so many have code
  llvm::SmallVector<Late> late;
};

} // namespace nano::kernels
