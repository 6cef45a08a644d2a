// Sums of what the members of a collective's set have, in the order of their places: f32 as it is,
// bf16 in f32 and rounded once. The runtime compiles this text with NVRTC; see PeerSums.h.
#include "runtime/cuda/nano_bf16.h"

using u16 = unsigned short;
using u64 = unsigned long long;

/// PeerSums::Parts.
struct Parts {
  u64 own, others, to, count, stride, place, members;
};

template <typename T, int N> struct alignas(N * sizeof(T)) Pack {
  T values[N];
};

template <typename T, int N> void sum(const Parts &parts) {
  using Some = Pack<T, N>;
  const u64 step = u64(gridDim.x) * blockDim.x;
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < parts.count / N; i += step) {
    float total[N];
    for (float &each : total)
      each = -0.0f; // adds nothing, not even a sign
#pragma unroll 4
    for (u64 place = 0; place < parts.members; ++place) {
      const u64 other = place - (place > parts.place);
      const u64 from = place == parts.place ? parts.own : parts.others + other * parts.stride;
      const Some some = reinterpret_cast<const Some *>(from)[i];
      for (int j = 0; j < N; ++j)
        total[j] += wide(some.values[j]);
    }
    Some result;
    for (int j = 0; j < N; ++j)
      narrow(total[j], result.values[j]);
    reinterpret_cast<Some *>(parts.to)[i] = result;
  }
}

template <typename T> void sumAll(const Parts &parts) {
  if ((parts.own | parts.others | parts.to | parts.stride | parts.count * sizeof(T)) % 16 == 0)
    sum<T, 16 / sizeof(T)>(parts);
  else
    sum<T, 1>(parts);
}

extern "C" __global__ void __launch_bounds__(512) nano_sum_f32(Parts parts) {
  sumAll<float>(parts);
}
extern "C" __global__ void __launch_bounds__(512) nano_sum_bf16(Parts parts) { sumAll<u16>(parts); }
