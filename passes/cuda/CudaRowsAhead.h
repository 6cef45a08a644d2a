// What rows read, on its way while the rows before are computed.
#pragma once

#include "passes/cuda/CudaRowVectors.h"

namespace nano::kernels {

/// Where a block walks over rows that it reduces, a group's next rows are read ahead: by copies to
/// shared memory, which take no registers, several rows of them; or, of what cannot be copied in
/// whole pieces or is gathered, the next row to registers.
class CudaRowsAhead : protected CudaRowVectors {
protected:
  using CudaRowVectors::CudaRowVectors;

  /// Starts to read what `roots` are computed from, in the group's first rows.
  mlir::LogicalResult loadFirstRows(mlir::ArrayRef<mlir::Value> roots, const Digit &iteration,
                                    Index group);
  /// Takes what was read for this row, and starts to read a later one.
  mlir::LogicalResult loadNextRow(const Digit &iteration, Index row);

  bool updatesInPlace();

  /// An operand of a row that is read before the row is computed: the registers of the row at hand,
  /// and those of the next, or the shared memory of several.
  struct RowAhead {
    mlir::Value load, row, next, copies;
  };
  mlir::SmallVector<RowAhead> rowsAhead;
  mlir::Value thread;

private:
  mlir::LogicalResult loadRow(const Digit &iteration, Index row);
  mlir::LogicalResult copyRow(const Digit &iteration, Index row);
  /// Where the copy of a thread's vector in a row begins.
  Index placeOf(Index row, const Vector &vector);
};

} // namespace nano::kernels
