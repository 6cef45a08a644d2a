// The columns of a row in the order of its numbers, the largest first (nano.argsort), by a block.
//
// Batcher's bitonic network in the form in which every exchange puts the smaller entry to the lower
// place: of two sorted runs the second is compared from its end, then halves of what that leaves.
// So places behind the last column, which hold what is larger than all, never take part, and rows
// have any length.
#pragma once

#include "nano_kernels.h"
#include "nano_views.h"

namespace nano {

template <class T, int places> struct ArgsortOperands {
  MatrixView<const T> x;
  MatrixView<int> y[places];
};

/// An integer that is larger where the number is, equal where it is, and largest of a NaN.
NANO_DEVICE int argsortKey(int x) { return x; }
NANO_DEVICE int argsortKey(float x) {
  const int bits = bitCast<int>(x), most = 0x7fffffff;
  if (x != x)
    return most;
  return x == 0 ? 0 : bits < 0 ? bits ^ most : bits;
}
NANO_DEVICE int argsortKey(bf16 x) { return argsortKey(float(x)); }

/// The smaller, the earlier: the key turned round, above the column.
template <class T> NANO_DEVICE uint64_t argsortEntry(T x, int column) {
  return uint64_t(0x7fffffffu - uint32_t(argsortKey(x))) << 32 | uint32_t(column);
}

/// A row whose entries lie in shared memory.
struct ArgsortShared {
  uint64_t *entries;
  NANO_DEVICE void exchange(int low, int high) const {
    const uint64_t a = entries[low], b = entries[high];
    if (b < a) {
      entries[low] = b;
      entries[high] = a;
    }
  }
  NANO_DEVICE int column(int j) const { return int(uint32_t(entries[j])); }
};

/// A row whose columns lie where they go; their numbers are looked up.
template <class T> struct ArgsortInPlace {
  const T *x;
  int *y;
  long long xElement, yElement;
  NANO_DEVICE void exchange(int low, int high) const {
    const int a = y[low * yElement], b = y[high * yElement];
    if (argsortEntry(x[b * xElement], b) < argsortEntry(x[a * xElement], a)) {
      y[low * yElement] = b;
      y[high * yElement] = a;
    }
  }
  NANO_DEVICE int column(int j) const { return y[j * yElement]; }
};

/// Sorts a row, which all threads have written parts of.
template <int Threads, int Columns, class Row> NANO_DEVICE void argsortRow(const Row &row) {
  syncThreads();
#pragma unroll 1
  for (int size = 1; size < Columns; size *= 2) // of the sorted runs
#pragma unroll 1
    for (int distance = size; distance > 0; distance /= 2) {
      const int across = distance == size ? 2 * size - 1 : distance;
      for (int pair = int(threadIndex());; pair += Threads) {
        const int low = pair + (pair & -distance), high = low ^ across;
        if (low >= Columns)
          break;
        if (high < Columns)
          row.exchange(low, high);
      }
      // Pairs at most 32 apart are those of 64 columns that a warp has in all such stages.
      if (distance > 32 || (distance == 1 && size >= 32))
        syncThreads();
      else
        syncWarp();
    }
  syncThreads();
}

/// y[row, j] = the column of the j-th largest number of x[row]. All `Threads` threads of the block
/// call it. Shared: dynamic shared memory holds 8 bytes a column.
template <int Threads, int Columns, bool Shared, class T, int places>
NANO_DEVICE void argsort(int64_t row, const ArgsortOperands<T, places> &operands) {
  const T *const x = operands.x.base + row * operands.x.row;
  auto store = [&](const auto &sorted, int from) {
    for (int j = int(threadIndex()); j < Columns; j += Threads)
#pragma unroll
      for (int place = from; place < places; ++place) {
        const MatrixView<int> &y = operands.y[place];
        y.base[row * y.row + j * y.element] = sorted.column(j);
      }
  };
  if constexpr (Shared) {
    const ArgsortShared sorted{dynamicShared<uint64_t>()};
    for (int j = int(threadIndex()); j < Columns; j += Threads)
      sorted.entries[j] = argsortEntry(x[j * operands.x.element], j);
    argsortRow<Threads, Columns>(sorted);
    store(sorted, 0);
  } else {
    const MatrixView<int> &first = operands.y[0];
    const ArgsortInPlace<T> sorted{x, first.base + row * first.row, operands.x.element,
                                   first.element};
    for (int j = int(threadIndex()); j < Columns; j += Threads)
      sorted.y[j * first.element] = j;
    argsortRow<Threads, Columns>(sorted);
    store(sorted, 1);
  }
}

} // namespace nano
