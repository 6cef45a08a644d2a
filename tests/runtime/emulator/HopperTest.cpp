// Mbarriers, bulk copies, clusters and products of warpgroups: what they do, and the faults that
// they are used with.
#include "runtime/NumberFormats.h"
#include "tests/runtime/emulator/KernelRun.h"

#include <cmath>
#include <gmock/gmock.h>
#include <numeric>
#include <random>

namespace nano::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// 32 threads with 128 floats to read, when it reads, and 128 to write.
struct Pair {
  std::string kernel;
  bool reads = true;
  uint32_t threads = 32;
  size_t inputs = 128, outputs = 128;

  KernelRun make(const char *variant) const {
    KernelRun run("hopper.cu", kernel + variant);
    if (reads) {
      std::vector<float> values(inputs);
      std::iota(values.begin(), values.end(), 1.0f);
      run.input(values);
    }
    run.output<float>(outputs).threads(threads);
    return run;
  }
  /// What the whole kernel writes; it must pass under every schedule.
  std::vector<float> result(bool checked) const {
    KernelRun run = make("_good");
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(run.run(checked), "") << kernel;
    return run.result<float>(reads ? 1 : 0);
  }
  template <typename Matcher> void expectFault(const Matcher &matcher) const {
    result(true);
    if (isOnGpu)
      return;
    KernelRun run = make("_bad");
    for (int i = 0; i < 5; ++i)
      EXPECT_THAT(run.run(), AllOf(HasSubstr("kernel '" + kernel + "_bad' (hopper.cu)"), matcher));
  }
};

std::string at(const std::string &mark) { return "(" + lineOf("hopper.cu", mark) + ")"; }

const Pair pipeline = {.kernel = "pipeline", .threads = 160, .inputs = 1280};

TEST(EmulatorHopper, PipelineOfBulkLoads) {
  for (bool checked : {true, false}) {
    std::vector<float> got = pipeline.result(checked);
    for (size_t i = 0; i < 128; ++i)
      EXPECT_EQ(got[i], float(10 * (128 - i) + 128 * 45)) << i;
  }
}

TEST(EmulatorHopper, MbarrierThatOneThreadDoesNotWaitFor) {
  pipeline.expectFault(AllOf(HasSubstr("thread 77: missing wait: reads 4 bytes"),
                             HasSubstr(at("pipeline")), HasSubstr("to which a copy ")));
}

TEST(EmulatorHopper, BytesThatNeverCome) {
  EXPECT_EQ(Pair{.kernel = "try_wait"}.result(false)[0], 32.0f);
  Pair{.kernel = "try_wait"}.expectFault(
      AllOf(HasSubstr("deadlock: 32 threads wait in mbarrierTryWait "), HasSubstr(at("try_wait"))));
}

TEST(EmulatorHopper, BulkStores) {
  for (bool checked : {true, false}) {
    std::vector<float> got = Pair{.kernel = "store_reuse", .reads = false}.result(checked);
    for (size_t i = 0; i < 96; ++i)
      EXPECT_EQ(got[i], float(i));
  }
  Pair{.kernel = "store_reuse", .reads = false}.expectFault(
      AllOf(HasSubstr("missing wait: writes 4 bytes"), HasSubstr(at("store_reuse")),
            HasSubstr("which an operation may still read")));
  Pair{.kernel = "store_end", .reads = false}.expectFault(
      AllOf(HasSubstr("ends before its bulk store " + at("store_end")),
            HasSubstr("bulkWaitRead or bulkWait is missing")));
}

TEST(EmulatorHopper, MissingProxyFence) {
  Pair{.kernel = "store_fence", .reads = false}.expectFault(
      AllOf(HasSubstr("missing fence: reads 128 bytes"), HasSubstr(at("store_fence")),
            HasSubstr(at("store_fence_write")), HasSubstr("with no fenceProxyAsync")));
}

TEST(EmulatorHopper, LoadThatNobodyWaitsFor) {
  Pair{.kernel = "load_end"}.expectFault(
      AllOf(HasSubstr("ends while its bulk load " + at("load_end") + " is under way"),
            HasSubstr("nothing waits for its mbarrier")));
}

TEST(EmulatorHopper, MbarriersThatAreNotReady) {
  Pair{.kernel = "init_fence"}.expectFault(
      AllOf(HasSubstr("missing fence: bulkLoad " + at("init_fence")),
            HasSubstr("with no fenceMbarrierInit after it")));
  Pair{.kernel = "init_race", .reads = false}.expectFault(
      AllOf(HasSubstr("mbarrierArrive " + at("init_race")),
            testing::AnyOf(HasSubstr("race: "), HasSubstr("where none was initialised"))));
}

