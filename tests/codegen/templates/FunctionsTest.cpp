// Functions of the device library that kernels call on vectors, on the emulator, against double
// precision and, for conversions, against the same of single numbers.
#include "tests/codegen/templates/TemplateRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace nano;
using namespace nano::test;

namespace {

constexpr int count = 1024;

const char *const text = R"(#include "nano_kernels.h"
extern "C" __global__ void __launch_bounds__(128)
functions(const __grid_constant__ nano::Launch<2, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  auto *x = work.template pointer<const float>(0);
  auto *y = work.template pointer<float>(1);
  const int at = int(threadIdx.x) * 8;
  const auto value = nano::read<8>(x + at);
  nano::store<8>(y + at, nano::sigmoid(value));
  nano::store<8>(y + 1024 + at, nano::sigmoid(value, 0.25f));
  nano::store<8>(y + 2048 + at, nano::exponential(value, 0.5f, -3.0f));
  for (int i = 0; i < 8; ++i)
    y[3072 + at + i] = nano::sigmoid(value[i], 0.25f);
  nano::store<8>(y + 4096 + at, nano::exponentialShared(value, 0.5f, -3.0f));
  for (int i = 0; i < 8; ++i)
    y[5120 + at + i] = nano::polynomialExp2(value[i]);
  nano::store<8>(y + 6144 + at, nano::sigmoidOfPower(value));
}
extern "C" __global__ void __launch_bounds__(128)
errorFunction(const __grid_constant__ nano::Launch<2, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  const int at = int(threadIdx.x) * 8;
  nano::store<8>(work.template pointer<float>(1) + at,
                 nano::erf(nano::read<8>(work.template pointer<const float>(0) + at)));
}
extern "C" __global__ void __launch_bounds__(128)
ofSigmoid(const __grid_constant__ nano::Launch<2, 1> launch) {
  const auto work = launch.find(blockIdx.x, 1);
  auto *x = work.template pointer<const float>(0);
  auto *y = work.template pointer<float>(1);
  const int at = int(threadIdx.x) * 8;
  const auto value = nano::read<8>(x + at);
  const auto fraction = nano::sigmoid(value, 0.25f);
  nano::store<8>(y + at, nano::exponentialOfFraction<30.0f, -30.0f>(fraction));
  nano::store<8>(y + 1024 + at, nano::exponentialOfFraction<-70.0f, 0.4f>(fraction));
  nano::store<8>(y + 2048 + at, nano::exponentialOfSigmoid<30.0f, -30.0f>(value, 0.25f));
  nano::Vec<float, 2> pair{{value[0], value[1]}};
  nano::store<2>(y + 3072 + at / 4, nano::exponentialOfSigmoid<9.0f, 70.5f>(pair, 0.25f));
  nano::store<8>(y + 4096 + at, nano::exponentialOfSigmoidDerivative<30.0f, -30.0f>(value, 0.25f));
  nano::store<2>(y + 5120 + at / 4, nano::exponentialOfSigmoidDerivative<-9.0f, 2.0f>(pair, 0.25f));
}
template <class T> __device__ void convert(const nano::Work &work) {
  auto *x = work.template pointer<const float>(0);
  auto *y = work.template pointer<float>(1);
  const int at = int(threadIdx.x) * 8;
  const auto value = nano::read<8>(x + at);
  nano::store<8>(y + at, nano::to<float>(nano::to<T>(value)));
  for (int i = 0; i < 8; ++i)
    y[1024 + at + i] = float(T(value[i]));
}
#define CONVERT(NAME, TYPE)                                                                        \
  extern "C" __global__ void __launch_bounds__(128)                                                \
  NAME(const __grid_constant__ nano::Launch<2, 1> launch) {                                        \
    convert<TYPE>(launch.find(blockIdx.x, 1));                                                     \
  }
CONVERT(toE4m3, nano::f8e4m3)
CONVERT(toE5m2, nano::f8e5m2)
CONVERT(toBf16, nano::bf16)
)";

class Functions : public testing::Test {
protected:
  std::vector<double> run(const std::string &kernel, const std::vector<double> &x, int results) {
    DeviceBuffer in = DeviceBuffer::ofFloats("x", x), out("y", 4, size_t(results) * count);
    EXPECT_EQ(runner.run(kernel, {128, 1, 0}, {{&in}, {&out, true}}, 1), "");
    return out.values();
  }

  TemplateRunner runner{text,
                        {"functions", "errorFunction", "ofSigmoid", "toE4m3", "toE5m2", "toBf16"}};
};

