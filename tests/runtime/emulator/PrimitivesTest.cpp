// What each primitive does, in checked and in fast runs.
#include "runtime/NumberFormats.h"
#include "tests/runtime/emulator/KernelRun.h"

#include <array>
#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace nano::test {
namespace {

KernelRun primitive(const std::string &kernel) { return {"primitives.cu", kernel}; }

/// Runs it, checked or fast, and expects that nothing is wrong.
void expectRuns(KernelRun &run, bool checked) { EXPECT_EQ(run.run(checked), ""); }

class EmulatorPrimitives : public testing::TestWithParam<bool> {};

TEST_P(EmulatorPrimitives, Shuffles) {
  KernelRun run = primitive("shuffles");
  run.output<uint32_t>(256);
  expectRuns(run, GetParam());
  auto got = run.result<uint32_t>(0);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[lane], 105u);
    EXPECT_EQ(got[32 + lane], 100 + (lane + 1) % 32);
    EXPECT_EQ(got[64 + lane], 100 + (lane ^ 4));
    EXPECT_EQ(got[96 + lane], 100 + (lane + 3 < 32 ? lane + 3 : lane));
    EXPECT_EQ(got[128 + lane], 100 + (lane >= 2 ? lane - 2 : lane));
    EXPECT_EQ(got[160 + lane], 107 + (lane ^ 1));
    EXPECT_EQ(std::bit_cast<float>(got[192 + lane]), 131.0f);
    EXPECT_EQ(got[224 + lane], 100 + (lane ^ (lane % 2 ? 2 : 4)));
  }
}

TEST_P(EmulatorPrimitives, Votes) {
  std::vector<float> x(32);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float &value : x)
    value = normal(random);
  KernelRun run = primitive("votes");
  run.input(x).output<uint32_t>(288);
  expectRuns(run, GetParam());
  uint32_t positive = 0;
  for (uint32_t lane = 0; lane < 32; ++lane)
    positive |= uint32_t(x[lane] > 0) << lane;
  std::vector<float> sum = x;
  for (size_t distance = 16; distance > 0; distance /= 2) {
    std::vector<float> before = sum;
    for (size_t lane = 0; lane < 32; ++lane)
      sum[lane] = before[lane] + before[lane ^ distance];
  }
  auto got = run.result<uint32_t>(1);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[lane], positive);
    EXPECT_EQ(got[32 + lane], 2u);
    EXPECT_EQ(got[64 + lane], 1u);
    EXPECT_EQ(std::bit_cast<float>(got[96 + lane]), sum[0]);
    EXPECT_EQ(std::bit_cast<float>(got[128 + lane]), *std::max_element(x.begin(), x.end()));
    EXPECT_EQ(int32_t(got[160 + lane]), 31 * 32 / 2 - 40 * 32);
    EXPECT_EQ(int32_t(got[192 + lane]), -9);
    EXPECT_EQ(got[224 + lane], 0xf0000000u);
    EXPECT_EQ(got[256 + lane], lane == 0 ? 1u : 0u);
  }
}

/// The number of the format closest to `value`, the even one of two; the largest when it is beyond.
uint8_t nearest(float value, float (*decode)(uint8_t), uint8_t largest) {
  double magnitude = std::min(std::fabs(double(value)), double(decode(largest)));
  uint8_t best = 0;
  for (uint8_t code = 0; code <= largest; ++code) {
    double distance = std::fabs(double(decode(code)) - magnitude);
    double least = std::fabs(double(decode(best)) - magnitude);
    if (distance < least || (distance == least && code % 2 == 0))
      best = code;
  }
  return uint8_t(best | (std::signbit(value) ? 0x80 : 0));
}

