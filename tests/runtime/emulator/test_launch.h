// A launch of one segment, laid out as plans say.
#pragma once

#include "nano_primitives.h"

template <int Args> struct TestLaunch {
  int32_t segments, blocks;
  struct {
    void *args[Args];
    int64_t iterations, firstBlock;
  } segment[1];

  /// An operand.
  template <typename T> NANO_DEVICE T *arg(int index) const {
    return static_cast<T *>(segment[0].args[index]);
  }
};

#define TEST_KERNEL(NAME, ARGS)                                                                    \
  extern "C" __global__ void NAME(const __grid_constant__ TestLaunch<ARGS> launch)

/// Defines NAME_good and NAME_bad from `template <bool Broken> void NAME(const TestLaunch<ARGS>
/// &)`.
#define TEST_PAIR(NAME, ARGS)                                                                      \
  TEST_KERNEL(NAME##_good, ARGS) { NAME<false>(launch); }                                          \
  TEST_KERNEL(NAME##_bad, ARGS) { NAME<true>(launch); }
