// Operands of templates in memory.
#pragma once

#include "nano_primitives.h"

namespace nano {

/// An i32 operand [T].
struct TokenView {
  const int *base;
  long long stride = 1;
  NANO_DEVICE int operator[](long long t) const { return base[t * stride]; }
};

/// A vector in memory: element i is at base[i·stride].
template <class T> struct VectorView {
  T *base;
  long long stride = 1;
  NANO_DEVICE T &operator[](long long i) const { return base[i * stride]; }
  /// Of numbers that the kernel does not write.
  NANO_DEVICE auto read(long long i) const { return loadReadOnly(base + i * stride); }
};

/// A matrix in memory: element (r, c) is at base[r·row + c·element].
template <class T> struct MatrixView {
  T *base;
  long long row, element = 1;
};

/// Matrices in memory: element (m, r, c) is at base[m·matrix + r·row + c·element].
template <class T> struct MatricesView {
  T *base;
  long long matrix, row, element = 1;
};

} // namespace nano
