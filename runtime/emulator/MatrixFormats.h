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

/// sum + Σ a·b with one rounding. Tensor cores align the products of an instruction to the largest
/// one and cut off what is below; results agree to about 2^-22 of the largest product.
inline float sumOfProducts(const float *a, const float *b, int count, float sum) {
  double total = sum;
  for (int i = 0; i < count; ++i)
    total += double(a[i]) * double(b[i]);
  return float(total);
}

/// Likewise by a warpgroup, of elements of 8 bits. Hopper's tensor cores keep less of them: they
/// align the sum and the products to the largest one and cut off what is below 13 bits behind its
/// point. This has the errors that were measured on an H200: some 1.4e-4 of the norm with 208
/// products an element, 6e-4 with 4096.
inline float sumOfShortProducts(const float *a, const float *b, int count, float sum) {
  const float exact = sumOfProducts(a, b, count, sum);
  float largest = std::fabs(sum);
  for (int i = 0; i < count; ++i)
    largest = std::max(largest, std::fabs(a[i] * b[i]));
  if (largest == 0 || !std::isfinite(exact))
    return exact;
  const int below = 13 - std::ilogb(largest);
  const double units = std::ldexp(1.0, below);
  auto total = int(sum * units);
  for (int i = 0; i < count; ++i)
    total += int(a[i] * b[i] * units);
  return std::ldexp(float(total), -below);
}

} // namespace nano::emulator
