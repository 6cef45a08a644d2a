// How a thread of a row kernel goes over its vectors of columns.
#pragma once

#include "passes/cuda/CudaRowLayout.h"
#include "passes/cuda/CudaThreadCode.h"

namespace nano::kernels {

class CudaRowVectors : protected CudaThreadCode {
public:
  CudaRowVectors(KernelFrame &frame, const RowForm &form, const CudaRowLayout &layout)
      : CudaThreadCode(frame), form(form), layout(layout) {}

protected:
  /// A vector of columns of this thread: the digit, and which of the thread's it is.
  struct Vector {
    Digit digit;
    mlir::Value slot;
  };
  using VectorBody = llvm::function_ref<mlir::LogicalResult(
      const Vector &, llvm::MutableArrayRef<mlir::Value> sums)>;

  /// The first column of the thread's vector u.
  Index columnOf(Index u);

  /// True when some of the threads' columns do not exist.
  bool isPartial() const;

  /// Calls `body` for each of this thread's vectors of columns, from vector `from` on, in a loop if
  /// there are several, with the mask of the columns that exist; returns the sums after the last.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> overVectors(const Position &row,
                                                              llvm::ArrayRef<mlir::Value> sums,
                                                              VectorBody body, int64_t from = 0);

  const RowForm &form;
  CudaRowLayout layout;
  Index lane;         ///< of the row's group
  Index elementsBase; ///< Elements: the thread's first element
  bool elementsMasked = false;
  bool isWhole = false; ///< the thread's columns exist at every iteration of the loop at hand
  /// Vectors that are gone through together, where it is not all of them: `count` from `first` on,
  /// which are numbered from 0.
  struct Window {
    Index first;
    int64_t count;
  };
  std::optional<Window> window;
  llvm::DenseMap<mlir::Value, mlir::Value> sharedRows; ///< kept values that other threads read
};

} // namespace nano::kernels
