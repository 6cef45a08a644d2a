// The runtime's kernels of initial values, on the host; and a plan whose states they fill.
#pragma once

#include "runtime/Device.h"
#include "tests/runtime/cuda/FakeCuda.h"

namespace nano::test {

/// Has the fake GPU run the kernels' own text, beside those that it runs.
void runDraws(FakeCuda &fake);

/// smallPlan(count) with its buffers as states, of both distributions and both types, and a
/// constant one.
plan::Plan planOfDraws(int64_t count);

/// Has the device fill what it fills of planOfDraws, and compares all of it with Random, to the
/// bit.
void checkDraws(Device &device, const plan::Plan &plan);

} // namespace nano::test
