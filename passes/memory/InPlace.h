// When a kernel may write a result over one of its operands.
#pragma once

#include "ir/graph/Nano.h"

namespace nano::memory {

/// Answers for one op, element-wise or `nano.fused`, whether result r may lie in operand k's
/// buffer, element over element.
///
/// A kernel walks over rows of columns, a row in one iteration. Reductions along the columns cut an
/// iteration into phases: what depends on no reduction is read and written in phase 0, what depends
/// on one of them in phase 1, and so on. A result may overwrite an operand when every use of the
/// operand is at its own place (element-wise) or reduces its own row, and none comes in a later
/// phase than the result's; within one phase each element is read before it is written.
///
///   ^bb0(%x: tensor<8x64xf32>, %g: tensor<8x64xf32>):
///     %s = nano.reduce sum %x dims [1]     phase 0 reads x
///     %b = nano.broadcast %s dims [0]
///     %y = nano.mul %g, %b                 phase 1 reads g, writes y: y may overwrite x or g
class InPlace {
public:
  explicit InPlace(mlir::Operation *op);

  /// Operand and result have the same number of elements of one type; the caller checks that they
  /// lie at the same place. `rotated`: also where the kernel must keep short rows that it rotates
  /// until it has read them.
  bool mayOverwrite(unsigned operand, unsigned result, bool rotated = false);

private:
  mlir::Operation *op;
  mlir::Operation *yield =
      nullptr; ///< of a nano.fused; null otherwise, and when its form is unknown
  llvm::SmallDenseMap<mlir::Value, int> phases; ///< of a nano.fused's values
};

} // namespace nano::memory
