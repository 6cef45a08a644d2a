// Rounding to 8-bit floats: every number of both formats, ties, saturation, small numbers.
#include "tests/reference/Float8.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nano::reference {
namespace {

/// The positive finite numbers of a format in order, from the meaning of their bits: `bits` of
/// exponent, `fraction` of fraction, `count` codes before the first that is not finite.
std::vector<Real> numbersOf(int bits, int fraction, int count) {
  std::vector<Real> numbers;
  const int bias = (1 << (bits - 1)) - 1, ones = 1 << fraction;
  for (int code = 1; code < count; ++code) {
    const int exponent = code >> fraction, rest = code & (ones - 1);
    numbers.push_back(exponent == 0 ? std::ldexp(Real(rest) / ones, 1 - bias)
                                    : std::ldexp(1 + Real(rest) / ones, exponent - bias));
  }
  return numbers;
}

void checkFormat(const Float8 &format, const std::vector<Real> &numbers) {
  EXPECT_EQ(numbers.back(), format.largest);
  Real before = 0;
  bool isEven = false; // of the code of the number at hand; zero's is even
  for (Real number : numbers) {
    EXPECT_EQ(roundTo(format, number), number);
    EXPECT_EQ(roundTo(format, -number), -number);
    const Real middle = (before + number) / 2, little = (number - before) / 64;
    EXPECT_EQ(roundTo(format, middle), isEven ? number : before) << middle;
    EXPECT_EQ(roundTo(format, middle - little), before) << middle;
    EXPECT_EQ(roundTo(format, middle + little), number) << middle;
    before = number;
    isEven = !isEven;
  }
  EXPECT_EQ(roundTo(format, 2 * format.largest), format.largest);
  EXPECT_EQ(roundTo(format, -HUGE_VAL), -format.largest);
}

TEST(Float8, E4m3) { checkFormat(e4m3, numbersOf(4, 3, 0x7F)); }
TEST(Float8, E5m2) { checkFormat(e5m2, numbersOf(5, 2, 0x7C)); }

TEST(Float8, Scales) {
  EXPECT_EQ(throughFloat8(e4m3, 0.5, {0.5, 0.54, 1000, 0.0001}), (Vec{0.5, 0.5625, 224, 0}));
}

TEST(Float8, Blocks) {
  EXPECT_EQ(scaleFor(e4m3, {1, -896, 3}), 2);
  // Two blocks of 2×2: scales 1 and 2. 65/2 = 32.5 lies nearer to 32 than to 36.
  EXPECT_EQ(throughFloat8Blocks(e4m3, {448, 17, 896, 65, 0, 18, 0, 3}, 4, 2, 2),
            (Vec{448, 16, 896, 64, 0, 18, 0, 3}));
}

} // namespace
} // namespace nano::reference
