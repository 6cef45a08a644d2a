// Arithmetic on vectors of bf16, two lanes at once. A result is that of f32 arithmetic rounded
// once: sums and products of two bf16 lose nothing in f32 that the rounding to bf16 would show.
// Included by nano_matmul.h.
#pragma once

#include "nano_kernels.h"

namespace nano {

/// Of every pair of lanes a word, all ones in the halves of those that are chosen.
template <int N> struct PairMask {
  Vec<uint32_t, N / 2> words;
};

template <int N, class F>
NANO_DEVICE Vec<bf16, N> mapPairs(F f, const Vec<bf16, N> &a, const Vec<bf16, N> &b) {
  static_assert(N % 2 == 0);
  return elementsOf<bf16>(map<uint32_t>(f, wordsOf<uint32_t>(a), wordsOf<uint32_t>(b)));
}
template <int N> NANO_DEVICE Vec<bf16, N> splatPairs(float number) {
  return splat<N>(bitCast<bf16>(software::encodeBf16(number)));
}

// Operands are two vectors, or a vector and a number that stands for every lane.
#define NANO_PAIRS(NAME, PRIMITIVE)                                                                \
  template <int N> NANO_DEVICE Vec<bf16, N> NAME(const Vec<bf16, N> &a, const Vec<bf16, N> &b) {   \
    return mapPairs([](uint32_t x, uint32_t y) { return PRIMITIVE(x, y); }, a, b);                 \
  }                                                                                                \
  template <int N> NANO_DEVICE Vec<bf16, N> NAME(const Vec<bf16, N> &a, float b) {                 \
    return NAME(a, splatPairs<N>(b));                                                              \
  }                                                                                                \
  template <int N> NANO_DEVICE Vec<bf16, N> NAME(float a, const Vec<bf16, N> &b) {                 \
    return NAME(splatPairs<N>(a), b);                                                              \
  }
NANO_PAIRS(operator+, addPairs)
NANO_PAIRS(operator-, subtractPairs)
NANO_PAIRS(operator*, multiplyPairs)
NANO_PAIRS(maximum, maximumPairs)
NANO_PAIRS(minimum, minimumPairs)
#undef NANO_PAIRS

template <int N> NANO_DEVICE Vec<bf16, N> operator-(const Vec<bf16, N> &a) {
  return elementsOf<bf16>(
      map<uint32_t>([](uint32_t x) { return x ^ 0x80008000u; }, wordsOf<uint32_t>(a)));
}

#define NANO_PAIRS(SYMBOL, COMPARISON)                                                             \
  template <int N>                                                                                 \
  NANO_DEVICE PairMask<N> operator SYMBOL(const Vec<bf16, N> &a, const Vec<bf16, N> &b) {          \
    return {map<uint32_t>(                                                                         \
        [](uint32_t x, uint32_t y) { return comparePairs<Comparison::COMPARISON>(x, y); },         \
        wordsOf<uint32_t>(a), wordsOf<uint32_t>(b))};                                              \
  }                                                                                                \
  template <int N> NANO_DEVICE PairMask<N> operator SYMBOL(const Vec<bf16, N> &a, float b) {       \
    return a SYMBOL splatPairs<N>(b);                                                              \
  }                                                                                                \
  template <int N> NANO_DEVICE PairMask<N> operator SYMBOL(float a, const Vec<bf16, N> &b) {       \
    return splatPairs<N>(a) SYMBOL b;                                                              \
  }
NANO_PAIRS(==, Equal)
NANO_PAIRS(!=, NotEqual)
NANO_PAIRS(<, Less)
NANO_PAIRS(<=, LessEqual)
NANO_PAIRS(>, Greater)
NANO_PAIRS(>=, GreaterEqual)
#undef NANO_PAIRS

/// Lanes of a where `chosen`, else of b.
template <int N>
NANO_DEVICE Vec<bf16, N> select(const PairMask<N> &chosen, const Vec<bf16, N> &a,
                                const Vec<bf16, N> &b) {
  return elementsOf<bf16>(
      map<uint32_t>([](uint32_t m, uint32_t x, uint32_t y) { return (x & m) | (y & ~m); },
                    chosen.words, wordsOf<uint32_t>(a), wordsOf<uint32_t>(b)));
}
template <int N>
NANO_DEVICE Vec<bf16, N> select(const PairMask<N> &chosen, const Vec<bf16, N> &a, float b) {
  return select(chosen, a, splatPairs<N>(b));
}
template <int N>
NANO_DEVICE Vec<bf16, N> select(const PairMask<N> &chosen, float a, const Vec<bf16, N> &b) {
  return select(chosen, splatPairs<N>(a), b);
}

} // namespace nano
