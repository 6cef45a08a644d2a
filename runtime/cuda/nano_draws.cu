// Random initial values of states, bit for bit those that Random makes. The runtime compiles this
// text with NVRTC, without fusing; see Draws.h.
#include "runtime/RandomNumbers.h"
#include "runtime/cuda/nano_bf16.h"

/// nano::cuda::Draws::Draw.
struct Draw {
  unsigned long long to, first, count, name, seed;
  double a, b;
};

/// u and v of an element, see Random.h.
struct Pair {
  double u, v;
};
inline Pair pairOf(const Draw &draw, unsigned long long element) {
  using namespace nano::numbers;
  const Counter bits =
      philox({{Word(element), Word(element >> 32), Word(draw.name), Word(draw.name >> 32)}},
             Word(draw.seed), Word(draw.seed >> 32));
  return {toUnit(Long(bits.word[1]) << 32 | bits.word[0]),
          toUnit(Long(bits.word[3]) << 32 | bits.word[2])};
}

struct Normal {
  static double of(const Draw &draw, const Pair &pair) {
    const double radius = __dsqrt_rn(-2.0 * nano::numbers::logarithm(pair.u));
    return draw.a + draw.b * (radius * nano::numbers::cosineOfTurns(pair.v));
  }
};
struct Uniform {
  static double of(const Draw &draw, const Pair &pair) {
    return draw.a + (draw.b - draw.a) * pair.u;
  }
};

template <typename Distribution, typename T> void fill(const Draw &draw) {
  const unsigned long long step = (unsigned long long)(gridDim.x) * blockDim.x;
  T *values = reinterpret_cast<T *>(draw.to);
  for (unsigned long long i = blockIdx.x * (unsigned long long)(blockDim.x) + threadIdx.x;
       i < draw.count; i += step)
    narrow(float(Distribution::of(draw, pairOf(draw, draw.first + i))), values[i]);
}

extern "C" __global__ void __launch_bounds__(256) nano_normal_f32(Draw draw) {
  fill<Normal, float>(draw);
}
extern "C" __global__ void __launch_bounds__(256) nano_normal_bf16(Draw draw) {
  fill<Normal, unsigned short>(draw);
}
extern "C" __global__ void __launch_bounds__(256) nano_uniform_f32(Draw draw) {
  fill<Uniform, float>(draw);
}
extern "C" __global__ void __launch_bounds__(256) nano_uniform_bf16(Draw draw) {
  fill<Uniform, unsigned short>(draw);
}
