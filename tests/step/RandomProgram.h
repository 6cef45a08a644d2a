// Random step programs that are right by construction, and random damage to them.
#pragma once

#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <random>
#include <string>

namespace nano::test {

/// A module with states, inputs, kernels and one or two programs of launches, products, copies,
/// fills and collectives over buffers and strided views of them. Every read finds bytes that an
/// earlier command wrote; nothing is scheduled or planned yet.
mlir::OwningOpRef<mlir::ModuleOp> randomModule(mlir::MLIRContext &context, uint32_t seed);

/// Damages a scheduled and planned module in one place: a wait is dropped, a buffer moved, a
/// command put on another stream, two neighbours swapped, a command dropped, or an event recorded
/// earlier. Returns what was done; empty when the module has nothing to damage that way.
std::string damage(mlir::ModuleOp module, std::mt19937 &random);

} // namespace nano::test