TEST_F(Functions, SigmoidAndExponential) {
  constexpr int middle = count / 2;
  std::vector<double> x(count);
  for (int i = 0; i < count; ++i)
    x[i] = float((i - middle) * 0.17);
  // Neighbours that share a reciprocal, at both ends.
  x[0] = -1000;
  x[1] = 1000;
  x[2] = -std::numeric_limits<double>::infinity();
  x[3] = -1000;
  x[4] = std::numeric_limits<double>::infinity();
  x[5] = 0;
  const std::vector<double> y = run("functions", x, 7);
  // The stated errors, in units of 2^-23; below 2^-60 a sigmoid stays there.
  auto checkSigmoid = [](double found, double argument) {
    const double wanted = 1 / (1 + std::exp(-argument)), least = std::ldexp(1, -60);
    const double error = (6 + std::min(std::abs(argument), 42.0)) * std::ldexp(1, -23);
    EXPECT_NEAR(found, std::max(wanted, least), error * std::max(wanted, least)) << argument;
  };
  for (int i = 0; i < count; ++i) {
    checkSigmoid(y[i], x[i]);
    checkSigmoid(y[count + i], 0.25 * x[i]);
    checkSigmoid(y[3 * count + i], 0.25 * x[i]);
    const double argument = 0.5 * x[i] - 3;
    if (std::abs(argument) < 80) {
      const double wanted = std::exp(argument);
      EXPECT_NEAR(y[2 * count + i], wanted,
                  (5 + std::abs(0.5 * x[i])) * std::ldexp(1, -23) * wanted)
          << argument;
      EXPECT_NEAR(y[4 * count + i], wanted,
                  (5 + std::abs(0.5 * x[i])) * std::ldexp(1, -23) * wanted)
          << argument;
    }
    const double power = std::exp2(x[i]), polynomial = y[5 * count + i];
    const double ofPower = 1 / (1 + power), sigmoid = y[6 * count + i];
    if (x[i] <= 126) // below that the reciprocal may be 0
      EXPECT_NEAR(sigmoid, ofPower, 4 * std::ldexp(1, -23) * ofPower) << x[i];
    else
      EXPECT_TRUE(sigmoid >= 0 && sigmoid <= std::ldexp(1, -126)) << x[i];
    if (x[i] <= -125.5)
      EXPECT_EQ(polynomial, 0) << x[i];
    else if (x[i] >= 128)
      EXPECT_EQ(polynomial, std::numeric_limits<double>::infinity()) << x[i];
    else
      EXPECT_NEAR(polynomial, power, 2 * std::ldexp(1, -23) * power) << x[i];
  }
}

TEST_F(Functions, ErrorFunction) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> x = {0, infinity, -infinity, std::nan(""), 1, -1, 1e-30, -3e38};
  x.push_back(std::nextafter(1.0F, 0.0F));
  // Small and large ones of both signs, and some steps across where the two formulas meet.
  for (int i = 0; x.size() < count; ++i)
    x.push_back(float((i % 2 ? -1 : 1) * (i % 4 < 2 ? 1e-4 * i * i / 16 : 0.95 + i * 1e-4)));
  const std::vector<double> y = run("errorFunction", x, 1);
  for (int i = 0; i < count; ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i]));
      continue;
    }
    const double wanted = std::erf(x[i]);
    const double unit = wanted == 0 ? 0 : std::ldexp(1, std::ilogb(wanted) - 23);
    EXPECT_NEAR(y[i], wanted, 2 * unit) << x[i];
    EXPECT_LE(std::abs(y[i]), 1) << x[i];
  }
}

TEST_F(Functions, PowersAtTheEndsOfTheRange) {
  std::vector<double> x(count);
  // The largest numbers below infinity, where the nearest whole power is none; and the least.
  constexpr int middle = count / 2;
  for (int i = 0; i < middle; ++i)
    x[i] = 127.5 + i * std::ldexp(1, -10);
  for (int i = middle; i < count; ++i)
    x[i] = -126.5 + (i - middle) * std::ldexp(1, -8);
  x[0] = std::nextafter(128.0F, 0.0F);
  x[count - 1] = std::nextafter(-125.5F, 0.0F);
  const std::vector<double> y = run("functions", x, 7);
  for (int i = 0; i < count; ++i) {
    const double power = x[i] <= -125.5 ? 0 : std::exp2(x[i]);
    ASSERT_TRUE(std::isfinite(y[5 * count + i])) << x[i];
    EXPECT_NEAR(y[5 * count + i], power, 2 * std::ldexp(1, -23) * power) << x[i];
  }
}

