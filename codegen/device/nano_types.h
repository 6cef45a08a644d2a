// Integer names, element types bf16, f8e4m3 and f8e5m2, and their conversions in plain C++.
// The same text on the GPU and in the emulator; the primitives say how a conversion is done.
#pragma once

// The names that <cstdint> gives; device text includes no header of the language.
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

/// What every function of the device library is marked with.
#define NANO_DEVICE __device__ __forceinline__

namespace nano {

/// The bits of `value` as a `To` of the same size.
template <typename To, typename From> NANO_DEVICE constexpr To bitCast(const From &value) {
  return __builtin_bit_cast(To, value);
}

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);
constexpr float notANumber = __builtin_bit_cast(float, 0x7fc00000);

/// Whether two types are the same.
template <typename A, typename B> constexpr bool isSame = false;
template <typename A> constexpr bool isSame<A, A> = true;

/// The unsigned integer of so many bytes.
template <int Bytes> struct UnsignedOf {
  using type = uint32_t;
};
template <> struct UnsignedOf<1> {
  using type = uint8_t;
};
template <> struct UnsignedOf<2> {
  using type = uint16_t;
};
template <int Bytes> using Unsigned = typename UnsignedOf<Bytes>::type;

// Conversions of one value, each rounding to nearest, ties to even. The f8 ones saturate: what is
// too large, infinities among it, becomes the largest finite number. A NaN becomes 0x7fff (bf16)
// or 0x7f (f8). Defined in nano_primitives.h.
NANO_DEVICE uint16_t encodeBf16(float value);
NANO_DEVICE uint8_t encodeE4m3(float value);
NANO_DEVICE uint8_t encodeE5m2(float value);
// The exact values of encoded numbers.
NANO_DEVICE float decodeBf16(uint16_t bits);
NANO_DEVICE float decodeE4m3(uint8_t bits);
NANO_DEVICE float decodeE5m2(uint8_t bits);

/// The upper half of an f32.
struct bf16 {
  uint16_t bits;
  bf16() = default;
  NANO_DEVICE explicit bf16(float value) : bits(encodeBf16(value)) {}
  NANO_DEVICE operator float() const { return decodeBf16(bits); }
};

/// E4M3FN: exponent bias 7, largest 448, no infinities, NaN 0x7f and 0xff.
struct f8e4m3 {
  uint8_t bits;
  f8e4m3() = default;
  NANO_DEVICE explicit f8e4m3(float value) : bits(encodeE4m3(value)) {}
  NANO_DEVICE operator float() const { return decodeE4m3(bits); }
};

/// E5M2: exponent bias 15, largest 57344, infinities and NaN as in IEEE formats.
struct f8e5m2 {
  uint8_t bits;
  f8e5m2() = default;
  NANO_DEVICE explicit f8e5m2(float value) : bits(encodeE5m2(value)) {}
  NANO_DEVICE operator float() const { return decodeE5m2(bits); }
};

/// The conversions in integer arithmetic, bit for bit what the hardware's do.
namespace software {

NANO_DEVICE constexpr uint16_t encodeBf16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

NANO_DEVICE constexpr float decodeBf16(uint16_t bits) {
  return bitCast<float>(uint32_t(bits) << 16);
}

/// A format with `Mantissa` explicit bits, exponent bias `Bias` and `Largest` as its largest finite
/// number's bits.
template <int Mantissa, int Bias, uint32_t Largest>
NANO_DEVICE constexpr uint8_t encodeF8(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return 0x7f;
  uint32_t sign = (bits >> 24) & 0x80;
  // The significand counts units of the last place of an f32 of this exponent; `shift` of them are
  // dropped, more below the smallest normal number.
  int exponent = int(magnitude >> 23) - 127;
  int shift = 23 - Mantissa;
  if (exponent < 1 - Bias)
    shift += 1 - Bias - exponent;
  if (shift > 25)
    return uint8_t(sign);
  uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  uint32_t rounded =
      (significand + (1u << (shift - 1)) - 1 + ((significand >> shift) & 1)) >> shift;
  uint32_t result = rounded;
  if (exponent >= 1 - Bias)
    result += uint32_t(exponent + Bias - 1) << Mantissa;
  return uint8_t(sign | (result < Largest ? result : Largest));
}

NANO_DEVICE constexpr uint8_t encodeE4m3(float value) { return encodeF8<3, 7, 0x7e>(value); }
NANO_DEVICE constexpr uint8_t encodeE5m2(float value) { return encodeF8<2, 15, 0x7b>(value); }

/// The value of a finite number; the callers handle NaN and infinities.
template <int Mantissa, int Bias> NANO_DEVICE constexpr float decodeF8(uint8_t bits) {
  uint32_t exponent = (bits & 0x7fu) >> Mantissa, mantissa = bits & ((1u << Mantissa) - 1);
  uint32_t sign = uint32_t(bits & 0x80) << 24;
  if (exponent > 0)
    return bitCast<float>(sign | ((exponent + 127 - Bias) << 23) | (mantissa << (23 - Mantissa)));
  // mantissa · 2^(1 − Bias − Mantissa), exactly.
  float magnitude = float(mantissa) * bitCast<float>(uint32_t(127 + 1 - Bias - Mantissa) << 23);
  return bitCast<float>(sign | bitCast<uint32_t>(magnitude));
}

NANO_DEVICE constexpr float decodeE4m3(uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? bitCast<float>(0x7fffffffu) : decodeF8<3, 7>(bits);
}

NANO_DEVICE constexpr float decodeE5m2(uint8_t bits) {
  if ((bits & 0x7f) > 0x7c)
    return bitCast<float>(0x7fffffffu);
  if ((bits & 0x7f) == 0x7c)
    return bitCast<float>((uint32_t(bits & 0x80) << 24) | 0x7f800000);
  return decodeF8<2, 15>(bits);
}

} // namespace software
} // namespace nano
