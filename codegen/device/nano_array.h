// The arrays that kernels of a model's own are called with: pointers that know their sizes. The
// same text on the CPU, on the GPU and in the emulator.
#pragma once

#include "nano_types.h"

namespace nano {

template <class T> struct WithoutConst {
  using type = T;
};
template <class T> struct WithoutConst<const T> {
  using type = T;
};

/// Row-major elements of these sizes, outermost first, one after the other from a multiple of 16
/// bytes on; T is const where the kernel only reads them.
template <class T, int64_t... Sizes> struct Array {
  using Element = typename WithoutConst<T>::type;
  static constexpr int rank = int(sizeof...(Sizes));
  static constexpr int64_t count = (int64_t(1) * ... * Sizes);

  T *data;

  /// The size of a dimension; negative ones count from the last.
  NANO_DEVICE static constexpr int64_t size(int dimension) {
    const int64_t sizes[] = {Sizes..., 1};
    return sizes[dimension < 0 ? rank + dimension : dimension];
  }
  /// Element i of all.
  NANO_DEVICE T &operator[](int64_t i) const { return data[i]; }
  /// The element at a position: one index a dimension.
  template <class... Indices> NANO_DEVICE T &operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == sizeof...(Sizes), "one index a dimension");
    int64_t i = 0;
    ((i = i * Sizes + int64_t(indices)), ...);
    return data[i];
  }
};

} // namespace nano
