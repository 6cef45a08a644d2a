// Philox against its authors' known answers, the distributions against the formulas, moments, and
// independence of ranges.
#include "runtime/Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Random, PhiloxKnownAnswers) {
  // From the known-answer file of the authors' library Random123, lines "philox4x32 10".
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// u and v of the header's formulas, straight from `philox`.
std::pair<double, double> units(uint64_t seed, const std::string &name, uint64_t element) {
  uint64_t hash = XXH64(name.data(), name.size(), 0);
  Block r =
      philox({uint32_t(element), uint32_t(element >> 32), uint32_t(hash), uint32_t(hash >> 32)},
             {uint32_t(seed), uint32_t(seed >> 32)});
  auto unit = [](uint32_t high, uint32_t low) {
    return (double((uint64_t(high) << 32 | low) >> 12) + 0.5) / 0x1p52;
  };
  return {unit(r[1], r[0]), unit(r[3], r[2])};
}

TEST(Random, ValuesFollowTheFormulas) {
  const uint64_t seed = 0x123456789abcdef0;
  const uint64_t firsts[] = {0, 63, (uint64_t(1) << 32) - 50};
  Random random(seed, "blocks.3.mlp.c_fc.weight");
  for (uint64_t first : firsts) {
    std::vector<float> uniform(1000), normal(1000);
    random.uniform(first, uniform, -2, 5);
    random.normal(first, normal, 1, 3);
    for (size_t i = 0; i < uniform.size(); ++i) {
      auto [u, v] = units(seed, "blocks.3.mlp.c_fc.weight", first + i);
      EXPECT_EQ(random.unit(first + i), u);
      EXPECT_EQ(uniform[i], float(-2 + 7 * u));
      double expected = 1 + 3 * (std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
      EXPECT_NEAR(normal[i], expected, 1e-6 * std::max(1.0, std::abs(expected))) << first + i;
    }
  }
}

TEST(Random, ElementsDoNotDependOnTheRange) {
  Random random(7, "embed.weight");
  std::vector<float> all(5000);
  random.normal(0, all, 0, 1);
  for (uint64_t first : {0, 1, 17, 64, 4990})
    for (size_t count : {1, 5, 64, 200}) {
      count = std::min<size_t>(count, all.size() - first);
      std::vector<float> part(count);
      random.normal(first, part, 0, 1);
      EXPECT_EQ(std::memcmp(part.data(), all.data() + first, count * sizeof(float)), 0)
          << first << " " << count;
    }
}

TEST(Random, SeedsAndNamesGiveOtherStreams) {
  std::vector<float> a(64), b(64), c(64);
  Random(1, "x").normal(0, a, 0, 1);
  Random(2, "x").normal(0, b, 0, 1);
  Random(1, "y").normal(0, c, 0, 1);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NE(a[i], b[i]);
    EXPECT_NE(a[i], c[i]);
  }
}

TEST(Random, MomentsAndQuantiles) {
  constexpr size_t count = 1 << 20;
  std::vector<float> values(count);
  Random(0, "moments").normal(0, values, 0, 1);
  double sums[5] = {};
  double lag = 0;
  for (size_t i = 0; i < count; ++i) {
    for (int power = 1; power <= 4; ++power)
      sums[power] += std::pow(double(values[i]), power) / count;
    lag += i ? double(values[i]) * values[i - 1] / count : 0;
  }
  // Standard errors of the first four moments and of the lag product, times five.
  const double error = 5 / std::sqrt(double(count));
  EXPECT_NEAR(sums[1], 0, error);
  EXPECT_NEAR(sums[2], 1, error * std::sqrt(2.0));
  EXPECT_NEAR(sums[3], 0, error * std::sqrt(15.0));
  EXPECT_NEAR(sums[4], 3, error * std::sqrt(96.0));
  EXPECT_NEAR(lag, 0, error);

  std::sort(values.begin(), values.end());
  double distance = 0; // Kolmogorov and Smirnov; 1.95 is exceeded once in a thousand times
  for (size_t i = 0; i < count; ++i)
    distance = std::max(distance, std::abs(0.5 * std::erfc(-double(values[i]) / M_SQRT2) -
                                           (double(i) + 0.5) / count));
  EXPECT_LT(distance * std::sqrt(double(count)), 1.95);

  Random(0, "moments").uniform(0, values, 0, 1);
  std::sort(values.begin(), values.end());
  distance = 0;
  for (size_t i = 0; i < count; ++i)
    distance = std::max(distance, std::abs(double(values[i]) - (double(i) + 0.5) / count));
  EXPECT_LT(distance * std::sqrt(double(count)), 1.95);
}

TEST(Random, BitsArePinned) {
  // The same on every machine: a change here changes every seeded run.
  std::vector<float> normal(64), uniform(64);
  Random(42, "pinned").normal(0, normal, 0, 1);
  Random(42, "pinned").uniform(0, uniform, 0, 1);
  EXPECT_EQ(XXH64(normal.data(), 256, 0), 15616736423724027761u);
  EXPECT_EQ(XXH64(uniform.data(), 256, 0), 9286584545705201460u);
}

} // namespace
} // namespace nano
