// What the shapes of templates have in common: headers that the compiler and the kernels both
// include, in plain constant expressions.
#pragma once

#ifdef __CUDACC__
#define NANO_BOTH __host__ __device__
#else
#define NANO_BOTH
#endif

namespace nano {

/// A launch of one iteration a thread block.
struct TemplateLaunch {
  int threads;
  long long iterations;
  int sharedBytes; ///< dynamic
};

NANO_BOTH constexpr long long divideUp(long long a, long long b) { return (a + b - 1) / b; }

} // namespace nano
