// The projection of rows onto the simplex (nano.sparsemax), by a block each.
//
// y = max(x − τ, 0) of sum 1. Of numbers less the row's largest, so that they are at most 0 and τ
// lies in [−1, 0), the sum is convex in τ: Newton's steps from −1 on never pass the root, and each
// leaves out columns or is the last. Where the sum of k columns is 1 + s, s·k is at most a quarter
// of what it was a step before: a row of 2^16 columns takes 30 at most, and few take ten. τ is kept
// as two numbers: many small y together are a good part of 1, and each less than τ's last place.
#pragma once

#include "nano_kernels.h"
#include "nano_views.h"

namespace nano {

template <class T, int places> struct SparsemaxOperands {
  MatrixView<const T> x;
  MatrixView<T> y[places];
};

/// A row, of which a thread has every `Threads`th vector: in registers, or, where these are too
/// few, in memory, which it reads each time.
template <int Threads, int Columns, int Vector, class T> class SparsemaxRow {
public:
  NANO_DEVICE SparsemaxRow(const T *x, int64_t element) : x(x), element(element) {
    if constexpr (isHeld) {
#pragma unroll
      for (int i = 0; i < turns; ++i)
        if (const int column = columnOf(i); column < Columns)
          held[i] = fromMemory(column);
    }
  }

  /// Calls visit(first column, numbers of a vector) for the thread's vectors.
  template <class Visit> NANO_DEVICE void forEach(Visit visit) const {
    if constexpr (isHeld) {
#pragma unroll
      for (int i = 0; i < turns; ++i)
        if (const int column = columnOf(i); column < Columns)
          visit(column, held[i]);
    } else {
#pragma unroll 4
      for (int i = 0; i < turns; ++i)
        if (const int column = columnOf(i); column < Columns)
          visit(column, fromMemory(column));
    }
  }

private:
  static constexpr int step = Threads * Vector, turns = (Columns + step - 1) / step;
  static constexpr bool isHeld = turns * Vector <= 32;

  static NANO_DEVICE int columnOf(int i) { return (i * Threads + int(threadIndex())) * Vector; }
  NANO_DEVICE Vec<float, Vector> fromMemory(int column) const {
    if constexpr (Vector > 1)
      return to<float>(load<Vector, Vector *int(sizeof(T))>(x + column));
    else
      return {{float(x[column * element])}};
  }

  const T *x;
  int64_t element;
  Vec<float, Vector> held[isHeld ? turns : 1];
};

/// y[row] = max(x[row] − τ, 0). All `Threads` threads of the block call it; dynamic shared memory
/// holds 128 numbers. `Vector` columns lie at a multiple of their bytes in all operands.
template <int Threads, int Columns, int Vector, class T, int places>
NANO_DEVICE void sparsemax(int64_t row, const SparsemaxOperands<T, places> &operands) {
  float *const partials = dynamicShared<float>();
  const SparsemaxRow<Threads, Columns, Vector, T> numbers(operands.x.base + row * operands.x.row,
                                                          operands.x.element);
  const float infinity = bitCast<float>(0x7f800000u);
  float largest = -infinity;
  numbers.forEach(
      [&](int, const Vec<float, Vector> &x) { largest = maximum(largest, nano::largest(x)); });
  largest = teamMax<Threads>(largest, partials + 64, 0);
  if (largest == infinity)
    largest = bitCast<float>(0x7fc00000u);

  float threshold = -1, behind = 0, rest = 0, before = float(Columns) + 1;
  auto aboveOf = [&](const Vec<float, Vector> &x) { return x - largest - threshold - behind; };
  for (int turn = 0;; turn ^= 64) { // numbers of a turn and of the next lie apart
    Vec<float, Vector> sums{}, counts{};
    numbers.forEach([&](int, const Vec<float, Vector> &x) {
      const Vec<float, Vector> above = aboveOf(x);
#pragma unroll
      for (int lane = 0; lane < Vector; ++lane) {
        sums[lane] += above[lane] > 0 ? above[lane] : 0.0f;
        counts[lane] += above[lane] > 0 ? 1.0f : 0.0f;
      }
    });
    shareSums<Threads, 2>(partials + turn, 0, nano::sum(sums), nano::sum(counts));
    const float sum = sharedSum<Threads, 2>(partials + turn, 0, 0),
                count = sharedSum<Threads, 2>(partials + turn, 0, 1);
    rest = quotient(sum - 1.0f, count);
    if (!(count < before))
      break;
    before = count;
    const float step = behind + rest, next = threshold + step;
    behind = step - (next - threshold);
    threshold = next;
  }

  numbers.forEach([&](int column, const Vec<float, Vector> &x) {
    const auto y = to<T>(maximum(aboveOf(x) - rest, 0.0f));
#pragma unroll
    for (int place = 0; place < places; ++place) {
      const MatrixView<T> &result = operands.y[place];
      T *const at = result.base + row * result.row + column * result.element;
      if constexpr (Vector > 1)
        store<Vector, Vector *int(sizeof(T))>(at, y);
      else
        *at = y[0];
    }
  });
}

} // namespace nano
