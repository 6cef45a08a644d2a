// Philox4x32-10 and the distributions, written as loops over short blocks that compilers turn into
// vector code.
#include "runtime/Random.h"
#include "runtime/RandomNumbers.h"

#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

// Built with -ffp-contract=off: see the promise in the header. The clones give the same bits on
// every machine.
#define NANO_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))

namespace nano {

namespace {

using namespace numbers;

constexpr int blockSize = 64;
/// u and v of blockSize consecutive elements.
struct Block {
  double u[blockSize];
  double v[blockSize];
};

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
  const Counter bits =
      numbers::philox({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {bits.word[0], bits.word[1], bits.word[2], bits.word[3]};
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
