// Exponentials of a product's rows, from task to kernels, on the emulator, against the interpreter
// of the graph dialect. Factors are small integers, so that logits and their distances to shifts
// are what bf16 has, and no sum depends on its order. Tolerances of |actual − expected| / (1 +
// |expected|): of exponentials, which are rounded to bf16, 2⁻⁸; of sums, by exponentials' 2⁻¹⁶ and
// as many roundings to f32, 2⁻¹⁴. Of rows that are made again exponentials are summed as bf16 has
// them: 2⁻⁹. A missing column moves a sum by more where it has few.
#include "tests/codegen/ProductTask.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

std::string exponentialsProgram(const Sizes &sizes, int64_t kept) {
  return withSizes(
      R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxbf16>
      %b = step.buffer "b" : memref<COLSxINNERxbf16>
      %t = step.buffer "targets" : memref<ROWSxi32>
      %s = step.buffer "shift" : memref<ROWSxf32>
      %e = step.buffer "e" : memref<ROWSxCOLSxbf16>
      %n = step.buffer "sum" : memref<ROWSxf32>
      %m = step.buffer "largest" : memref<ROWSxf32>
      step.task ins(%a, %b, %t, %s) outs(%e, %n, %m)
          : (memref<ROWSxINNERxbf16>, memref<COLSxINNERxbf16>, memref<ROWSxi32>, memref<ROWSxf32>)
          -> (memref<ROWSxCOLSxbf16>, memref<ROWSxf32>, memref<ROWSxf32>) {
      ^bb0(%x: tensor<ROWSxINNERxbf16>, %w: tensor<COLSxINNERxbf16>, %i: tensor<ROWSxi32>, %g: tensor<ROWSxf32>):
        %1, %2, %3 = nano.exp_matmul %x, %w, %i, %g {columns = KEPT : i64}
            : (tensor<ROWSxINNERxbf16>, tensor<COLSxINNERxbf16>, tensor<ROWSxi32>, tensor<ROWSxf32>)
            -> (tensor<ROWSxCOLSxbf16>, tensor<ROWSxf32>, tensor<ROWSxf32>)
        nano.yield %1, %2, %3 : tensor<ROWSxCOLSxbf16>, tensor<ROWSxf32>, tensor<ROWSxf32>
      }
    })",
      {{"ROWS", sizes.rows}, {"COLS", sizes.columns}, {"INNER", sizes.inner}, {"KEPT", kept}});
}

/// Shifts are less than a row's largest logit by `belowLargest`.
void check(const Sizes &sizes, int64_t kept, double (*belowLargest)(int64_t row),
           double ofSums = 0x1p-14) {
  SCOPED_TRACE(sizes.text());
  ProductTask task(exponentialsProgram(sizes, kept));
  std::mt19937_64 random(11);
  std::uniform_int_distribution<int> factor(-2, 2);
  std::uniform_int_distribution<int64_t> column(0, kept - 1);
  const auto matrix = [&](int64_t rows) {
    TensorValue value{{rows, sizes.inner}, std::vector<double>(size_t(rows * sizes.inner))};
    for (double &number : value.data)
      number = factor(random);
    return value;
  };
  const TensorValue a = matrix(sizes.rows), b = matrix(sizes.columns);
  TensorValue targets{{sizes.rows}, {}}, shift{{sizes.rows}, {}};
  for (int64_t row = 0; row < sizes.rows; ++row) {
    const int64_t target = column(random);
    double largest = -INFINITY;
    for (int64_t v = 0; v < kept; ++v) {
      double logit = 0;
      for (int64_t d = 0; d < sizes.inner; ++d)
        logit += a.data[size_t(row * sizes.inner + d)] * b.data[size_t(v * sizes.inner + d)];
      largest = v == target ? largest : std::max(largest, logit);
    }
    targets.data.push_back(double(target));
    shift.data.push_back(std::isfinite(largest) ? largest - belowLargest(row) : 0);
  }
  task.setInput(0, a);
  task.setInput(1, b);
  task.setInput(2, targets);
  task.setInput(3, shift);
  task.check(sizes.multiprocessors, {0x1p-8, ofSums, 0});
}

} // namespace

/// All tiles whole, and ragged rows, columns and inner dimensions; blocks with several tiles.
TEST(ExpMatmulKernel, AnyShape) {
  const auto near = [](int64_t row) { return double(row % 7); };
  check({256, 256, 64, 2}, 256, near);
  check({200, 384, 72, 4}, 300, near);
  check({130, 640, 200, 2}, 513, near);
  check({1, 128, 8, 4}, 1, near);
}

/// Shifts that are far above the row's largest logit, near the limit, and far below it, for some
/// rows and for all; exponentials below the smallest number; and a row's largest beyond what an
/// exponential could be scaled by.
TEST(ExpMatmulKernel, AnyShift) {
  check(
      {200, 384, 72, 4}, 300,
      [](int64_t row) {
        return std::array{-200.0, -80.0, 0.0, 63.0, 64.0, 65.0, 100.0, 180.0}[size_t(row % 8)];
      },
      0x1p-9);
  check({140, 256, 64, 2}, 200, [](int64_t row) { return 70.0 + double(row % 3); }, 0x1p-9);
}