TEST_F(Functions, ExponentialsOfSigmoids) {
  constexpr int middle = count / 2;
  std::vector<double> x(count);
  for (int i = 0; i < count; ++i)
    x[i] = float((i - middle) * 0.31);
  // Neighbours that share a reciprocal, at both ends.
  x[8] = -std::numeric_limits<double>::infinity();
  x[9] = -1000;
  x[10] = -500;
  x[11] = std::numeric_limits<double>::infinity();
  const std::vector<double> y = run("ofSigmoid", x, 6);
  auto check = [](double found, double argument, double factor, double summand) {
    const double fraction = std::max(1 / (1 + std::exp(-argument)), std::ldexp(1, -30));
    const double wanted = std::exp(factor * fraction + summand);
    // The stated errors: of the sigmoid, of the product and of the power.
    const double error = std::abs(factor) * fraction * (6 + std::min(std::abs(argument), 21.0)) +
                         5 + std::abs(factor * fraction) + std::abs(summand);
    EXPECT_NEAR(found, wanted, error * std::ldexp(1, -23) * wanted) << argument;
  };
  auto checkDerivative = [](double found, double argument, double factor, double summand,
                            double least) {
    const double fraction = std::max(1 / (1 + std::exp(-argument)), least);
    const double rest = argument < 0 ? 1 - fraction : 1 / (1 + std::exp(argument));
    const double power = std::exp(factor * fraction + summand), wanted = fraction * rest * power;
    const double ofFraction = fraction * (12 + std::min(std::abs(argument), 42.0));
    const double error = power * std::abs(1 - 2 * fraction) * ofFraction +
                         wanted * (std::abs(factor) * ofFraction + 7 + std::abs(factor * fraction) +
                                   std::abs(summand));
    EXPECT_NEAR(found, wanted, error * std::ldexp(1, -23)) << argument;
  };
  for (int i = 0; i < count; ++i) {
    checkDerivative(y[4 * count + i], 0.25 * x[i], 30, -30, std::ldexp(1, -30));
    if (i % 8 < 2)
      checkDerivative(y[5 * count + i / 8 * 2 + i % 8], 0.25 * x[i], -9, 2, std::ldexp(1, -60));
    check(y[i], 0.25 * x[i], 30, -30);
    check(y[count + i], 0.25 * x[i], -70, double(0.4F));
    check(y[2 * count + i], 0.25 * x[i], 30, -30);
    if (i % 8 < 2)
      check(y[3 * count + i / 8 * 2 + i % 8], 0.25 * x[i], 9, 70.5);
  }
}

TEST_F(Functions, ExponentialsOfSigmoidsKeepWhatIsNoNumber) {
  std::vector<double> x(count);
  for (int i = 0; i < 8; ++i)
    x[9 * i] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> y = run("ofSigmoid", x, 6);
  for (int i = 0; i < 8; ++i)
    for (int kind : {0, 1, 2, 4})
      EXPECT_TRUE(std::isnan(y[kind * count + 9 * i])) << "lane " << i << " of " << kind;
  EXPECT_FALSE(std::isnan(y[2 * count + 100]));
}

/// Polynomial lanes are as the others, which lose some of large numbers: x·log2(e)/2 is rounded.
TEST_F(Functions, SharedExponentialsAtTheEndsOfTheRange) {
  std::vector<double> x(count);
  const double ln2 = std::log(2.0);
  for (int i = 0; i < count; ++i)
    x[i] = float(2 * ((127.5 + i * std::ldexp(0.49, -10)) * ln2 + 3));
  const std::vector<double> large = run("functions", x, 7);
  for (int i = 0; i < count; ++i) {
    const double wanted = std::exp(0.5 * x[i] - 3);
    ASSERT_TRUE(std::isfinite(large[4 * count + i])) << "lane " << i % 8 << " of " << x[i];
    EXPECT_NEAR(large[4 * count + i], wanted, (5 + 0.5 * x[i]) * std::ldexp(1, -23) * wanted)
        << "lane " << i % 8;
  }
  for (double least : {-std::numeric_limits<double>::infinity(), -1e30, -1000.0}) {
    const std::vector<double> none = run("functions", std::vector<double>(count, least), 7);
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(none[4 * count + i], 0) << "lane " << i % 8 << " of " << least;
  }
  const std::vector<double> most =
      run("functions", std::vector<double>(count, std::numeric_limits<double>::infinity()), 7);
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(most[4 * count + i], std::numeric_limits<double>::infinity()) << "lane " << i % 8;
}

TEST_F(Functions, ExponentialsOfNan) {
  const std::vector<double> y =
      run("functions", std::vector<double>(count, std::numeric_limits<double>::quiet_NaN()), 7);
  for (int i = 4 * count; i < 6 * count; ++i)
    ASSERT_TRUE(std::isnan(y[i])) << i;
}

TEST_F(Functions, ConversionsOfPairsAreThoseOfSingleNumbers) {
  std::vector<double> x(count);
  for (int i = 0; i < count; ++i)
    x[i] = std::ldexp((i % 2 ? -1 : 1) * (1 + i % 61 / 61.0), i % 48 - 28);
  x[0] = 1e30;
  x[3] = -1e30;
  for (const char *kernel : {"toE4m3", "toE5m2", "toBf16"}) {
    const std::vector<double> y = run(kernel, x, 2);
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(y[i], y[count + i]) << kernel << " " << x[i];
  }
}

} // namespace