TEST(EmulatorHopper, MisusedMbarriers) {
  Pair{.kernel = "arrivals", .reads = false}.expectFault(
      HasSubstr("misused mbarrier: arrival " + at("arrivals") + " beyond the 31 of the phase"));
  Pair{.kernel = "parity", .reads = false}.expectFault(
      HasSubstr("deadlock: 32 threads wait in mbarrierWait " + at("parity")));
  Pair{.kernel = "barrier_bytes", .reads = false}.expectFault(
      AllOf(HasSubstr("misused mbarrier: writes 8 bytes"), HasSubstr(at("barrier_bytes"))));
}

TEST(EmulatorHopper, MisalignedBulkLoad) {
  Pair{.kernel = "bulk_misaligned"}.expectFault(
      AllOf(HasSubstr("bulkLoad " + at("bulk_misaligned") + ": misaligned: byte "),
            HasSubstr("is no multiple of 16")));
}

TEST(EmulatorHopper, CopiesThatArriveAtAnMbarrier) {
  EXPECT_EQ(Pair{.kernel = "copy_arrive"}.result(false)[3], 125.0f);
  Pair{.kernel = "copy_arrive"}.expectFault(HasSubstr(at("copy_arrive")));
}

TEST(EmulatorHopper, Clusters) {
  std::vector<float> x(64);
  std::iota(x.begin(), x.end(), 1.0f);
  auto make = [&](const char *kernel) {
    KernelRun run("cluster.cu", kernel);
    run.input(x).output<float>(128).blocks(4).cluster(2).shared(1024);
    return run;
  };
  for (bool checked : {true, false}) {
    KernelRun run = make("cluster_good");
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(run.run(checked), "");
    auto got = run.result<float>(1);
    for (size_t i = 0; i < 128; ++i)
      EXPECT_EQ(got[i], 65.0f + 1000.0f * float(100 + ((i / 32) ^ 1))) << i;
  }
  if (isOnGpu)
    return;
  EXPECT_THAT(make("cluster_bad").run(),
              AllOf(HasSubstr("clusterShared (" + lineOf("cluster.cu", "cluster") + ")"),
                    HasSubstr("is not in the cluster of 2")));
  EXPECT_THAT(make("cluster_good").blocks(3).run(),
              HasSubstr("the grid of 3 blocks is no multiple of the cluster's 2"));
  EXPECT_THAT(
      KernelRun("cluster_static.cu", "cluster_static").output<float>(64).blocks(2).cluster(2).run(),
      HasSubstr("keeps its shared memory in dynamicShared here"));
}

/// Arrivals from another block say what was read, and what was written only those that show it.
TEST(EmulatorHopper, WritesThatARemoteArrivalDoesNotShow) {
  auto make = [](const char *kernel) {
    KernelRun run("cluster.cu", kernel);
    run.output<float>(64).blocks(2).cluster(2).shared(1024);
    return run;
  };
  for (const char *kernel : {"told_good", "told_shown"}) {
    KernelRun run = make(kernel);
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(run.run(), "");
    auto got = run.result<float>(0);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], i < 32 ? 1.0f : 0.0f) << i;
  }
  if (isOnGpu)
    return;
  auto place = [](const char *mark) { return "(" + lineOf("cluster.cu", mark) + ")"; };
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(make("told_bad").run(),
                AllOf(HasSubstr("race: reads 4 bytes"), HasSubstr(place("told")),
                      HasSubstr("written by thread "), HasSubstr(place("told_write")),
                      HasSubstr("with no barrier in between")));
}

/// A store to another block is seen by those who wait for its mbarrier, and by nobody before.
TEST(EmulatorHopper, StoresThatAnotherBlockWaitsFor) {
  auto make = [](const char *kernel) {
    KernelRun run("cluster.cu", kernel);
    run.output<float>(64).blocks(2).cluster(2).shared(1024);
    return run;
  };
  KernelRun run = make("given_good");
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(run.run(), "");
  auto got = run.result<float>(0);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], float(3 * (31 - i % 32)) + (i < 32 ? 3300.0f : 3000.0f)) << i;
  if (isOnGpu)
    return;
  auto place = [](const char *mark) { return "(" + lineOf("cluster.cu", mark) + ")"; };
  EXPECT_THAT(make("given_bad").run(), AllOf(testing::AnyOf(HasSubstr("uninitialised: reads"),
                                                            HasSubstr("missing wait: reads")),
                                             HasSubstr(place("given"))));
}

// ------------------------------------------------------------------- Products of warpgroups

/// 64 rows of 64 whole numbers in bf16, or of 128 in f8.
std::vector<uint8_t> randomRows(uint32_t seed, float (*decode)(uint8_t)) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> number(-3, 3);
  std::vector<uint8_t> bytes(64 * 128);
  for (size_t i = 0; i < bytes.size(); i += decode ? 1 : 2) {
    auto value = float(number(random));
    if (!decode) {
      uint16_t bits = toBf16(value);
      bytes[i] = uint8_t(bits);
      bytes[i + 1] = uint8_t(bits >> 8);
      continue;
    }
    while (decode(bytes[i]) != value)
      ++bytes[i];
  }
  return bytes;
}

