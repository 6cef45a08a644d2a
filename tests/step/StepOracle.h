// The two proofs by brute force: every byte has an owner, every pair of commands is looked at.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace nano::test {

/// Why the module's programs are wrong, or empty. Shares nothing with the passes but the ops'
/// accessors: bytes are listed one by one, order is the transitive closure of a matrix. For arenas
/// of at most some hundred kilobytes and programs of at most some hundred commands. Liveness is
/// that of runs: whatever steps of a module's programs one may see in turn, from the same start.
std::string findLivenessError(mlir::ModuleOp module);
std::string findRace(mlir::ModuleOp module);

} // namespace nano::test
