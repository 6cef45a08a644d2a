// Operands of matrix products as numbers, and how a product is summed.
#pragma once

#include "runtime/NumberFormats.h"
#include "runtime/emulator/device/nano_machine.h"

#include <array>
#include <cstdint>

namespace nano::emulator {

inline int bytesOf(Element type) { return type == Element::Bf16 ? 2 : 1; }
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

} // namespace nano::emulator
