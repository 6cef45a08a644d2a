// Running sums and maxima of i32 (nano.scan) by one block: each warp takes a contiguous part of the
// elements, learns what the parts before it come to, and goes over its part again, tile by tile.
#pragma once

#include "nano_kernels.h"
#include "nano_shape.h"

namespace nano {

/// a ∘ b: the larger one, or the wrapping sum.
template <bool IsMax> NANO_DEVICE int scanStep(int a, int b) {
  return IsMax ? maximum(a, b) : int(unsigned(a) + unsigned(b));
}

/// Four consecutive elements of a lane.
struct alignas(16) ScanVector {
  int elements[4];
};

/// Elements first … first + 3 of x; beyond `count` the neutral one. `vectors`: x is contiguous and
/// begins at a multiple of 16 bytes.
template <bool IsMax>
NANO_DEVICE ScanVector scanLoad(const int *x, int64_t stride, bool vectors, int64_t first,
                                int64_t count) {
  if (vectors && first + 4 <= count)
    return *reinterpret_cast<const ScanVector *>(x + first);
  ScanVector v;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    v.elements[i] = first + i < count ? x[(first + i) * stride] : IsMax ? -2147483647 - 1 : 0;
  return v;
}
NANO_DEVICE void scanStore(int *y, int64_t stride, bool vectors, int64_t first, int64_t count,
                           const ScanVector &v) {
  if (vectors && first + 4 <= count) {
    *reinterpret_cast<ScanVector *>(y + first) = v;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i < count)
      y[(first + i) * stride] = v.elements[i];
}

/// y[t·yStride] = x[0] ∘ … ∘ x[t·xStride] for t < `count`. All `Threads` threads of the block call
/// it; dynamic shared memory holds a number a warp. y may be x.
template <int Threads, bool IsMax>
NANO_DEVICE void scan(int64_t count, const int *x, int64_t xStride, int *y, int64_t yStride) {
  // A warp loads and stores `ahead` tiles of 32 vectors at a time, none of them with gaps.
  constexpr int warps = Threads / 32, ahead = 4, tileSize = 32 * 4, stepSize = ahead * tileSize;
  constexpr int neutral = IsMax ? -2147483647 - 1 : 0;
  const bool xVectors = xStride == 1 && reinterpret_cast<uint64_t>(x) % 16 == 0,
             yVectors = yStride == 1 && reinterpret_cast<uint64_t>(y) % 16 == 0;
  int *const totals = dynamicShared<int>();
  const int64_t part = (count + stepSize * warps - 1) / (stepSize * warps) * stepSize;
  const int64_t begin = warpIndex() * part, end = begin + part < count ? begin + part : count;
  ScanVector v[ahead];
  auto load = [&](int64_t step) {
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      v[k] = scanLoad<IsMax>(x, xStride, xVectors, step + k * tileSize + laneIndex() * 4, count);
  };
  int total = neutral;
  for (int64_t step = begin; step < end; step += stepSize) {
    load(step);
#pragma unroll
    for (int k = 0; k < ahead; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        total = scanStep<IsMax>(total, v[k].elements[i]);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    total = scanStep<IsMax>(total, shuffleXor(total, distance));
  if (laneIndex() == 0)
    totals[warpIndex()] = total;
  syncThreads();
  int carried = neutral; // of all before the tile
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) {
    const int before = totals[warp];
    carried = warp < warpIndex() ? scanStep<IsMax>(carried, before) : carried;
  }
  for (int64_t step = begin; step < end; step += stepSize) {
    load(step);
    int upTo[ahead]; // of a tile's lanes up to this one
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
#pragma unroll
      for (int i = 1; i < 4; ++i)
        v[k].elements[i] = scanStep<IsMax>(v[k].elements[i - 1], v[k].elements[i]);
      upTo[k] = v[k].elements[3];
    }
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2)
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        const int other = shuffleUp(upTo[k], distance);
        upTo[k] = laneIndex() >= distance ? scanStep<IsMax>(other, upTo[k]) : upTo[k];
      }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int lanesBefore = shuffleUp(upTo[k], 1);
      const int before = laneIndex() > 0 ? scanStep<IsMax>(carried, lanesBefore) : carried;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[k].elements[i] = scanStep<IsMax>(before, v[k].elements[i]);
      carried = scanStep<IsMax>(carried, shuffle(upTo[k], 31));
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      scanStore(y, yStride, yVectors, step + k * tileSize + laneIndex() * 4, count, v[k]);
  }
}

} // namespace nano
