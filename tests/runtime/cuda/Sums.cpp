// The text of nano_sums.cu as C++, one thread after the other.
#include "tests/runtime/cuda/Sums.h"

#include "runtime/NumberFormats.h"
#include "runtime/cuda/PeerSums.h"
#include "tests/runtime/cuda/HostKernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

namespace nano::test {
namespace {

#include "runtime/cuda/nano_sums.cu"

void run(const FakeCuda::Launch &launch) {
  Parts parts = {};
  std::memcpy(&parts, launch.parameter.data(), sizeof parts);
  asEachThread(launch.blocks, launch.threads, [&] {
    launch.kernel == "nano_sum_bf16" ? nano_sum_bf16(parts) : nano_sum_f32(parts);
  });
}

template <typename T> uint64_t addressOf(const T *values) {
  return std::bit_cast<uint64_t>(values);
}

/// The sum of what three members have, the one in the middle by this rank.
template <typename T>
std::vector<T> sumOf(const std::vector<T> &first, const std::vector<T> &own,
                     const std::vector<T> &last) {
  std::vector<T> others = first, sum(own.size());
  others.insert(others.end(), last.begin(), last.end());
  const cuda::PeerSums::Parts parts = {addressOf(own.data()),
                                       addressOf(others.data()),
                                       addressOf(sum.data()),
                                       own.size(),
                                       own.size() * sizeof(T),
                                       1,
                                       3};
  FakeCuda::Launch launch = {sizeof(T) == 2 ? "nano_sum_bf16" : "nano_sum_f32", 2, 3, 0, {}, {}};
  launch.parameter.resize(sizeof parts / 8);
  std::memcpy(launch.parameter.data(), &parts, sizeof parts);
  run(launch);
  return sum;
}

TEST(PeerSumsTest, AddsInTheOrderOfPlaces) {
  // 1e8 + 1 loses the 1, so that the order shows.
  for (size_t count : {3, 64}) {
    const std::vector<float> sum =
        sumOf(std::vector<float>(count, 1e8F), std::vector<float>(count, 1.0F),
              std::vector<float>(count, -1e8F));
    EXPECT_EQ(sum, std::vector<float>(count, 0.0F));
  }
  const float sum = sumOf<float>({-0.0F}, {-0.0F}, {-0.0F})[0];
  EXPECT_TRUE(std::signbit(sum));
}

TEST(PeerSumsTest, RoundsBf16Once) {
  for (size_t count : {1, 40}) {
    auto all = [&](float value) { return std::vector<uint16_t>(count, toBf16(value)); };
    // 256 + 1 would round to 256, and so would that + 1.
    EXPECT_EQ(sumOf(all(256), all(1), all(1)), all(258));
    EXPECT_EQ(sumOf(all(256), all(0.5F), all(0.5F)), all(256)); // halfway, to the even one
    EXPECT_EQ(sumOf(all(258), all(0.5F), all(0.5F)), all(260));
    const float infinite = std::numeric_limits<float>::infinity();
    EXPECT_EQ(sumOf(all(infinite), all(1), all(1)), all(infinite));
    EXPECT_TRUE(std::isnan(fromBf16(sumOf(all(infinite), all(-infinite), all(1))[0])));
  }
}

} // namespace

void runSums(FakeCuda &fake) {
  for (const char *kernel : {"nano_sum_f32", "nano_sum_bf16"})
    fake.parameterBytes[kernel] = sizeof(cuda::PeerSums::Parts);
  fake.onLaunch = run;
}

} // namespace nano::test