TEST_P(EmulatorPrimitives, RoundsLikeTheFormatsSay) {
  // All f8 numbers, the middles between neighbours, what is just beside them, and special values.
  std::vector<float> x = {0.0f,
                          -0.0f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::min(),
                          1e-30f,
                          -447.9f,
                          1e5f};
  for (auto decode : {fromE4m3, fromE5m2})
    for (int code = 0; code < 0x7b; ++code) {
      float low = decode(uint8_t(code)), high = decode(uint8_t(code + 1)),
            middle = (low + high) / 2;
      for (float value :
           {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
        x.push_back(value);
        x.push_back(-value);
      }
    }
  std::mt19937 random(2);
  while (x.size() % 256 || x.size() < 8192)
    x.push_back(std::bit_cast<float>(uint32_t(random())));
  KernelRun run = primitive("encode");
  run.input(x).output<uint16_t>(x.size()).output<uint8_t>(x.size()).output<uint8_t>(x.size());
  run.output<uint32_t>(x.size()).output<uint32_t>(x.size());
  run.threads(256).blocks(int64_t(x.size() / 256));
  expectRuns(run, GetParam());
  auto bf16 = run.result<uint16_t>(1);
  auto e4m3 = run.result<uint8_t>(2), e5m2 = run.result<uint8_t>(3);
  auto pairs = run.result<uint32_t>(4), quads = run.result<uint32_t>(5);
  for (size_t i = 0; i < x.size(); ++i) {
    bool isNan = std::isnan(x[i]);
    EXPECT_EQ(bf16[i], isNan ? 0x7fff : toBf16(x[i])) << x[i];
    EXPECT_EQ(e4m3[i], isNan ? 0x7f : nearest(x[i], fromE4m3, 0x7e)) << x[i];
    EXPECT_EQ(e5m2[i], isNan ? 0x7f : nearest(x[i], fromE5m2, 0x7b)) << x[i];
    uint32_t minus16 = isNan ? 0x7fff : bf16[i] ^ 0x8000u;
    EXPECT_EQ(pairs[i], bf16[i] | minus16 << 16);
    uint32_t first = e4m3[i] | uint32_t(isNan ? 0x7f : e4m3[i] ^ 0x80) << 8;
    uint32_t second = e5m2[i] | uint32_t(isNan ? 0x7f : e5m2[i] ^ 0x80) << 8;
    EXPECT_EQ(quads[i], first | second << 16);
  }
}

/// Equal bits, or both NaN.
void expectSameNumber(float got, float want, size_t code) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << code;
  else
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << code;
}

TEST_P(EmulatorPrimitives, DecodesEveryCode) {
  KernelRun run = primitive("decode");
  run.output<float>(65536).output<float>(256).output<float>(256).output<float>(256);
  run.threads(256).blocks(256);
  expectRuns(run, GetParam());
  auto bf16 = run.result<float>(0), e4m3 = run.result<float>(1), e5m2 = run.result<float>(2);
  for (size_t code = 0; code < 65536; ++code)
    expectSameNumber(bf16[code], fromBf16(uint16_t(code)), code);
  for (size_t code = 0; code < 256; ++code) {
    expectSameNumber(e4m3[code], fromE4m3(uint8_t(code)), code);
    expectSameNumber(e5m2[code], fromE5m2(uint8_t(code)), code);
  }
  EXPECT_THAT(run.result<float>(3), testing::Each(1.0f));
}

TEST_P(EmulatorPrimitives, SelectsBytes) {
  KernelRun run = primitive("select_bytes");
  run.output<uint32_t>(64).threads(64);
  expectRuns(run, GetParam());
  auto got = run.result<uint32_t>(0);
  for (uint32_t i = 0; i < 64; ++i) // byte n of both words is 0x11·(n + 1)
    EXPECT_EQ(got[i], 0x11000000 * (i % 8 + 1) + 0x110000 * (i / 8 + 1) + 0x1100 * (i % 8 + 1) +
                          0x11 * (i / 8 + 1));
}

