// Parts of a product of bf16 matrices by AVX-512's dot products of pairs (vdpbf16ps), for
// processors that have these: operands packed into panels, and tiles of C that are summed in
// registers. PackedMatmul.cpp makes whole products of them.
#pragma once

#include <cstdint>

namespace nano::cpu::bf16 {

/// Rows and columns of a tile of C: 24 vectors of sums, which with three of B and one of A fill the
/// 32 registers but for four.
constexpr int64_t tileRows = 8, tileColumns = 48;

/// Part of op(A) or op(B): its lines are A's rows or B's columns, each of `k` elements.
struct Lines {
  const uint16_t *data = nullptr; ///< of the first line, its first element
  int64_t leading = 0; ///< elements from a line to the next, or, where `across`, from an element of
                       ///< a line to the next
  bool across = false; ///< neighbours in memory are of neighbouring lines
  int64_t count = 0, k = 0;
};

/// 32-bit words of a panel of `width` lines.
constexpr int64_t panelWords(int64_t width, int64_t k) { return (k + 1) / 2 * width; }

/// Packs lines into panels of `width` (`tileRows` or `tileColumns`) lines. A panel holds, for each
/// pair of elements along k, the pairs of all of its lines, a word each; where lines or the second
/// of a pair do not exist, zeros.
void pack(const Lines &lines, int64_t width, uint32_t *panels);

/// What becomes of a tile's sums: added to earlier ones, and kept in f32, or finished as
/// alpha · sums + beta · D in C's type.
struct Destination {
  float *sums = nullptr; ///< earlier and unfinished sums; null where there are neither
  int64_t sumsLeading = 0;
  bool addsEarlier = false, finishes = true;
  void *c = nullptr;
  int64_t cLeading = 0;
  const void *d = nullptr; ///< null without beta
  int64_t dLeading = 0;
  bool isF32 = false; ///< C and D; else bf16
  float alpha = 1, beta = 0;
};

/// C's tile at (row, column), of `rows` × `columns` elements at most `tileRows` × `tileColumns`,
/// from a panel of A and one of B.
void multiply(const uint32_t *a, const uint32_t *b, int64_t k, const Destination &to, int64_t row,
              int64_t column, int64_t rows, int64_t columns);

} // namespace nano::cpu::bf16
