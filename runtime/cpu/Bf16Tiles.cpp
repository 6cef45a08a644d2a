// Packing and tiles with AVX-512 and its bf16 instructions; see the header. Functions ask for these
// instructions one by one, as the file is compiled for every processor.
#include "runtime/cpu/Bf16Tiles.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#define NANO_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

namespace nano::cpu::bf16 {

#if defined(__x86_64__)

namespace {

constexpr int64_t lanes = 16; ///< words of a vector

/// The lanes below `count`, which may be negative or more than there are.
inline __mmask16 maskBelow(int64_t count) {
  return __mmask16((1U << std::clamp<int64_t>(count, 0, lanes)) - 1);
}

inline __mmask32 maskBelow32(int64_t count) {
  return __mmask32((uint64_t(1) << std::clamp<int64_t>(count, 0, 2 * lanes)) - 1);
}

/// Exchanges rows and columns of 16 × 16 words.
NANO_BF16 inline void transpose(__m512i (&x)[lanes]) {
  __m512i y[lanes];
  for (int i = 0; i < lanes; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < lanes; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  // x[4g + c] has, of rows 4g to 4g + 3, columns c, 4 + c, 8 + c and 12 + c, 128 bits each.
  for (int c = 0; c < 4; ++c) {
    __m512i even = _mm512_shuffle_i32x4(x[c], x[4 + c], 0x88),
            odd = _mm512_shuffle_i32x4(x[c], x[4 + c], 0xdd),
            evenBelow = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0x88),
            oddBelow = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0xdd);
    y[c] = _mm512_shuffle_i32x4(even, evenBelow, 0x88);
    y[8 + c] = _mm512_shuffle_i32x4(even, evenBelow, 0xdd);
    y[4 + c] = _mm512_shuffle_i32x4(odd, oddBelow, 0x88);
    y[12 + c] = _mm512_shuffle_i32x4(odd, oddBelow, 0xdd);
  }
  for (int i = 0; i < lanes; ++i)
    x[i] = y[i];
}

/// Where the pairs of 16 lines lie in the panels: in one panel, or 8 lines each in two.
struct Group {
  uint32_t *first, *second;
  int64_t width;

  Group(uint32_t *panels, int64_t width, int64_t k, int64_t line)
      : first(panels + line / width * panelWords(width, k) + line % width),
        second(first + panelWords(width, k)), width(width) {}

  NANO_BF16 void store(int64_t pair, __m512i words, bool isLast) const {
    if (width != tileRows) {
      _mm512_storeu_si512(first + pair * width, words);
      return;
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(first + pair * width),
                        _mm512_castsi512_si256(words));
    if (!isLast)
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(second + pair * width),
                          _mm512_extracti64x4_epi64(words, 1));
  }
};

/// Lines that are contiguous: 16 lines of 16 pairs at a time.
NANO_BF16 void packAlong(const Lines &lines, int64_t line, const Group &group, bool isLast) {
  int64_t count = std::min<int64_t>(lanes, lines.count - line), pairs = (lines.k + 1) / 2;
  const uint16_t *from = lines.data + line * lines.leading;
  for (int64_t pair = 0; pair < pairs; pair += lanes) {
    __m512i words[lanes];
    __mmask32 mask = maskBelow32(lines.k - 2 * pair);
    for (int64_t i = 0; i < lanes; ++i)
      words[i] = i < count ? _mm512_maskz_loadu_epi16(mask, from + i * lines.leading + 2 * pair)
                           : _mm512_setzero_si512();
    transpose(words);
    int64_t end = std::min(lanes, pairs - pair);
    for (int64_t i = 0; i < end; ++i)
      group.store(pair + i, words[i], isLast);
  }
}

/// Lines that lie across memory: a pair of 16 lines, of all groups of the panels, at a time.
NANO_BF16 void packAcross(const Lines &lines, int64_t width, uint32_t *panels) {
  constexpr int64_t ahead = 8; // rows that are fetched early: neighbours lie on different pages
  for (int64_t pair = 0; 2 * pair < lines.k; ++pair) {
    const uint16_t *from = lines.data + 2 * pair * lines.leading;
    bool hasSecond = 2 * pair + 1 < lines.k, fetches = 2 * pair + ahead + 1 < lines.k;
    for (int64_t line = 0; line < lines.count; line += lanes) {
      if (fetches && line % (2 * lanes) == 0) {
        __builtin_prefetch(from + ahead * lines.leading + line);
        __builtin_prefetch(from + (ahead + 1) * lines.leading + line);
      }
      __mmask16 mask = maskBelow(lines.count - line);
      __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + line));
      if (hasSecond) {
        __m256i second = _mm256_maskz_loadu_epi16(mask, from + lines.leading + line);
        words = _mm512_or_si512(words, _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
      }
      Group(panels, width, lines.k, line).store(pair, words, lines.count - line <= tileRows);
    }
  }
}

