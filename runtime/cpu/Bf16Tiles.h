// Parts of a product of bf16 matrices by a processor's own products of bf16: operands packed into
// panels, and tiles of C that are summed in registers. PackedMatmul.cpp makes whole products of
// them.
#pragma once

#include <cstdint>

namespace nano::cpu::bf16 {

/// What multiplies.
enum class Unit {
  Pairs, ///< AVX-512's dot products of pairs (vdpbf16ps)
  Tiles, ///< AMX (tdpbf16ps): 16 × 32 by 32 × 16 elements an instruction
};

/// How a unit takes a product apart.
struct Shape {
  int64_t rows, columns; ///< of a tile of C
  int64_t together;      ///< elements along k that are multiplied at once
  int64_t part;          ///< elements along k after which a panel's next ones are multiplied
  int64_t depth;         ///< most elements along k of panels; where there are more, sums wait
};

/// Pairs: 24 vectors of sums, which with three of B and one of A fill the 32 registers but for
/// four. Tiles: four registers of sums, two of A and two of B, so that each of these is used twice;
/// parts such that one panel's stays in a first-level cache of 32 or 48 kB while the other's
/// go by, as the second level brings no more than the lines of one operand in time.
constexpr Shape shapeOf(Unit unit) {
  return unit == Unit::Pairs ? Shape{8, 48, 2, 2048, 2048} : Shape{32, 32, 32, 256, 1024};
}

/// Part of op(A) or op(B): its lines are A's rows or B's columns, each of `k` elements.
struct Lines {
  const uint16_t *data = nullptr; ///< of the first line, its first element
  int64_t leading = 0; ///< elements from a line to the next, or, where `across`, from an element of
                       ///< a line to the next
  bool across = false; ///< neighbours in memory are of neighbouring lines
  int64_t count = 0, k = 0;
};

/// 32-bit words of as many whole panels as `lines` lines are, a multiple of a panel's.
constexpr int64_t panelWords(Unit unit, int64_t lines, int64_t k) {
  const int64_t together = shapeOf(unit).together;
  return (k + together - 1) / together * together / 2 * lines;
}

/// Packs lines of A or of B into panels of `shapeOf(unit).rows` or `columns` of them. A panel
/// holds, for each pair of elements along k, the pairs of all of its lines, a word each; A's for
/// Tiles, for each 32 elements along k, those of a line after those of another. Where lines or
/// elements of what is multiplied at once do not exist, zeros, or anything of which no result that
/// is stored depends.
void pack(Unit unit, bool ofA, const Lines &lines, uint32_t *panels);

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
  bool isPassedBy = false; ///< finished rows of C go to memory past the caches, where they can
};

/// While it lives, its thread may call `multiply`: makes Tiles' registers ready, and in the end
/// what went past the caches visible to other threads.
class Multiplying {
public:
  explicit Multiplying(Unit unit);
  ~Multiplying();
  Multiplying(const Multiplying &) = delete;
  Multiplying &operator=(const Multiplying &) = delete;

private:
  Unit unit;
};

/// A part along k of a tile's product.
struct Part {
  const uint32_t *a, *b; ///< of a panel of A and one of B
  int64_t k;
  bool isFirst = true, isLast = true;
  float *sums = nullptr; ///< of Tiles: what keeps the tile's sums between parts, 64-byte aligned
};

/// C's tile at (row, column), of `rows` × `columns` elements at most the shape's; it is written
/// with the last of its parts.
void multiply(Unit unit, const Part &part, const Destination &to, int64_t row, int64_t column,
              int64_t rows, int64_t columns);

} // namespace nano::cpu::bf16
