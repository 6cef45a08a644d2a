// A kernel of the runtime's own: random initial values, made where they are wanted.
#pragma once

#include "runtime/cuda/Gpu.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>

namespace nano::cuda {

/// Fills states with the values that Random has for them, the same to the bit.
class Draws {
public:
  static constexpr const char *text = "runtime/cuda/nano_draws.cu"; ///< of ownTexts
  /// What the kernels take: elements first … first + count − 1 of a stream of random numbers.
  struct Draw {
    uint64_t to, first, count; ///< an address, and numbers of elements
    uint64_t name, seed;       ///< the stream's, see Random
    double a, b; ///< mean and standard deviation of a normal distribution, bounds of a uniform one
  };

  /// Whether this state is filled here.
  static bool takes(const plan::State &state);
  /// Whether any state of the plan is.
  static bool areIn(const plan::Plan &plan);

  /// `cubin` is that of the text. Throws Failure.
  Draws(Gpu &gpu, const std::string &cubin);
  /// Puts the elements first … first + count − 1 of a state that `takes` takes to an address.
  void enqueue(const plan::State &state, uint64_t seed, uint64_t first, uint64_t count,
               CUdeviceptr to, CUstream stream) const;

private:
  Gpu &gpu;
  CUfunction functions[2][2] = {}; ///< normal and uniform, of f32 and bf16
};

} // namespace nano::cuda
