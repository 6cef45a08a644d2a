// How the template of a product's exponentials cuts its work. Plain constant expressions, which the
// compiler and the kernels both include.
#pragma once

#include "nano_matmul_shape.h"

namespace nano {

/// e^(x·wᵀ − shift): x is [rows, inner], w [columns, inner].
struct ExpMatmulShape {
  long long rows, columns, inner;
};

/// What is more above its row's shift is left as its distance.
constexpr float expMostAbove = 64;

/// Whether other warps than those that multiply make the exponentials. A number that all columns of
/// a row share is read once a tile, and an exponential is a special function and few operations:
/// 939 us for 8192 × 50304 × 768 in steps on an H200, 1002 where others make them.
constexpr bool expMatmulHandsOver = false;
/// Threads of the second kernel's blocks, a row of each warp.
constexpr int expSumsThreads = 128;

NANO_BOTH constexpr MatmulLaunch expMatmulLaunch(const ExpMatmulShape &s,
                                                 long long multiprocessors) {
  return matmulLaunch({s.rows, s.columns, s.inner, false, true, 2, expMatmulHandsOver, false},
                      multiprocessors);
}
NANO_BOTH constexpr TemplateLaunch expSumsLaunch(const ExpMatmulShape &s) {
  return {expSumsThreads, divideUp(s.rows, expSumsThreads / 32), 0};
}
/// What the template needs: rows of 16 bytes, and columns in whole parts of sums.
NANO_BOTH constexpr bool isExpMatmulShape(const ExpMatmulShape &s) {
  return s.inner % 8 == 0 && s.columns % MatmulTiles::sumColumns == 0;
}

} // namespace nano
