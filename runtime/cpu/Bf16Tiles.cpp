// Packing with AVX-512, and tiles with its bf16 instructions and with AMX; see the header.
// Functions ask for these instructions one by one, as the file is compiled for every processor.
#include "runtime/cpu/Bf16Tiles.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#define NANO_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define NANO_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#endif

namespace nano::cpu::bf16 {

#if defined(__x86_64__)

namespace {

constexpr int64_t lanes = 16; ///< words of a vector, lines and words of a register of AMX
constexpr Shape pairs = shapeOf(Unit::Pairs), tiles = shapeOf(Unit::Tiles);

constexpr int64_t rounded(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

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

/// Panels that are packed.
struct Panels {
  uint32_t *words;
  int64_t width; ///< lines
  int64_t pairs; ///< of a line
};

/// Where the pairs of 16 lines lie in the panels: in one panel, or 8 lines each in two.
struct Group {
  uint32_t *first, *second;
  int64_t width;

  Group(const Panels &to, int64_t line)
      : first(to.words + line / to.width * to.pairs * to.width + line % to.width),
        second(first + to.pairs * to.width), width(to.width) {}

  NANO_BF16 void store(int64_t pair, __m512i words, bool isLast) const {
    if (width != pairs.rows) {
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
NANO_BF16 void packAlong(const Lines &lines, int64_t line, const Panels &to) {
  const Group group(to, line);
  const bool isLast = lines.count - line <= lanes / 2;
  int64_t count = std::min<int64_t>(lanes, lines.count - line);
  const uint16_t *from = lines.data + line * lines.leading;
  for (int64_t pair = 0; pair < to.pairs; pair += lanes) {
    __m512i words[lanes];
    __mmask32 mask = maskBelow32(lines.k - 2 * pair);
    for (int64_t i = 0; i < lanes; ++i)
      words[i] = i < count ? _mm512_maskz_loadu_epi16(mask, from + i * lines.leading + 2 * pair)
                           : _mm512_setzero_si512();
    transpose(words);
    int64_t end = std::min(lanes, to.pairs - pair);
    for (int64_t i = 0; i < end; ++i)
      group.store(pair + i, words[i], isLast);
  }
}

/// A pair of 16 lines that lie across memory, a word each.
NANO_BF16 inline __m512i pairOf(const Lines &lines, int64_t pair, int64_t line) {
  const uint16_t *from = lines.data + 2 * pair * lines.leading + line;
  const __mmask16 inLines = maskBelow(lines.count - line);
  __m512i words = _mm512_setzero_si512();
  if (2 * pair < lines.k)
    words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(inLines, from));
  if (2 * pair + 1 < lines.k) {
    __m256i second = _mm256_maskz_loadu_epi16(inLines, from + lines.leading);
    words = _mm512_or_si512(words, _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
  }
  return words;
}

/// Lines that lie across memory: a pair of 16 lines, of all groups of the panels, at a time.
NANO_BF16 void packAcross(const Lines &lines, const Panels &to) {
  constexpr int64_t ahead = 8; // rows that are fetched early: neighbours lie on different pages
  for (int64_t pair = 0; pair < to.pairs; ++pair) {
    const uint16_t *from = lines.data + 2 * pair * lines.leading;
    bool fetches = 2 * pair + ahead + 1 < lines.k;
    for (int64_t line = 0; line < lines.count; line += lanes) {
      if (fetches && line % (2 * lanes) == 0) {
        __builtin_prefetch(from + ahead * lines.leading + line);
        __builtin_prefetch(from + (ahead + 1) * lines.leading + line);
      }
      Group(to, line).store(pair, pairOf(lines, pair, line), lines.count - line <= lanes / 2);
    }
  }
}

/// Rows of a left operand of AMX: a line's 32 elements are a row of a register. Lines that are
/// contiguous are copied.
NANO_BF16 void packRowsAlong(const Lines &lines, uint32_t *panels) {
  const int64_t pairs = rounded(lines.k, tiles.together) / 2;
  for (int64_t line = 0; line < lines.count; ++line) {
    const uint16_t *from = lines.data + line * lines.leading;
    uint32_t *to = panels + line / tiles.rows * tiles.rows * pairs + line % tiles.rows * lanes;
    for (int64_t k = 0; k < lines.k; k += tiles.together, to += tiles.rows * lanes)
      _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(maskBelow32(lines.k - k), from + k));
  }
}

/// The same of lines that lie across memory: 16 lines of 16 pairs at a time, of all panels before
/// the next pairs.
NANO_BF16 void packRowsAcross(const Lines &lines, uint32_t *panels) {
  const int64_t pairs = rounded(lines.k, tiles.together) / 2;
  for (int64_t pair = 0; pair < pairs; pair += lanes)
    for (int64_t line = 0; line < lines.count; line += lanes) {
      __m512i words[lanes];
      for (int64_t i = 0; i < lanes; ++i) {
        words[i] = pairOf(lines, pair + i, line);
        if (line % (2 * lanes) == 0 && 2 * (pair + lanes + i) + 1 < lines.k) {
          const uint16_t *next = lines.data + 2 * (pair + lanes + i) * lines.leading + line;
          __builtin_prefetch(next);
          __builtin_prefetch(next + lines.leading);
        }
      }
      transpose(words);
      uint32_t *to = panels + line / tiles.rows * tiles.rows * pairs +
                     (pair * tiles.rows + line % tiles.rows * lanes);
      for (int64_t i = 0; i < lanes; ++i)
        _mm512_storeu_si512(to + i * lanes, words[i]);
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
NANO_BF16 void multiplyPairs(const Part &part, const Destination &to, int64_t row, int64_t column,
                             int64_t rows, int64_t columns) {
  const uint32_t *a = part.a, *b = part.b;
  __m512 sums[pairs.rows][vectors];
  for (int i = 0; i < pairs.rows; ++i)
    for (int j = 0; j < vectors; ++j)
      sums[i][j] = _mm512_setzero_ps();
  for (int64_t pair = 0; 2 * pair < part.k; ++pair, a += pairs.rows, b += pairs.columns) {
    __m512bh right[vectors];
    for (int j = 0; j < vectors; ++j)
      right[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + j * lanes));
    for (int i = 0; i < pairs.rows; ++i) {
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

/// How AMX's registers are used: 0 to 3 are sums, 4 and 5 A's rows, 6 and 7 B's columns.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t bytesOfRow[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfiguration tileConfiguration;

NANO_AMX void configureTiles() { _tile_loadconfig(&tileConfiguration); }
NANO_AMX void releaseTiles() {
  _tile_release();
  _mm_sfence();
}

/// Adds a part to the sums of 16 or 32 rows and columns, of 32 each where they lie.
template <bool twoRows, bool twoColumns> NANO_AMX void sumTiles(const Part &part) {
  constexpr int64_t bytesOfA = lanes * 4, bytesOfB = tiles.columns * 4, bytes = tiles.columns * 4;
  float *sums = part.sums;
  if (part.isFirst) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, bytes);
    if constexpr (twoColumns)
      _tile_loadd(1, sums + lanes, bytes);
    if constexpr (twoRows)
      _tile_loadd(2, sums + lanes * tiles.columns, bytes);
    if constexpr (twoRows && twoColumns)
      _tile_loadd(3, sums + lanes * tiles.columns + lanes, bytes);
  }
  const uint32_t *a = part.a, *b = part.b;
  for (int64_t k = 0; k < part.k; k += tiles.together) {
    _tile_loadd(6, b, bytesOfB);
    _tile_loadd(4, a, bytesOfA);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (twoColumns) {
      _tile_loadd(7, b + lanes, bytesOfB);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (twoRows) {
      _tile_loadd(5, a + lanes * lanes, bytesOfA);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (twoColumns)
        _tile_dpbf16ps(3, 5, 7);
    }
    a += tiles.rows * lanes;
    b += tiles.columns * lanes;
  }
  _tile_stored(0, sums, bytes);
  if constexpr (twoColumns)
    _tile_stored(1, sums + lanes, bytes);
  if constexpr (twoRows)
    _tile_stored(2, sums + lanes * tiles.columns, bytes);
  if constexpr (twoRows && twoColumns)
    _tile_stored(3, sums + lanes * tiles.columns + lanes, bytes);
}

/// Finished sums that nothing is added to, as most are, in less than `store` takes for them.
template <bool isF32>
NANO_BF16 void storePlain(const float *sums, const Destination &to, int64_t row, int64_t column,
                          int64_t rows, int64_t columns) {
  const __mmask32 mask = maskBelow32(columns);
  const __m512 alpha = _mm512_set1_ps(to.alpha);
  for (int64_t i = 0; i < rows; ++i, sums += tiles.columns) {
    const int64_t at = (row + i) * to.cLeading + column;
    const __m512 left = _mm512_mul_ps(_mm512_load_ps(sums), alpha),
                 right = _mm512_mul_ps(_mm512_load_ps(sums + lanes), alpha);
    if constexpr (isF32) {
      float *c = static_cast<float *>(to.c) + at;
      if (to.isPassedBy && columns == tiles.columns && reinterpret_cast<uintptr_t>(c) % 64 == 0) {
        _mm512_stream_ps(c, left);
        _mm512_stream_ps(c + lanes, right);
        continue;
      }
      _mm512_mask_storeu_ps(c, __mmask16(mask), left);
      _mm512_mask_storeu_ps(c + lanes, __mmask16(mask >> lanes), right);
    } else {
      uint16_t *c = static_cast<uint16_t *>(to.c) + at;
      const auto narrow = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(right, left));
      if (to.isPassedBy && columns == tiles.columns && reinterpret_cast<uintptr_t>(c) % 64 == 0)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(c), narrow);
      else
        _mm512_mask_storeu_epi16(c, mask, narrow);
    }
  }
}

template <int vectors>
NANO_BF16 void storeTiles(const float *sums, const Destination &to, int64_t row, int64_t column,
                          int64_t rows, int64_t columns) {
  __mmask16 masks[vectors];
  for (int j = 0; j < vectors; ++j)
    masks[j] = maskBelow(columns - j * lanes);
  for (int64_t i = 0; i < rows; ++i) {
    __m512 ofRow[vectors];
    for (int j = 0; j < vectors; ++j)
      ofRow[j] = _mm512_load_ps(sums + i * tiles.columns + j * lanes);
    store<vectors>(ofRow, masks, to, row + i, column);
  }
}

void multiplyTiles(const Part &part, const Destination &to, int64_t row, int64_t column,
                   int64_t rows, int64_t columns) {
  if (columns > lanes)
    (rows > lanes ? sumTiles<true, true> : sumTiles<false, true>)(part);
  else
    (rows > lanes ? sumTiles<true, false> : sumTiles<false, false>)(part);
  if (!part.isLast)
    return;
  if (to.finishes && !to.addsEarlier && !to.d)
    (to.isF32 ? storePlain<true> : storePlain<false>)(part.sums, to, row, column, rows, columns);
  else if (columns > lanes)
    storeTiles<2>(part.sums, to, row, column, rows, columns);
  else
    storeTiles<1>(part.sums, to, row, column, rows, columns);
}

} // namespace

void pack(Unit unit, bool ofA, const Lines &lines, uint32_t *panels) {
  if (unit == Unit::Tiles && ofA) {
    (lines.across ? packRowsAcross : packRowsAlong)(lines, panels);
    return;
  }
  const Shape shape = shapeOf(unit);
  const Panels to = {panels, ofA ? shape.rows : shape.columns,
                     rounded(lines.k, shape.together) / 2};
  if (lines.across) {
    packAcross(lines, to);
    return;
  }
  for (int64_t line = 0; line < lines.count; line += lanes)
    packAlong(lines, line, to);
}

Multiplying::Multiplying(Unit unit) : unit(unit) {
  if (unit == Unit::Tiles)
    configureTiles();
}

Multiplying::~Multiplying() {
  if (unit == Unit::Tiles)
    releaseTiles();
}

void multiply(Unit unit, const Part &part, const Destination &to, int64_t row, int64_t column,
              int64_t rows, int64_t columns) {
  if (unit == Unit::Tiles)
    multiplyTiles(part, to, row, column, rows, columns);
  else if (columns > 2 * lanes)
    multiplyPairs<3>(part, to, row, column, rows, columns);
  else if (columns > lanes)
    multiplyPairs<2>(part, to, row, column, rows, columns);
  else
    multiplyPairs<1>(part, to, row, column, rows, columns);
}

#else

void pack(Unit, bool, const Lines &, uint32_t *) {}
Multiplying::Multiplying(Unit unit) : unit(unit) {}
Multiplying::~Multiplying() = default;
void multiply(Unit, const Part &, const Destination &, int64_t, int64_t, int64_t, int64_t) {}

#endif

} // namespace nano::cpu::bf16
