// Operands of matrix products as numbers, and how a product is summed.
#pragma once

#include "codegen/device/emulator/nano_machine.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace nano::emulator {

inline int bytesOf(Element type) {
  return type == Element::Tf32 ? 4 : type == Element::Bf16 ? 2 : 1;
}
inline int elementsInWord(Element type) { return 4 / bytesOf(type); }

/// The value of one element from its bits.
inline float decode(Element type, uint32_t bits) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 2> values;
    for (uint32_t i = 0; i < 256; ++i) {
      values[0][i] = fromE4m3(uint8_t(i));
      values[1][i] = fromE5m2(uint8_t(i));
    }
    return values;
  }();
  if (type == Element::Tf32) // the lower 13 bits are not read
    return std::bit_cast<float>(bits & 0xffffe000u);
  if (type == Element::Bf16)
    return fromBf16(uint16_t(bits));
  return tables[type == Element::E5m2][bits & 255];
}

/// The elements of a word, the first from the lowest bits.
inline void decodeWord(Element type, uint32_t word, float *to) {
  int bits = 8 * bytesOf(type);
  for (int i = 0; i < elementsInWord(type); ++i)
    to[i] = decode(type, word >> (i * bits));
}

/// sum + Σ a·b as Hopper's tensor cores sum the products of an instruction: all that is added is
/// aligned to the largest of it and cut off so many bits behind its highest one, and the sum, then
/// of f32, is cut again.
template <int behind> float cutSum(const float *a, const float *b, int count, float sum) {
  double exact = sum, largest = std::fabs(sum);
  for (int i = 0; i < count; ++i) {
    const double product = double(a[i]) * double(b[i]);
    exact += product;
    largest = std::max(largest, std::fabs(product));
  }
  if (largest == 0 || !std::isfinite(exact))
    return float(exact);
  constexpr int bias = 1023, fraction = 52; // of a double, which holds each product as a normal one
  const int below = behind + bias - int(std::bit_cast<uint64_t>(largest) >> fraction);
  const auto power = [](int exponent) {
    return std::bit_cast<double>(uint64_t(bias + exponent) << fraction);
  };
  const double units = power(below);
  auto total = int64_t(sum * units);
  for (int i = 0; i < count; ++i)
    total += int64_t(double(a[i]) * double(b[i]) * units);
  const double cut = double(total) * power(-below);
  const auto near = float(cut);
  return std::isfinite(near) && std::fabs(near) > std::fabs(cut) ? std::nextafter(near, 0.0f)
                                                                 : near;
}

/// Of tf32 and bf16, with two bits more than f32 has: this has the errors that were measured on an
/// H200, to the digits that a benchmark prints, of products along a band.
inline float sumOfProducts(const float *a, const float *b, int count, float sum) {
  return cutSum<25>(a, b, count, sum);
}

/// Likewise, with one rounding instead.
inline float exactSumOfProducts(const float *a, const float *b, int count, float sum) {
  double total = sum;
  for (int i = 0; i < count; ++i)
    total += double(a[i]) * double(b[i]);
  return float(total);
}

/// By a warpgroup, of elements of 8 bits, with fewer: this has the errors that were measured on an
/// H200, some 1.4e-4 of the norm with 208 products an element, 6e-4 with 4096.
inline float sumOfShortProducts(const float *a, const float *b, int count, float sum) {
  return cutSum<13>(a, b, count, sum);
}

} // namespace nano::emulator
