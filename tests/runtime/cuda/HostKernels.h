// What the text of a kernel of the runtime's own means to the host: one thread after the other. To
// be included once in a source, before the text, which is included in a namespace of its own.
#pragma once

#include <bit>
#include <cmath>

namespace nano::test {
namespace {

struct Index {
  unsigned x = 0;
};
[[maybe_unused]] Index blockIdx, blockDim, threadIdx, gridDim;

[[maybe_unused]] float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
[[maybe_unused]] unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
[[maybe_unused]] double __dsqrt_rn(double value) { return std::sqrt(value); }

/// Calls `thread` as each thread of a launch.
template <typename Thread> void asEachThread(unsigned blocks, unsigned threads, Thread thread) {
  gridDim.x = blocks;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
      thread();
}

} // namespace
} // namespace nano::test

#undef __global__ // of CUDA's headers
#define __global__
#define __launch_bounds__(threads)
