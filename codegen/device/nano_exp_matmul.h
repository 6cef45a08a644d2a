// Exponentials of a product's rows, for a cross-entropy of its logits (nano.exp_matmul), on Hopper:
// the product of nano_matmul.h ends with e^(z − shift) and its sums over parts of rows, and a
// second kernel adds these up.
//
// A shift is a guess of the row's largest logit. What lies more than expMostAbove over it has no
// exponential that products could take: in its place the first kernel leaves its distance, negative
// as no exponential is, and adds to the sum what no other row comes to easily. The second kernel
// makes such a row again with its largest distance; of others it reads the sums alone.
//
// A kernel names its product S with
//   rows, columns, inner   of z = x·wᵀ
//   kept                   columns that have an exponential
//   blocks                 of the first launch, as matmulLaunch says
//   places                 how many matrices e goes to
// and calls expMatmul, and with rows, columns and places expMatmulSums.
#pragma once

#include "nano_exp_matmul_shape.h"
#include "nano_matmul.h"
#include "nano_views.h"

namespace nano {

/// The summand of what is left as its distance: no other row comes to it easily.
constexpr float expFarSummand = 0x1p93f;

/// The product, as nano_matmul.h knows it.
template <class S> struct ExpMatmul {
  using ElementA = bf16;
  using ElementB = bf16;
  using Result = bf16;
  static constexpr int rows = S::rows, columns = S::columns, inner = S::inner, blocks = S::blocks,
                       sums = 1, products = 1, copies = 0, maxima = 0, turned = 0;
  static constexpr bool transposeA = false, transposeB = true, addsColumns = false,
                        handsOver = expMatmulHandsOver;
  struct Others {};
  struct Columns {};
  struct Row {
    float shift;
    int target;
  };

  VectorView<const int> targets;
  VectorView<const float> shift;
  MatrixView<bf16> e[S::places];
  float *parts; ///< [rows, columns / sumColumns]

  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE Columns loadColumns(int) const { return {}; }
  NANO_DEVICE Row loadRow(int row) const { return {shift.read(row), targets.read(row)}; }
  NANO_DEVICE Vec<float, 1> store(int row, int column, const Vec<bf16, 8> &product, const Others &,
                                  const Columns &, const Row &ofRow) const {
    Vec<float, 8> above = to<float>(product) - ofRow.shift;
    if (const int target = ofRow.target - column; uint32_t(target) < 8)
      keep(above, [&](int i) { return i != target; });
    if (column + 8 > S::kept)
      keep(above, [&](int i) { return column + i < S::kept; });
    Vec<float, 8> left = exponential(above), summands = left;
    if (largest(above) > expMostAbove)
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (above.lane[i] > expMostAbove) {
          left.lane[i] = -above.lane[i];
          summands.lane[i] = expFarSummand;
        }
    const auto stored = to<bf16>(left);
#pragma unroll
    for (int place = 0; place < S::places; ++place)
      storeStreaming<8>(e[place].base + row * e[place].row + column, stored);
    return {sum(summands)};
  }
  NANO_DEVICE void storeSums(int row, int part, const Vec<float, 1> &totals) const {
    parts[int64_t(row) * (columns / MatmulTiles::sumColumns) + part] = totals.lane[0];
  }

private:
  /// Of the others the exponential is 0.
  template <class F> static NANO_DEVICE void keep(Vec<float, 8> &above, F isKept) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      above.lane[i] = isKept(i) ? above.lane[i] : bitCast<float>(0xff800000u);
  }
};

template <class S>
NANO_DEVICE void expMatmul(int block, const TensorMap *maps, const ExpMatmul<S> &x) {
  matmul(block, maps[0], maps[1], x);
}

/// What the second kernel reads and writes.
template <class S, int sumPlaces, int largestPlaces> struct ExpSumsOperands {
  const float *parts;
  MatrixView<bf16> e[S::places];
  VectorView<float> sum[sumPlaces], largest[largestPlaces];
};

/// Rows of iteration `iteration`, one a warp of the block's `Threads` threads.
template <class S, int Threads, int sumPlaces, int largestPlaces>
NANO_DEVICE void expMatmulSums(int64_t iteration,
                               const ExpSumsOperands<S, sumPlaces, largestPlaces> &x) {
  constexpr int parts = S::columns / MatmulTiles::sumColumns, step = 32 * 8;
  const int row = int(iteration) * (Threads / 32) + warpIndex();
  if (row >= S::rows)
    return;
  float sum = 0, most = 0;
  for (int i = laneIndex(); i < parts; i += 32)
    sum += loadReadOnly(x.parts + int64_t(row) * parts + i);
  sum = groupSum<32>(sum);
  if (!(sum < expFarSummand)) {
    const bf16 *const e = x.e[0].base + row * x.e[0].row;
    for (int column = laneIndex() * 8; column < S::columns; column += step)
      most = maximum(most, nano::largest(-to<float>(nano::load<8>(e + column))));
    most = groupMax<32>(most);
    if (most > 0) { // else many near the limit: nothing was left, or a number is none
      const float factor = exponential(-most);
      sum = 0;
      for (int column = laneIndex() * 8; column < S::columns; column += step) {
        Vec<float, 8> left = to<float>(nano::load<8>(e + column));
#pragma unroll
        for (int i = 0; i < 8; ++i)
          left.lane[i] =
              left.lane[i] < 0 ? exponential(-left.lane[i] - most) : left.lane[i] * factor;
        sum += nano::sum(left);
        const auto stored = to<bf16>(left);
#pragma unroll
        for (int place = 0; place < S::places; ++place)
          nano::store<8>(x.e[place].base + row * x.e[place].row + column, stored);
      }
      sum = groupSum<32>(sum);
    }
  }
  if (laneIndex() > 0)
    return;
#pragma unroll
  for (int place = 0; place < sumPlaces; ++place)
    x.sum[place][row] = sum;
#pragma unroll
  for (int place = 0; place < largestPlaces; ++place)
    x.largest[place][row] = most;
}

} // namespace nano
