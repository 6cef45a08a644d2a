// Queries and keys that stay in memory for the backward pass in place of the rows that they were
// made of.
#pragma once

#include "passes/grad/Squares.h"

namespace nano {

/// What takes rows from what was made of them.
struct KeptHeads {
  llvm::SmallVector<mlir::Operation *> ops; ///< for the backward pass alone, each behind the heads
  llvm::SmallVector<mlir::Value> kept;      ///< the heads, and a number of each of their rows
};

/// Lets the backward pass take rows that were normalised and turned for attention from what
/// attention reads, which its gradient reads too:
///
///   r = nano.rsqrt a                               r = nano.rsqrt a
///   n = nano.mul x, broadcast r                    n = nano.mul x, broadcast r
///   q = nano.mul n, broadcast cos t                q = nano.mul n, broadcast cos t
///       + nano.mul (nano.rotate n), ± sin t            + nano.mul (nano.rotate n), ± sin t
///   nano.attention q, …                            nano.attention q, …
///   …                                       ⇒      …
///   nano.attention_grad q, …                       nano.attention_grad q, …
///                                                  m = nano.mul q, broadcast cos t
///                                                      + nano.rotate (nano.mul q, ± sin t)
///                                                  y = nano.mul m, broadcast (nano.mul a, r)
///   nano.mul g, x                                  nano.mul g, y
///
/// so that q is kept and x is not: else the kernel that goes back through the norm would read x,
/// and one before attention's gradient read x too and write q once more. Casts between bf16 and f32
/// may stand anywhere in between, norm and rotation in either order, and one of them be left out.
///
/// It is exact but for rounding: of a rotation the angles of a row's halves are the same and the
/// sines of the second half have the other sign, as the expressions of both tables say, so that its
/// transpose is its inverse, but for a sum of two squares, 1, by which it is divided where the
/// tables are rounded; and a·r·r is 1 where a row's mean square is neither 0 nor infinite. In bf16
/// an element is off by 2^-8 of the larger of the two that were turned together, once more than x
/// itself was rounded when it was written.
///
/// It is done where attention and its gradient both read q, nothing but such ops makes it of rows
/// of a product, it has no more bytes than these, and the model does not ask to make it again.
/// Where the backward pass reads nothing in between, as of rows that are turned alone, q is kept
/// and nothing is made. It can lie where the rows were.
KeptHeads keepHeads(graph::ProgramOp function, const ForwardPass &forward);

} // namespace nano