TEST_P(EmulatorPrimitives, LoadsAndStores) {
  std::vector<uint8_t> x(5 * 1024);
  std::iota(x.begin(), x.end(), uint8_t(1));
  KernelRun run = primitive("moves");
  run.input(x).output<uint8_t>(x.size());
  expectRuns(run, GetParam());
  auto got = run.result<uint8_t>(1);
  size_t bytes = 16;
  for (size_t part = 0; part < 5; ++part, bytes /= 2)
    for (size_t i = 0; i < 1024; ++i)
      EXPECT_EQ(got[1024 * part + i], i < 32 * bytes ? x[1024 * part + i] : 0) << part << " " << i;
}

TEST_P(EmulatorPrimitives, WholeStores) {
  std::vector<uint64_t> x(96);
  std::iota(x.begin(), x.end(), uint64_t(1) << 40);
  KernelRun run = primitive("whole_stores");
  run.input(x).output<uint64_t>(x.size());
  expectRuns(run, GetParam());
  auto got = run.result<uint64_t>(1);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(got[i], x[2 * (31 - i / 2) + i % 2]) << i;
  for (size_t i = 64; i < 96; ++i)
    EXPECT_EQ(got[i], x[64 + 95 - i]) << i;
}

TEST_P(EmulatorPrimitives, AddsInMemory) {
  std::vector<float> x(128);
  std::iota(x.begin(), x.end(), 0.5f);
  KernelRun run = primitive("adds_in_memory");
  run.input(x).output<float>(x.size());
  expectRuns(run, GetParam());
  const auto got = run.result<float>(1);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(got[i], x[i] + x[4 * (31 - i / 4) + i % 4]) << i;
}

TEST_P(EmulatorPrimitives, MatrixFragments) {
  std::vector<uint16_t> x(256);
  std::iota(x.begin(), x.end(), uint16_t(1000));
  KernelRun load = primitive("load_matrix");
  load.input(x).output<uint32_t>(448);
  expectRuns(load, GetParam());
  auto got = load.result<uint32_t>(1);
  // The manual's layouts: lane 4g + p holds elements (g, 2p) and (g, 2p + 1), or their mirrors.
  auto plain = [&](size_t matrix, size_t lane) {
    size_t at = 64 * matrix + lane / 4 * 8 + lane % 4 * 2;
    return x[at] | uint32_t(x[at + 1]) << 16;
  };
  auto turned = [&](size_t matrix, size_t lane) {
    size_t at = 64 * matrix + lane % 4 * 16 + lane / 4;
    return x[at] | uint32_t(x[at + 8]) << 16;
  };
  for (size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[lane], plain(0, lane));
    EXPECT_EQ(got[32 + lane], turned(0, lane));
    for (size_t i = 0; i < 4; ++i) {
      if (i < 2) {
        EXPECT_EQ(got[64 + 32 * i + lane], plain(i, lane));
        EXPECT_EQ(got[256 + 32 * i + lane], turned(i, lane));
      }
      EXPECT_EQ(got[128 + 32 * i + lane], plain(i, lane));
      EXPECT_EQ(got[320 + 32 * i + lane], turned(i, lane));
    }
  }
  KernelRun store = primitive("store_matrix");
  store.input(x).output<uint16_t>(256).output<uint16_t>(256);
  expectRuns(store, GetParam());
  EXPECT_EQ(store.result<uint16_t>(1), x);
  auto mirrored = store.result<uint16_t>(2);
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(mirrored[i / 64 * 64 + i % 8 * 8 + i / 8 % 8], x[i]);
}

