// Philox4x32-10 and the distributions, written as loops over short blocks that compilers turn into
// vector code.
#include "runtime/Random.h"

#include <bit>
#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

// Built with -ffp-contract=off: see the promise in the header. The clones give the same bits on
// every machine.
#define NANO_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))

namespace nano {

namespace {

constexpr uint32_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
constexpr uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
constexpr int rounds = 10;

constexpr int blockSize = 64;
/// u and v of blockSize consecutive elements.
struct Block {
  double u[blockSize];
  double v[blockSize];
};

/// (⌊x / 2¹²⌋ + ½) / 2⁵², by putting the 52 bits behind the leading one of a number in [1, 2):
/// exact but for the half, which fits because the difference is below one.
inline double toUnit(uint64_t bits) {
  return std::bit_cast<double>((bits >> 12) | 0x3FF0000000000000u) - (1.0 - 0x1p-53);
}

inline void fillBlock(Block &block, uint64_t first, uint64_t name, uint64_t seed) {
  uint64_t c0[blockSize], c1[blockSize], c2[blockSize], c3[blockSize];
  constexpr uint64_t low = 0xFFFFFFFF;
  for (int i = 0; i < blockSize; ++i) {
    uint64_t element = first + uint64_t(i);
    c0[i] = element & low;
    c1[i] = element >> 32;
    c2[i] = name & low;
    c3[i] = name >> 32;
  }
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < rounds; ++round, k0 += weyl0, k1 += weyl1) {
    for (int i = 0; i < blockSize; ++i) {
      uint64_t p0 = uint64_t(uint32_t(c0[i])) * multiplier0;
      uint64_t p1 = uint64_t(uint32_t(c2[i])) * multiplier1;
      c0[i] = (p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = p1 & low;
      c2[i] = (p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = p0 & low;
    }
  }
  for (int i = 0; i < blockSize; ++i) {
    block.u[i] = toUnit(c1[i] << 32 | c0[i]);
    block.v[i] = toUnit(c3[i] << 32 | c2[i]);
  }
}

/// ln x for a normal x > 0: x = 2ᵏ·m with m in [√½, √2), ln m = 2 artanh(t), t = (m − 1)/(m + 1),
/// by its series in t².
inline double logarithm(double x) {
  uint64_t bits = std::bit_cast<uint64_t>(x);
  uint64_t shifted = bits - 0x3FE6A09E667F3BCD; // so that the exponent counts from √½
  // The exponent as a double, without an integer conversion: put it into the low bits of 2⁵².
  uint64_t biased = (shifted >> 52) + 1024;
  biased &= 2047;
  double k = std::bit_cast<double>(biased | 0x4330000000000000u) - (0x1p52 + 1024.0);
  double m = std::bit_cast<double>((shifted & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCD);
  double t = (m - 1.0) / (m + 1.0);
  double s = t * t;
  double series = 1.0 / 21;
  series = series * s + 1.0 / 19;
  series = series * s + 1.0 / 17;
  series = series * s + 1.0 / 15;
  series = series * s + 1.0 / 13;
  series = series * s + 1.0 / 11;
  series = series * s + 1.0 / 9;
  series = series * s + 1.0 / 7;
  series = series * s + 1.0 / 5;
  series = series * s + 1.0 / 3;
  return k * 0.693147180559945309417 + (2.0 * t + 2.0 * t * s * series);
}

/// cos(2π x) for x in [0, 1): folded to sin of an angle in [−π/2, π/2], then the Taylor series to
/// the 21st power.
inline double cosineOfTurns(double x) {
  double distance = x - 0.5;
  distance =
      distance < 0
          ? -distance
          : distance; // |x − ½| in [0, ½]: cos 2πx = −cos 2π·distance = sin(2π(distance − ¼))
  double a = 6.283185307179586476925 * (distance - 0.25);
  double s = a * a;
  double series = 1.0 / 51090942171709440000.0;
  series = series * s - 1.0 / 121645100408832000.0;
  series = series * s + 1.0 / 355687428096000.0;
  series = series * s - 1.0 / 1307674368000.0;
  series = series * s + 1.0 / 6227020800.0;
  series = series * s - 1.0 / 39916800.0;
  series = series * s + 1.0 / 362880.0;
  series = series * s - 1.0 / 5040.0;
  series = series * s + 1.0 / 120.0;
  series = series * s - 1.0 / 6.0;
  return a + a * s * series;
}

NANO_VECTOR_CLONES void uniformBlock(float *values, uint64_t first, uint64_t name, uint64_t seed,
                                     double low, double high) {
  Block block;
  fillBlock(block, first, name, seed);
  for (int i = 0; i < blockSize; ++i)
    values[i] = float(low + (high - low) * block.u[i]);
}

NANO_VECTOR_CLONES void normalBlock(float *values, uint64_t first, uint64_t name, uint64_t seed,
                                    double mean, double stddev) {
  Block block;
  fillBlock(block, first, name, seed);
  for (int i = 0; i < blockSize; ++i)
    block.u[i] = __builtin_sqrt(-2.0 * logarithm(block.u[i]));
  for (int i = 0; i < blockSize; ++i)
    values[i] = float(mean + stddev * (block.u[i] * cosineOfTurns(block.v[i])));
}

/// Calls makeBlock(values, first element) for whole blocks, the last one through a buffer.
template <typename MakeBlock>
void inBlocks(uint64_t first, std::span<float> values, const MakeBlock &makeBlock) {
  size_t done = 0;
  for (; done + blockSize <= values.size(); done += blockSize)
    makeBlock(values.data() + done, first + done);
  if (done == values.size())
    return;
  float last[blockSize];
  makeBlock(last, first + done);
  std::copy(last, last + (values.size() - done), values.data() + done);
}

} // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    uint64_t p0 = uint64_t(counter[0]) * multiplier0, p1 = uint64_t(counter[2]) * multiplier1;
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1),
               uint32_t(p0 >> 32) ^ counter[3] ^ key[1], uint32_t(p0)};
    key[0] += weyl0;
    key[1] += weyl1;
  }
  return counter;
}

Random::Random(uint64_t seed, std::string_view name)
    : seed(seed), name(XXH64(name.data(), name.size(), 0)) {}

double Random::unit(uint64_t index) const {
  std::array<uint32_t, 4> r =
      philox({uint32_t(index), uint32_t(index >> 32), uint32_t(name), uint32_t(name >> 32)},
             {uint32_t(seed), uint32_t(seed >> 32)});
  return toUnit(uint64_t(r[1]) << 32 | r[0]);
}

void Random::uniform(uint64_t first, std::span<float> values, double low, double high) const {
  inBlocks(first, values, [&](float *out, uint64_t element) {
    uniformBlock(out, element, name, seed, low, high);
  });
}

void Random::normal(uint64_t first, std::span<float> values, double mean, double stddev) const {
  inBlocks(first, values, [&](float *out, uint64_t element) {
    normalBlock(out, element, name, seed, mean, stddev);
  });
}

} // namespace nano
