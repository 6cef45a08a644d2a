// What is told of a parameter's update.
#pragma once

#include "ir/graph/Sharding.h"
#include "passes/optimizer/UpdateForm.h"

namespace nano {

/// A remark at the parameter: who updates it and when, in which pieces and why, where, and with
/// whom. `sharding` is that of its gradient where ranks share it; the matrices of `stack`
/// parameters are multiplied together.
void reportUpdate(graph::StateOp parameter, const UpdateForm &form, const graph::Sharding *sharding,
                  int64_t stack);

} // namespace nano
