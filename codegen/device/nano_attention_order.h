// Which tiles of an attention op a block computes when as many blocks run as a GPU holds: all see
// the same costs and find the same order, the dear ones first. Included by nano_attention_runs.h.
#pragma once

namespace nano::order {

constexpr int classes = 16; ///< costs are sorted into

NANO_DEVICE int countBits(uint32_t x) {
  x -= (x >> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >> 2) & 0x33333333);
  return int((((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101) >> 24);
}

/// Memory of sortByCost in shared memory; `order` is its result.
template <int units, int threads> struct Scratch {
  static constexpr int warps = threads / 32;
  int cost[units], places[classes * warps], largest[warps];
  uint16_t order[units];
};

/// Puts units 0 … units − 1 in the order of the classes of their costs, the largest first, and
/// within a class in their own. By all threads, who may read the order afterwards.
template <int units, int threads, class Cost>
NANO_DEVICE void sortByCost(Scratch<units, threads> &scratch, Cost cost) {
  constexpr int warps = threads / 32, span = int(divideUp(units, 32 * warps)) * 32,
                entries = classes * warps, ofLane = entries / 32;
  static_assert(entries % 32 == 0 && warps <= 32 && units < 65536);
  const int lane = laneIndex(), warp = warpIndex(), from = warp * span;
  int largest = 0;
  for (int unit = from + lane; unit < smaller(from + span, units); unit += 32) {
    const int mine = cost(unit);
    scratch.cost[unit] = mine;
    largest = larger(largest, mine);
  }
  largest = warpMax(largest);
  if (lane == 0)
    scratch.largest[warp] = largest;
  syncThreads();
  largest = warpMax(scratch.largest[lane < warps ? lane : 0]);
  const float ofOne = classes * 0.9999f / float(larger(largest, 1));
  // body(its class, the warp's units in that class as bits, class) for every class.
  auto forClasses = [&](int unit, auto body) {
    const int own = unit < units ? classes - 1 - int(float(scratch.cost[unit]) * ofOne) : classes;
#pragma unroll
    for (int c = 0; c < classes; ++c)
      body(own == c, ballot(own == c), c);
  };
  int place = 0; // of the class with the lane's number
  for (int unit = from + lane; unit < from + span; unit += 32)
    forClasses(unit, [&](bool, uint32_t all, int c) { place += lane == c ? countBits(all) : 0; });
  if (lane < classes)
    scratch.places[lane * warps + warp] = place;
  syncThreads();
  if (warp == 0) {
    int counts[ofLane], sum = 0;
#pragma unroll
    for (int i = 0; i < ofLane; ++i)
      sum += counts[i] = scratch.places[lane * ofLane + i];
    int before = sum;
#pragma unroll
    for (int delta = 1; delta < 32; delta *= 2) {
      const int other = shuffleUp(before, delta);
      before += lane >= delta ? other : 0;
    }
    before -= sum;
#pragma unroll
    for (int i = 0; i < ofLane; ++i) {
      scratch.places[lane * ofLane + i] = before;
      before += counts[i];
    }
  }
  syncThreads();
  place = lane < classes ? scratch.places[lane * warps + warp] : 0;
  for (int unit = from + lane; unit < from + span; unit += 32)
    forClasses(unit, [&](bool isOwn, uint32_t all, int c) {
      const int first = shuffle(place, c);
      if (isOwn)
        scratch.order[first + countBits(all & ((1u << lane) - 1))] = uint16_t(unit);
      place += lane == c ? countBits(all) : 0;
    });
  syncThreads();
}

} // namespace nano::order