/// Adds to a tile's row what is to be added, and writes it.
template <int vectors>
NANO_BF16 inline void store(const __m512 (&sums)[vectors], const __mmask16 (&masks)[vectors],
                            const Destination &to, int64_t row, int64_t column) {
  float *unfinished = to.sums + row * to.sumsLeading + column;
  const int64_t atC = row * to.cLeading + column, atD = row * to.dLeading + column;
  const __m512 alpha = _mm512_set1_ps(to.alpha), beta = _mm512_set1_ps(to.beta);
  for (int64_t j = 0; j < vectors; ++j) {
    const int64_t x = j * lanes;
    __m512 sum = sums[j];
    if (to.addsEarlier)
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(masks[j], unfinished + x));
    if (!to.finishes) {
      _mm512_mask_storeu_ps(unfinished + x, masks[j], sum);
      continue;
    }
    sum = _mm512_mul_ps(sum, alpha);
    if (to.isF32) {
      if (to.d)
        sum = _mm512_fmadd_ps(
            beta, _mm512_maskz_loadu_ps(masks[j], static_cast<const float *>(to.d) + atD + x), sum);
      _mm512_mask_storeu_ps(static_cast<float *>(to.c) + atC + x, masks[j], sum);
      continue;
    }
    if (to.d) {
      __m256i narrow =
          _mm256_maskz_loadu_epi16(masks[j], static_cast<const uint16_t *>(to.d) + atD + x);
      __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
      sum = _mm512_fmadd_ps(beta, _mm512_castsi512_ps(wide), sum);
    }
    _mm256_mask_storeu_epi16(static_cast<uint16_t *>(to.c) + atC + x, masks[j],
                             reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
  }
}

template <int vectors>
NANO_BF16 void multiply(const uint32_t *a, const uint32_t *b, int64_t k, const Destination &to,
                        int64_t row, int64_t column, int64_t rows, int64_t columns) {
  __m512 sums[tileRows][vectors];
  for (int i = 0; i < tileRows; ++i)
    for (int j = 0; j < vectors; ++j)
      sums[i][j] = _mm512_setzero_ps();
  for (int64_t pair = 0; 2 * pair < k; ++pair, a += tileRows, b += tileColumns) {
    __m512bh right[vectors];
    for (int j = 0; j < vectors; ++j)
      right[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + j * lanes));
    for (int i = 0; i < tileRows; ++i) {
      auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(int(a[i])));
      for (int j = 0; j < vectors; ++j)
        sums[i][j] = _mm512_dpbf16_ps(sums[i][j], left, right[j]);
    }
  }
  __mmask16 masks[vectors];
  for (int j = 0; j < vectors; ++j)
    masks[j] = maskBelow(columns - j * lanes);
  for (int64_t i = 0; i < rows; ++i)
    store<vectors>(sums[i], masks, to, row + i, column);
}

} // namespace

void pack(const Lines &lines, int64_t width, uint32_t *panels) {
  if (lines.across) {
    packAcross(lines, width, panels);
    return;
  }
  for (int64_t line = 0; line < lines.count; line += lanes)
    packAlong(lines, line, Group(panels, width, lines.k, line), lines.count - line <= tileRows);
}

void multiply(const uint32_t *a, const uint32_t *b, int64_t k, const Destination &to, int64_t row,
              int64_t column, int64_t rows, int64_t columns) {
  if (columns > 2 * lanes)
    multiply<3>(a, b, k, to, row, column, rows, columns);
  else if (columns > lanes)
    multiply<2>(a, b, k, to, row, column, rows, columns);
  else
    multiply<1>(a, b, k, to, row, column, rows, columns);
}

#else

void pack(const Lines &, int64_t, uint32_t *) {}
void multiply(const uint32_t *, const uint32_t *, int64_t, const Destination &, int64_t, int64_t,
              int64_t, int64_t) {}

#endif

} // namespace nano::cpu::bf16
