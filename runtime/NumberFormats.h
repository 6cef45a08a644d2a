// bf16, f16 and the two fp8 formats as bits, converted to and from f32; inline, because they stand
// in inner loops.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace nano {

/// The exact value of a bf16.
inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Rounds to bf16, to nearest, ties to even; NaN stays NaN (quiet).
inline uint16_t toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  return uint16_t(isNan ? (bits >> 16) | 0x40 : rounded);
}

/// The exact value of an IEEE f16: 5 bits of exponent with bias 15, 10 of mantissa.
inline float fromF16(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fff, sign = uint32_t(bits & 0x8000) << 16;
  // No f32 that is subnormal comes up, so that how those are treated does not matter.
  const uint32_t normal = (magnitude << 13) + (magnitude < 0x7c00 ? 112u << 23 : 224u << 23);
  const uint32_t small = std::bit_cast<uint32_t>(float(magnitude) * 0x1p-24F);
  return std::bit_cast<float>((magnitude < 0x400 ? small : normal) | sign);
}

/// The exact value of an f8 E4M3FN: bias 7, no infinities, NaN where all exponent and mantissa bits
/// are set.
inline float fromE4m3(uint8_t bits) {
  int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  float magnitude = exponent == 0 ? std::ldexp(float(mantissa), -9)
                                  : std::ldexp(float(8 + mantissa), exponent - 10);
  if ((bits & 0x7f) == 0x7f)
    magnitude = std::bit_cast<float>(0x7fc00000u);
  return bits & 0x80 ? -magnitude : magnitude;
}

/// The exact value of an f8 E5M2: the upper half of an IEEE f16.
inline float fromE5m2(uint8_t bits) {
  int exponent = (bits >> 2) & 31, mantissa = bits & 3;
  float magnitude = exponent == 0 ? std::ldexp(float(mantissa), -16)
                                  : std::ldexp(float(4 + mantissa), exponent - 17);
  if (exponent == 31)
    magnitude = std::bit_cast<float>(mantissa ? 0x7fc00000u : 0x7f800000u);
  return bits & 0x80 ? -magnitude : magnitude;
}

} // namespace nano
