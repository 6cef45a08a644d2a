// Running sums and maxima of i32 (nano.scan) by one block: tiles of consecutive elements, one an
// integer scan of its own, and what came before is carried from tile to tile.
#pragma once

#include "nano_kernels.h"

namespace nano {

/// a ∘ b: the larger one, or the wrapping sum.
template <bool IsMax> NANO_DEVICE int scanStep(int a, int b) {
  return IsMax ? maximum(a, b) : int(unsigned(a) + unsigned(b));
}

/// y[t·yStride] = x[0] ∘ … ∘ x[t·xStride] for t < `count`. All `Threads` threads of the block call
/// it; dynamic shared memory holds a number a warp.
template <int Threads, bool IsMax>
NANO_DEVICE void scan(int64_t count, const int *x, int64_t xStride, int *y, int64_t yStride) {
  constexpr int warps = Threads / 32;
  constexpr int neutral = IsMax ? -2147483647 - 1 : 0;
  int *const totals = dynamicShared<int>();
  int carried = neutral;
  for (int64_t base = 0; base < count; base += Threads) {
    const int64_t t = base + threadIndex();
    int value = t < count ? x[t * xStride] : neutral;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = shuffleUp(value, distance);
      if (laneIndex() >= distance)
        value = scanStep<IsMax>(before, value);
    }
    syncThreads(); // the tile before has been read
    if (laneIndex() == 31)
      totals[warpIndex()] = value;
    syncThreads();
    int mine = carried;
    for (int warp = 0; warp < warps; ++warp) {
      const int total = totals[warp];
      if (warp < warpIndex())
        mine = scanStep<IsMax>(mine, total);
      carried = scanStep<IsMax>(carried, total);
    }
    if (t < count)
      y[t * yStride] = scanStep<IsMax>(mine, value);
  }
}

} // namespace nano
