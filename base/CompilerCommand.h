// Which C++ compiler compiles models, kernels of models and, for the emulator, those of plans.
#pragma once

#include <string>
#include <vector>

namespace nano {

/// $CXX, which may bring options along, or c++.
std::vector<std::string> compilerCommand();

} // namespace nano
