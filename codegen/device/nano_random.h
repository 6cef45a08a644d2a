// Random bits of a counter and a key, by Philox 4x32-10 (Salmon et al. 2011), and normal numbers of
// them, by Box and Muller (1958).
#pragma once

#include "nano_functions.h"

namespace nano {

/// The four words of a counter's block.
struct PhiloxBlock {
  uint32_t word[4];
};
NANO_DEVICE PhiloxBlock philoxBlock(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0,
                                    uint32_t k1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xd2511f53u) * c0, b = uint64_t(0xcd9e8d57u) * c2;
    c0 = uint32_t(b >> 32) ^ c1 ^ k0;
    c2 = uint32_t(a >> 32) ^ c3 ^ k1;
    c1 = uint32_t(b);
    c3 = uint32_t(a);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Word (c0 mod 4).
NANO_DEVICE int wordOf(const PhiloxBlock &block, int c0) {
  const int word = c0 & 3;
  return int(word == 0   ? block.word[0]
             : word == 1 ? block.word[1]
             : word == 2 ? block.word[2]
                         : block.word[3]);
}

/// Word (c0 mod 4) of the block of (c0 / 4, c1, c2, c3) and (k0, k1).
NANO_DEVICE int philox(int c0, int c1, int c2, int c3, int k0, int k1) {
  return wordOf(philoxBlock(uint32_t(c0) >> 2, c1, c2, c3, k0, k1), c0);
}

/// The same for every lane. Four lanes whose words are of one block share it.
template <int N>
NANO_DEVICE Vec<int, N> philox(const Vec<int, N> &c0, const Vec<int, N> &c1, const Vec<int, N> &c2,
                               const Vec<int, N> &c3, const Vec<int, N> &k0,
                               const Vec<int, N> &k1) {
  Vec<int, N> result;
  if constexpr (N % 4 == 0) {
    // Of four lanes the block's first number, in a form that compilers see through: where the word
    // is known, the same number is left of all counters of a block, which is computed once then.
    auto begin = [&](int i) {
      const int last = c0.lane[i | 3], word = last & 3;
      return word == 3 ? last - 3 : word == 2 ? last - 2 : word == 1 ? last - 1 : last;
    };
    bool share = true;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int first = i / 4 * 4;
      share = share && uint32_t(c0.lane[i] - begin(i)) < 4 && c1.lane[i] == c1.lane[first] &&
              c2.lane[i] == c2.lane[first] && c3.lane[i] == c3.lane[first] &&
              k0.lane[i] == k0.lane[first] && k1.lane[i] == k1.lane[first];
    }
    if (share) {
#pragma unroll
      for (int i = 0; i < N; i += 4) {
        const PhiloxBlock block = philoxBlock(uint32_t(begin(i)) >> 2, c1.lane[i], c2.lane[i],
                                              c3.lane[i], k0.lane[i], k1.lane[i]);
#pragma unroll
        for (int j = i; j < i + 4; ++j)
          result.lane[j] = wordOf(block, c0.lane[j] - begin(i));
      }
      return result;
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = philox(c0.lane[i], c1.lane[i], c2.lane[i], c3.lane[i], k0.lane[i], k1.lane[i]);
  return result;
}

/// √(−2·ln u), u = 1 − v, v = ⌊bits/2⁸⌋/2²⁴: where v < 0.3 by a polynomial for −2·ln u/v whose
/// largest relative error, 2^-22.8, is least; else by the unit for logarithms, whose error, 2^-22
/// of log₂ u, is small there. Relative error 2^-21.
NANO_DEVICE float normalRadius(int bits) {
  const float v = float(shiftRight(bits, 8)) * 0x1p-24f;
  float p = fma(0.799714923f, v, 0.213333115f);
  p = fma(p, v, 0.531610012f);
  p = fma(p, v, 0.664327383f);
  p = fma(p, v, 1.00006223f);
  p = fma(p, v, 1.99999976f);
  return approximateSqrt(
      whereLess(v, 0.3f, p * v, approximateLog2(1.0f - v) * (-2 * 0.693147182f)));
}
/// cos 2πt, or sin 2πt where side ≠ 0, t = ⌊bits/2⁸⌋/2²⁴: by the units for special functions, of
/// angles from −π to π, where their error is 2^-21.
NANO_DEVICE float ofTurn(int bits, int side) {
  const float angle = float(bits & ~0xff) * 1.46291808e-09f; // π/2³¹
  return side ? approximateSine(angle) : approximateCosine(angle);
}
/// A normal number of random bits: see nano.normal. Absolute error 2^-20 of the radius.
NANO_DEVICE float normal(int radius, int angle, int side) {
  return normalRadius(radius) * ofTurn(angle, side);
}
template <int N>
NANO_DEVICE Vec<float, N> normal(const Vec<int, N> &radius, const Vec<int, N> &angle,
                                 const Vec<int, N> &side) {
  Vec<float, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result.lane[i] = normal(radius.lane[i], angle.lane[i], side.lane[i]);
  return result;
}

} // namespace nano