TEST_P(EmulatorPrimitives, Products) {
  struct Case {
    const char *kernel;
    float (*left)(uint8_t), (*right)(uint8_t); ///< null: bf16
  };
  for (const Case &each :
       {Case{"product_bf16", nullptr, nullptr}, Case{"product_e4m3", fromE4m3, fromE4m3},
        Case{"product_e5m2", fromE5m2, fromE5m2}, Case{"product_mixed", fromE4m3, fromE5m2},
        Case{"product_mixed_too", fromE5m2, fromE4m3}}) {
    size_t k = each.left ? 32 : 16;
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> a(256), b(128);
    // Small whole numbers: the sums are exact in any order.
    auto fill = [&](std::vector<uint16_t> &words, float (*decode)(uint8_t)) {
      for (uint16_t &word : words) {
        uint16_t bits = 0;
        for (int half = 0; half < (decode ? 2 : 1); ++half) {
          float value = std::round(2 * normal(random));
          uint16_t code =
              decode ? nearest(value, decode, decode == fromE4m3 ? 0x7e : 0x7b) : toBf16(value);
          bits = uint16_t(bits | code << (8 * half));
        }
        word = bits;
      }
    };
    fill(a, each.left);
    fill(b, each.right);
    auto value = [&](const std::vector<uint16_t> &words, float (*decode)(uint8_t), size_t at) {
      return decode ? decode(uint8_t(words[at / 2] >> (at % 2 * 8))) : fromBf16(words[at]);
    };
    KernelRun run = primitive(each.kernel);
    run.input(a).input(b).output<float>(128);
    expectRuns(run, GetParam());
    auto got = run.result<float>(2);
    for (size_t m = 0; m < 16; ++m)
      for (size_t n = 0; n < 8; ++n) {
        float want = 1;
        for (size_t i = 0; i < k; ++i)
          want += value(a, each.left, m * k + i) * value(b, each.right, n * k + i);
        EXPECT_EQ(got[m * 8 + n], want) << each.kernel << " " << m << " " << n;
      }
  }
}

/// What is added to 1 is cut below 2^-25, and the sum, towards zero, below its last bit.
TEST_P(EmulatorPrimitives, ProductsAreCut) {
  const std::vector<uint16_t> a(256, toBf16(0x1p-13f));
  std::vector<uint16_t> b(128, toBf16(0));
  auto fill = [&](size_t column, float value, size_t count) {
    std::fill_n(b.begin() + std::ptrdiff_t(16 * column), count, toBf16(value));
  };
  fill(0, 0x1p-13f, 16);
  fill(1, 0x1p-12f, 16);
  fill(2, 0x1p-12f, 3);
  fill(3, -0x1p-12f, 1);
  KernelRun run = primitive("product_bf16");
  run.input(a).input(b).output<float>(128);
  expectRuns(run, GetParam());
  auto got = run.result<float>(2);
  const std::array<float, 8> want = {1, 1 + 0x1p-21f, 1, 1 - 0x1p-24f, 1, 1, 1, 1};
  for (size_t i = 0; i < 128; ++i)
    EXPECT_EQ(got[i], want[i % 8]);
}

TEST_P(EmulatorPrimitives, Copies) {
  std::vector<uint8_t> x(6 * 512);
  std::iota(x.begin(), x.end(), uint8_t(3));
  KernelRun run = primitive("copies");
  run.input(x).output<uint8_t>(x.size());
  expectRuns(run, GetParam());
  auto got = run.result<uint8_t>(1);
  size_t bytes[] = {16, 8, 4, 16, 8, 4};
  for (size_t part = 0; part < 6; ++part)
    for (size_t i = 0; i < 32 * bytes[part]; ++i) {
      size_t valid = part < 3 ? bytes[part] : i / bytes[part] % (bytes[part] + 1);
      EXPECT_EQ(got[512 * part + i], i % bytes[part] < valid ? x[512 * part + i] : 0)
          << part << " " << i;
    }
}

TEST_P(EmulatorPrimitives, BlocksSum) {
  std::vector<float> x(4 * 128);
  std::iota(x.begin(), x.end(), 0.0f);
  KernelRun run = primitive("block_sum");
  run.input(x).output<float>(12).threads(128).blocks(4);
  expectRuns(run, GetParam());
  auto got = run.result<float>(1);
  for (size_t block = 0; block < 4; ++block) {
    size_t sum = 128 * 127 / 2 + 128 * 128 * block;
    EXPECT_EQ(got[3 * block], float(sum));
    EXPECT_EQ(got[3 * block + 1], block == 0 ? 1.0f : 0.0f);
    EXPECT_EQ(got[3 * block + 2], block < 2 ? 1.0f : 0.0f);
  }
}

