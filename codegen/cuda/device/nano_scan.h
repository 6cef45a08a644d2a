// Running sums and maxima of i32 (nano.scan) by one block: tiles of consecutive elements, of which
// each thread takes several in a row, and what came before is carried from tile to tile.
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
  constexpr int warps = Threads / 32, each = 8;
  constexpr int neutral = IsMax ? -2147483647 - 1 : 0;
  int *const totals = dynamicShared<int>();
  int carried = neutral;
  for (int64_t base = 0; base < count; base += Threads * each) {
    const int64_t first = base + threadIndex() * each;
    int values[each]; // up to each element, of this thread's
#pragma unroll
    for (int i = 0; i < each; ++i)
      values[i] = first + i < count ? x[(first + i) * xStride] : neutral;
#pragma unroll
    for (int i = 1; i < each; ++i)
      values[i] = scanStep<IsMax>(values[i - 1], values[i]);
    int before = values[each - 1]; // of the warp's threads up to this one, then before it
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = shuffleUp(before, distance);
      if (laneIndex() >= distance)
        before = scanStep<IsMax>(other, before);
    }
    syncThreads(); // the tile before has been read
    if (laneIndex() == 31)
      totals[warpIndex()] = before;
    before = shuffleUp(before, 1);
    syncThreads();
    int mine = carried;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) {
      const int total = totals[warp];
      if (warp < warpIndex())
        mine = scanStep<IsMax>(mine, total);
      carried = scanStep<IsMax>(carried, total);
    }
    if (laneIndex() > 0)
      mine = scanStep<IsMax>(mine, before);
#pragma unroll
    for (int i = 0; i < each; ++i)
      if (first + i < count)
        y[(first + i) * yStride] = scanStep<IsMax>(mine, values[i]);
  }
}

} // namespace nano
