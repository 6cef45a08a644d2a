// Random step programs that are right by construction, and random damage to them.
#pragma once

#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace nano::test {

/// The elements of a memref, a view of a buffer perhaps, in row-major order: their places among the
/// buffer's.
std::vector<int64_t> elementsOf(mlir::Value view);

/// How large a random program is.
struct ProgramSize {
  int64_t buffers = 3, moreBuffers = 12;    ///< the fewest, and how many more there may be less one
  int64_t commands = 10, moreCommands = 50; ///< likewise
  int64_t rank = 3, dimension = 8;          ///< at most
  bool hasBodies = false; ///< kernels have bodies, which do what they state, as nano-verify-kernels
                          ///< asks
  int64_t gradients = 2;  ///< of the three states; others live from step to step as a whole
};
/// Programs that can be run in all orders, each for itself.
inline constexpr ProgramSize smallPrograms = {3, 5, 5, 14, 2, 4, true, 0};

/// A module with states, inputs, kernels and some programs of launches, products, copies, fills and
/// collectives over buffers and strided views of them: one or two by themselves, or where there are
/// gradients those of steps, of one phase or two. Every read finds bytes that an earlier command
/// wrote, gradients that steps write anew among them; nothing is scheduled or planned yet.
mlir::OwningOpRef<mlir::ModuleOp> randomModule(mlir::MLIRContext &context, uint32_t seed,
                                               ProgramSize size = {});

/// Makes a kernel of the module state another access to an argument than its body makes; returns
/// what was done.
std::string hideAccess(mlir::ModuleOp module, std::mt19937 &random);

/// Damages a scheduled and planned module in one place: a wait is dropped, a buffer or a gradient
/// moved, a command put on another stream, two neighbours swapped, a command dropped, or an event
/// recorded earlier. Returns what was done; empty when the module has nothing to damage that way.
std::string damage(mlir::ModuleOp module, std::mt19937 &random);

} // namespace nano::test
