// The interpreter of the graph dialect under the names that tests know it by.
#pragma once

#include "ir/interpreter/Interpreter.h"

#include <algorithm>

namespace nano::test {

using namespace interpreter;

/// States as a step begins with them: as they are initialized, but gradients are 0.
inline void startStates(mlir::ModuleOp module, StateMap &states, std::mt19937_64 &random) {
  initializeStates(module, states, random);
  for (auto &[name, value] : states)
    if (name.rfind("grad.", 0) == 0)
      std::fill(value.data.begin(), value.data.end(), 0.0);
}

} // namespace nano::test
