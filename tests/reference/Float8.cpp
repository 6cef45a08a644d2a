// Rounding to the two 8-bit float formats.
#include "tests/reference/Float8.h"

#include <algorithm>
#include <cmath>

namespace nano::reference {

Real roundTo(const Float8 &format, Real x) {
  if (x == 0)
    return 0;
  x = std::clamp(x, -format.largest, format.largest);
  const int exponent = std::max(std::ilogb(x), format.leastExponent);
  const Real spacing = std::ldexp(Real(1), exponent - format.fraction);
  // To an integer: half way goes to the even one, in the default rounding mode.
  return std::nearbyint(x / spacing) * spacing;
}

Vec throughFloat8(const Float8 &format, Real scale, const Vec &x) {
  Vec y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = scale * roundTo(format, x[i] / scale);
  return y;
}

Vec throughFloat8Blocks(const Float8 &format, const Vec &x, int64_t columns, int64_t blockRows,
                        int64_t blockColumns) {
  Vec y(x.size());
  const int64_t rows = int64_t(x.size()) / columns;
  for (int64_t top = 0; top < rows; top += blockRows)
    for (int64_t left = 0; left < columns; left += blockColumns) {
      Real largest = 0;
      for (int64_t r = top; r < top + blockRows; ++r)
        for (int64_t c = left; c < left + blockColumns; ++c)
          largest = std::max(largest, std::abs(x[r * columns + c]));
      const Real scale = largest > 0 ? largest / format.largest : 1;
      for (int64_t r = top; r < top + blockRows; ++r)
        for (int64_t c = left; c < left + blockColumns; ++c)
          y[r * columns + c] = scale * roundTo(format, x[r * columns + c] / scale);
    }
  return y;
}

Real scaleFor(const Float8 &format, const Vec &x) {
  Real largest = 0;
  for (Real value : x)
    largest = std::max(largest, std::abs(value));
  return largest > 0 ? largest / format.largest : 1;
}

} // namespace nano::reference
