// The runtime's kernels of sums, on the host.
#pragma once

#include "tests/runtime/cuda/FakeCuda.h"

namespace nano::test {

/// Tells the fake GPU of the kernels, and has it run their own text.
void runSums(FakeCuda &fake);

} // namespace nano::test