TEST_P(EmulatorPrimitives, NamedBarriers) {
  std::vector<float> x(256);
  std::iota(x.begin(), x.end(), 0.0f);
  KernelRun run = primitive("producer_consumer");
  run.input(x).output<float>(32).threads(64);
  for (int i = 0; i < 5; ++i)
    expectRuns(run, GetParam());
  auto got = run.result<float>(1);
  for (size_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(got[lane], float(8 * (31 - lane) + 32 * 28));
}

TEST_P(EmulatorPrimitives, Atomics) {
  KernelRun run = primitive("atomics");
  run.inputOutput(std::vector<uint32_t>{0, 0, 0, uint32_t(-1000000), 0}).threads(64).blocks(16);
  expectRuns(run, GetParam());
  EXPECT_EQ(run.result<uint32_t>(0),
            (std::vector<uint32_t>{1024 * 1023 / 2, 1023, uint32_t(-1024), uint32_t(-5), ~0u}));
}

TEST_P(EmulatorPrimitives, Functions) {
  std::vector<float> x(32);
  for (size_t i = 0; i < 32; ++i)
    x[i] = 0.1f + 0.25f * float(i);
  constexpr size_t rows = 30;
  KernelRun run = primitive("functions");
  run.input(x).output<float>(32 * rows);
  expectRuns(run, GetParam());
  auto got = run.result<float>(1);
  for (size_t i = 0; i < 32; ++i) {
    double v = x[i];
    std::array<double, rows> want = {std::exp(v),
                                     std::exp2(v),
                                     std::expm1(v),
                                     std::log(v),
                                     std::log2(v),
                                     std::log1p(v),
                                     std::pow(v, 1.5),
                                     std::sin(v),
                                     std::cos(v),
                                     std::tanh(v),
                                     std::erf(v),
                                     std::sqrt(v),
                                     v * v + 1,
                                     std::floor(v),
                                     std::ceil(v),
                                     std::nearbyint(v),
                                     v,
                                     -v,
                                     std::max(v, 1.0),
                                     std::min(v, 1.0),
                                     std::max(v, 1.0),
                                     std::min(v, 1.0),
                                     std::exp2(v),
                                     std::log2(v),
                                     std::sqrt(v),
                                     1 / std::sqrt(v),
                                     1 / v,
                                     std::sin(v / 3),
                                     std::cos(v / 3),
                                     std::tanh(v)};
    // Some units in the last place of f32, 2^-23; the GPU's tanh by one instruction 2^-11.
    for (size_t row = 0; row < rows; ++row) {
      double tolerance = row + 1 == rows ? 6e-4 : 1e-6;
      EXPECT_NEAR(got[32 * row + i], want[row], tolerance * std::max(1.0, std::fabs(want[row])))
          << row << " of " << v;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, EmulatorPrimitives, testing::Bool(),
                         [](const auto &info) { return info.param ? "Checked" : "Fast"; });

#ifndef NANO_TEST_ON_GPU
TEST(EmulatorSchedule, CopiesHappenAtTheWaitAndSharedMemoryStartsVoid) {
  std::vector<uint32_t> x(32, 7);
  KernelRun run = primitive("copy_is_late");
  run.input(x).output<uint32_t>(96);
  EXPECT_EQ(run.run(false), "");
  auto got = run.result<uint32_t>(1);
  for (size_t i = 0; i < 96; ++i)
    EXPECT_EQ(got[i], i < 64 ? 0xffffffffu : 7u) << i;
}

TEST(EmulatorSchedule, IsAnotherEachTimeAndTheSameForTheSameSeed) {
  std::vector<std::vector<uint32_t>> orders[2];
  for (auto &list : orders) {
    KernelRun run = primitive("order");
    run.inputOutput(std::vector<uint32_t>{0}).output<uint32_t>(64).threads(64);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(run.run(), "");
      list.push_back(run.result<uint32_t>(1));
    }
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(std::set<std::vector<uint32_t>>(orders[0].begin(), orders[0].end()).size(), 4u);
}
#endif

} // namespace
} // namespace nano::test
