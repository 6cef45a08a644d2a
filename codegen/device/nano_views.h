// Operands of templates in memory.
#pragma once

#include "nano_types.h"

namespace nano {

/// An i32 operand [T].
struct TokenView {
  const int *base;
  long long stride = 1;
  NANO_DEVICE int operator[](long long t) const { return base[t * stride]; }
};

/// A matrix in memory: element (r, c) is at base[r·row + c·element].
template <class T> struct MatrixView {
  T *base;
  long long row, element = 1;
};

} // namespace nano
