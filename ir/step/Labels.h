// What a command is called in plans, traces, reports and files of measured times.
#pragma once

#include "mlir/IR/Operation.h"

#include <string>

namespace nano::step {

/// The kernel's name, or what the command does and the buffer that it does it to: "norm_3f2a",
/// "matmul blocks.0.x", "all_reduce grad.embed.weight", "wait 3". Of a collective over several
/// buffers the last and how many others: "all_reduce grad.embed.weight and 3 more".
std::string labelOf(mlir::Operation *command);

} // namespace nano::step
