// The gradients of weights that share an operand, as one product.
#pragma once

#include "ir/machine/Machine.h"

#include "mlir/IR/BuiltinOps.h"

namespace nano {

/// Makes one product of those that give the gradients of several weights of one x, where the
/// gradients of what these give lie side by side already:
///
///     %q = matmul %dq, %x {transpose_a}      store %q, @grad.q
///     %k = matmul %dk, %x {transpose_a}  ⇒   %w = matmul concat(%dq, %dk), %x {transpose_a}
///     store %q, @grad.q ; store %k, @grad.k  store %w, @grad.q.merged
///
/// The new state holds the gradients one behind the other, as its pieces say; who loads one loads a
/// slice. Only where nothing but kernels reads them, every program that writes one writes all so,
/// and one product is predicted to take less time. `report`: a remark on each product that is
/// merged. Says whether it changed anything.
bool mergeGradients(mlir::ModuleOp module, const machine::Machine &rates, bool report);

} // namespace nano
