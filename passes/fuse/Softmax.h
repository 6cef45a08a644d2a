// Exponentials of a softmax cross-entropy: fewer passes over the logits, each exponential once, and
// a gradient that is a product.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"

#include <optional>

namespace nano {

/// An upper bound of all elements of x, whatever the operands hold, when e^(x − bound) is neither
/// infinite nor lost to underflow for any of them: Σ e^(x − bound) then needs no maximum at all,
/// not even one that grows on the way. A softcap, c·sigmoid or c·tanh, has one.
std::optional<double> softmaxShift(mlir::Value x);

/// In the body of a kernel: e^(x − (m + ln Σ e^(x − m))) ⇒ e^(x − m)·(1/Σ e^(x − m)). The gradient
/// of a cross-entropy reuses the exponentials of its log-sum-exp. Only within a kernel: they must
/// not cross memory for that.
void reuseExponentials(mlir::Block &body);

/// In the body of a kernel with an output V(select(column = target, a, b)), V a product and b one
/// of a row's numbers r and of others: V ⇒ select(column = target, V(a), W·R), where R is the
/// product of all factors that are one number a row, and W that of the others. The gradient of a
/// cross-entropy becomes a product of a single number an element, which the loss can leave behind
/// where it has a bound, and of a number a row; only the target's column needs more.
void separateTargets(mlir::Block &body);

} // namespace nano
