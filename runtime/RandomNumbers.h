// The arithmetic of Random.h, a number at a time: built-in types and additions, multiplications and
// divisions alone, so that the host's compiler and NVRTC both take it. Whoever includes it is
// compiled without fusing: the bits are the same everywhere.
#pragma once

namespace nano::numbers {

using Word = unsigned;
using Long = unsigned long long;

constexpr Word multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
constexpr Word weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
constexpr int rounds = 10;

/// What Philox makes of a counter, and that counter.
struct Counter {
  Word word[4];
};

/// Philox4x32 with ten rounds.
inline Counter philox(Counter counter, Word key0, Word key1) {
  for (int round = 0; round < rounds; ++round, key0 += weyl0, key1 += weyl1) {
    const Long p0 = Long(counter.word[0]) * multiplier0, p1 = Long(counter.word[2]) * multiplier1;
    counter = {{Word(p1 >> 32) ^ counter.word[1] ^ key0, Word(p1),
                Word(p0 >> 32) ^ counter.word[3] ^ key1, Word(p0)}};
  }
  return counter;
}

/// (⌊bits / 2¹²⌋ + ½) / 2⁵², by putting the 52 bits behind the leading one of a number in [1, 2):
/// exact but for the half, which fits because the difference is below one.
inline double toUnit(Long bits) {
  return __builtin_bit_cast(double, (bits >> 12) | 0x3FF0000000000000ULL) - (1.0 - 0x1p-53);
}

/// ln x for a normal x > 0: x = 2ᵏ·m with m in [√½, √2), ln m = 2 artanh(t), t = (m − 1)/(m + 1),
/// by its series in t².
inline double logarithm(double x) {
  const Long shifted = // so that the exponent counts from √½
      __builtin_bit_cast(Long, x) - 0x3FE6A09E667F3BCDULL;
  // The exponent as a double, without an integer conversion: put it into the low bits of 2⁵².
  const Long biased = ((shifted >> 52) + 1024) & 2047;
  const double k = __builtin_bit_cast(double, biased | 0x4330000000000000ULL) - (0x1p52 + 1024.0);
  const double m =
      __builtin_bit_cast(double, (shifted & 0x000FFFFFFFFFFFFFULL) + 0x3FE6A09E667F3BCDULL);
  const double t = (m - 1.0) / (m + 1.0);
  const double s = t * t;
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
  // |x − ½| in [0, ½]: cos 2πx = −cos 2π·distance = sin(2π(distance − ¼))
  double distance = x - 0.5;
  distance = distance < 0 ? -distance : distance;
  const double a = 6.283185307179586476925 * (distance - 0.25);
  const double s = a * a;
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

} // namespace nano::numbers
