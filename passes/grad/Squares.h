// Squares that stay in memory for the backward pass in place of the numbers that they are squares
// of.
#pragma once

#include "ir/graph/FunctionOps.h"
#include "ir/graph/Nano.h"

namespace nano {

/// What the recompute pass knows of a training function.
struct ForwardPass {
  llvm::function_ref<bool(mlir::Operation *)> contains;
  /// Ops that the backward pass may run again.
  llvm::function_ref<bool(mlir::Operation *)> isCheap;
  /// Values that need no keeping: arguments, states, constants, what parameters alone give.
  llvm::function_ref<bool(mlir::Value)> isThere;
};

/// Lets the backward pass take r of y = r·r, r = max(h, 0), from y:
///
///   r = nano.max h, 0                              r = nano.max h, 0
///   y = nano.mul r, r                              y = nano.mul r, r
///   …                                              s = nano.sqrt y
///   nano.mul g, r                          ⇒       nano.mul g, s
///   nano.select gt h, 0, d, 0                      nano.select gt y, 0, d, 0
///   nano.matmul dz, y {transpose_a}                nano.matmul dz, y {transpose_a}
///
/// so that of h and y only y is read there, which the product behind it has in memory in any case:
/// what goes back through relu² reads two tensors and writes one, where with h it would write y
/// again for the gradient of the weight.
///
/// It changes no bit where no square overflows or underflows: of binary numbers rounded to nearest,
/// √(r·r) = |r|, since rounding changes r·r by at most half a unit in the last place, and the root
/// halves that, relatively. For r < 2^-63 in f32 and bf16, where r·r is no normal number, y gives
/// some s ≤ 2^-63 in place of r, and the gradient 2·g·r is off by at most 2^-62·|g|. For r ≥ 2^64
/// the square is infinite, and so is the loss behind it.
///
/// It is done where the backward pass reads h, r and y in these ways alone; where h comes from one
/// large value that has no other reader (a product, perhaps with a bias), which has no fewer bytes
/// than y; and where a product forward and one backward read y itself, not as 8-bit numbers.
///
/// Returns the roots, which stand behind their squares. Errors: a parameter's FP8 policy that is
/// none.
mlir::FailureOr<llvm::SmallVector<graph::SqrtOp>> keepSquares(graph::ProgramOp function,
                                                              const ForwardPass &forward);

} // namespace nano
