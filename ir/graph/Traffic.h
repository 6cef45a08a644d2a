// How many bytes cross memory in a graph program, before and after fusion, and the floor.
#pragma once

#include "ir/graph/Nano.h"

#include "llvm/ADT/DenseSet.h"

#include <cstdint>

namespace nano {

/// Ops of a kernel's body of which at most one element a row is needed: a sum that picks it, and
/// what only such sums, or choices of one column, are computed from.
llvm::DenseSet<mlir::Operation *> opsOfOneColumn(mlir::Block &body);

/// True when one element of each of its rows is all that the kernel reads of that operand.
bool readsOneColumn(graph::FusedOp fused, unsigned operand);

/// Library calls, collectives, and kernels that fusion does not form.
bool isCall(mlir::Operation *op);

/// Kernels and library calls of one program, and the bytes that they read and write: every operand
/// once an op, every result once. Views, constants, loads and stores of state are free; a gather
/// reads only the rows that it takes.
struct Traffic {
  int64_t kernels = 0;
  int64_t bytes = 0;
};

/// Counts `function` as it stands: every op, or every nano.fused, is a kernel.
Traffic measureTraffic(graph::ProgramOp function);

/// The bytes that no fusion can save: every tensor that a product, attention, embedding gradient,
/// scan or collective reads or writes, every state that is read or written, and every argument and
/// result, each written once and read once.
int64_t trafficFloor(graph::ProgramOp function);

/// Says anew of a program that says it what kernels it has and what bytes they move.
void countTrafficAgain(graph::ProgramOp function);

} // namespace nano
