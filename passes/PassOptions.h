// The options of every pass as a struct, and its constructor, generated from Passes.td: without a
// header of MLIR, for those who hand options on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace mlir {
class Pass;
} // namespace mlir

namespace nano {
#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// The options of all passes that have some.
struct PassOptions {
#define NANO_PASS(NAME, MEMBER) NAME##Options MEMBER = {};
#include "passes/PassOptions.inc"
};
} // namespace nano