float valueOf(const std::vector<uint8_t> &rows, float (*decode)(uint8_t), size_t row, size_t k) {
  if (decode)
    return decode(rows[row * 128 + k]);
  return fromBf16(uint16_t(rows[row * 128 + 2 * k] | rows[row * 128 + 2 * k + 1] << 8));
}

KernelRun warpgroupRun(const std::string &kernel, const std::vector<uint8_t> &a,
                       const std::vector<uint8_t> &b) {
  // The kernels see words; what they are made of is bytes.
  KernelRun run("warpgroup.cu", kernel);
  run.input(a).input(b).output<float>(64 * 64).threads(128).shared(16384);
  return run;
}

TEST(EmulatorHopper, ProductsOfWarpgroups) {
  for (bool checked : {true, false})
    for (const char *kernel : {"k_128", "k_64", "k_32", "k_none", "k_f8", "along_n_good"}) {
      bool isF8 = kernel == std::string("k_f8"), isAlongN = kernel[0] == 'a';
      auto left = isF8 ? fromE4m3 : nullptr, right = isF8 ? fromE5m2 : nullptr;
      std::vector<uint8_t> a = randomRows(1, left), b = randomRows(2, right);
      KernelRun run = warpgroupRun(kernel, a, b);
      ASSERT_EQ(run.run(checked), "") << kernel;
      auto got = run.result<float>(2);
      for (size_t m = 0; m < 64; ++m)
        for (size_t n = 0; n < 64; ++n) {
          float want = 0;
          for (size_t k = 0; k < (isF8 ? 128 : 64); ++k)
            want += valueOf(a, left, m, k) *
                    (isAlongN ? valueOf(b, right, k, n) : valueOf(b, right, n, k));
          ASSERT_EQ(got[m * 64 + n], want) << kernel << " " << m << " " << n;
        }
    }
}

/// Beside 384, the tensor cores see two products of 1.5 · 2⁻⁵, which two instructions multiply, as
/// 2⁻⁵ each.
TEST(EmulatorHopper, ProductsOf8BitsAreCutOffBelowTheLargest) {
  auto codeOf = [](float value, float (*decode)(uint8_t)) {
    uint8_t bits = 0;
    while (decode(bits) != value)
      ++bits;
    return bits;
  };
  const float unit = 1.0f / 32;
  std::vector<uint8_t> a(64 * 128), b(64 * 128);
  for (size_t row = 0; row < 64; ++row) {
    a[row * 128] = codeOf(24, fromE4m3);
    b[row * 128] = codeOf(row % 2 ? 0 : 16, fromE5m2);
    for (size_t k : {1, 33}) {
      a[row * 128 + k] = codeOf(row % 4 < 2 ? 1.5f * unit : -1.5f * unit, fromE4m3);
      b[row * 128 + k] = codeOf(1, fromE5m2);
    }
  }
  KernelRun run = warpgroupRun("k_f8", a, b);
  ASSERT_EQ(run.run(), "");
  const auto got = run.result<float>(2);
  for (size_t m = 0; m < 64; ++m)
    for (size_t n = 0; n < 64; ++n) {
      const float sign = m % 4 < 2 ? 1.0f : -1.0f;
      ASSERT_EQ(got[m * 64 + n], n % 2 ? 3 * sign * unit : 384 + 2 * sign * unit) << m << " " << n;
    }
}

TEST(EmulatorHopper, MisusedProductsOfWarpgroups) {
  std::vector<uint8_t> a = randomRows(1, nullptr), b = randomRows(2, nullptr);
  auto place = [](const std::string &mark) { return "(" + lineOf("warpgroup.cu", mark) + ")"; };
  auto expectFault = [&](const std::string &kernel, const auto &matcher) {
    EXPECT_EQ(warpgroupRun(kernel + "_good", a, b).run(), "");
    if (isOnGpu)
      return;
    EXPECT_THAT(warpgroupRun(kernel + "_bad", a, b).run(), matcher);
  };
  expectFault("along_n", AllOf(HasSubstr("missing fence: warpgroupMultiply "),
                               HasSubstr("with no warpgroupFence")));
  expectFault("operand_fence",
              AllOf(HasSubstr("missing fence: reads 16 bytes"), HasSubstr(place("operand_fence")),
                    HasSubstr("with no fenceProxyAsync")));
  expectFault("operand_reuse",
              AllOf(HasSubstr("missing wait: writes 1 byte "), HasSubstr(place("operand_reuse")),
                    HasSubstr("which an operation may still read")));
  expectFault("sums_wait", AllOf(HasSubstr("ends before its product of a warpgroup "),
                                 HasSubstr("warpgroupWait is missing")));
  if (isOnGpu)
    return;
  // In fast runs too, sums hold nothing before the wait.
  KernelRun run = warpgroupRun("sums_wait_bad", a, b);
  EXPECT_THAT(run.run(false), HasSubstr("warpgroupWait is missing"));
  for (float value : run.result<float>(2))
    EXPECT_TRUE(std::isnan(value));
}

} // namespace
} // namespace nano::test
