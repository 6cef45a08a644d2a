// All orders in which a small step program can run, one after the other, with a mark for every
// value: an oracle for the proofs that shares no idea with them.
#pragma once

#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace nano::test {

/// Attribute of a command: its place in the program as it was meant, which a schedule may change.
inline constexpr llvm::StringLiteral placeAttrName = "test.place";

/// What an exhaustive run of a module's programs finds.
struct Interleavings {
  std::string wrong;  ///< why some order gives another value, reads what nothing has written, or
                      ///< touches bytes outside of the arena; empty: no order does
  int64_t states = 0; ///< pairs of progress and contents that were looked at
};

/// Runs every program of a scheduled and planned module, of f32 alone, in every order that its
/// streams and events permit. Each value is a mark of who wrote it; what a command must read is
/// what it reads when all commands run one by one in the order that they were meant, each buffer
/// with memory of its own. A command is one step, but for one that writes what it reads: its
/// elements are steps, from the first to the last and from the last to the first. Collectives must
/// be entered in one order. `truth` says what kernels do, which is not what the module states where
/// it lies. Programs of at most some dozen commands and arenas of some kilobytes.
Interleavings runAllOrders(mlir::ModuleOp module, const step::KernelTable &truth);

} // namespace nano::test
