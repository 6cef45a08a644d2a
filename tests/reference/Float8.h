// Rounding to the two 8-bit float formats, in double precision: what FP8 does to a tensor.
#pragma once

#include "tests/reference/Tensor.h"

namespace nano::reference {

/// A format by its numbers: m·2^e with `fraction` bits after the binary point of m.
struct Float8 {
  int fraction;      ///< bits
  int leastExponent; ///< of normal numbers; below it the spacing stays
  Real largest;
};
inline constexpr Float8 e4m3{3, -6, 448}, e5m2{2, -14, 57344};

/// The number of the format nearest to x, of two the one with an even last bit; beyond the largest,
/// that.
Real roundTo(const Float8 &format, Real x);

/// scale·round(x/scale), element by element.
Vec throughFloat8(const Float8 &format, Real scale, const Vec &x);

/// The same with scales of its own for each block of `blockRows`×`blockColumns` of a matrix with
/// `columns` columns: the block's largest magnitude over the format's largest number.
Vec throughFloat8Blocks(const Float8 &format, const Vec &x, int64_t columns, int64_t blockRows,
                        int64_t blockColumns);

/// The largest magnitude over the format's largest number: the whole matrix is one block.
Real scaleFor(const Float8 &format, const Vec &x);

} // namespace nano::reference
