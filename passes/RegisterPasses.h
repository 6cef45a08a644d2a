// Every pass under its name, generated from Passes.td: for the few who look passes up by it.
#pragma once

#include "passes/Passes.h"

namespace nano {
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
} // namespace nano
