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
};
/// Programs that can be run in all orders.
inline constexpr ProgramSize smallPrograms = {3, 5, 5, 14, 2, 4, true};

/// A module with states, inputs, kernels and one or two programs of launches, products, copies,
/// fills and collectives over buffers and strided views of them. Every read finds bytes that an
/// earlier command wrote; nothing is scheduled or planned yet.
mlir::OwningOpRef<mlir::ModuleOp> randomModule(mlir::MLIRContext &context, uint32_t seed,
                                               ProgramSize size = {});

/// Makes a kernel of the module state another access to an argument than its body makes; returns
/// what was done.
std::string hideAccess(mlir::ModuleOp module, std::mt19937 &random);

/// Damages a scheduled and planned module in one place: a wait is dropped, a buffer moved, a
/// command put on another stream, two neighbours swapped, a command dropped, or an event recorded
/// earlier. Returns what was done; empty when the module has nothing to damage that way.
std::string damage(mlir::ModuleOp module, std::mt19937 &random);

} // namespace nano::test
