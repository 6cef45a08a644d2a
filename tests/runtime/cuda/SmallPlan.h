// A hand-made CUDA plan: kernels, moves, streams and events, with a result that is known.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <vector>

namespace nano::test {

/// Program "main", on two streams: y = 2x + 1 by a kernel on stream 0; z = x copied on stream 1;
/// then on stream 0, after an event of stream 1, z = z + y by a kernel over two segments of
/// different length; w is filled with zeros on stream 1. Buffers x, y, z, w of `count` f32 and a
/// scalar buffer whose first f32 is the factor 2.
plan::Plan smallPlan(int64_t count);

/// The same buffers, of side · side elements, and program "chain": kernels behind kernels, a
/// product, an event of another stream and a copy.
plan::Plan chainPlan(int64_t side);

/// z after `main`, from the factor and x.
std::vector<float> smallResult(const std::vector<float> &x, float factor);

/// What the kernels of the plan do, on the host: `parameter` is the launch's nano::Launch.
void runSmallKernel(const std::string &kernel, const std::vector<uint64_t> &parameter);

} // namespace nano::test
