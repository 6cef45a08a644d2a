// What gradients and updates must be, by other ways than the passes that write them.
#pragma once

#include "compiler/bisect/Evaluate.h"

#include <optional>

namespace nano::bisect {

/// Holds the gradients that `train` of `after` leaves of the first micro-batch against finite
/// differences of its loss in `before`: along directions that are half the gradient and half
/// random, one parameter at a time, or in `groups` groups where there are more. What
/// `nano.stop_gradient` keeps out of a derivative stays as it was. `Difference::found` and `wanted`
/// are slopes. Failed: a program that cannot be run.
Result<Comparison> checkGradients(mlir::ModuleOp before, mlir::ModuleOp after,
                                  const StepInputs &inputs, double tolerance, int64_t groups = 24);

/// What the equations of `before`'s optimizers make of the parameters and their states, each
/// parameter by itself, from the gradients in `observed`: the mean over the batch, clipped where
/// the model asks for it. Failed: equations that cannot be run.
Result<Observations> expectedUpdate(mlir::ModuleOp before, const Observations &observed,
                                    const StepInputs &inputs);

} // namespace nano::bisect
