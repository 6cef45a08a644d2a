// Sums of rows as CUDA on the emulator, of sizes that do not fill the vectors of a row's threads:
// with several rows and with one, whose places depend on the thread alone. Tolerance: 2⁻²⁰ of the
// sum of absolute values, for up to 1021 terms in f32. Rows that are updated in place, under
// several schedules of the threads: 2⁻²⁰ of 1 + |x| for a sum, a root and three operations in f32.
#include "tests/codegen/CudaRow.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace nano::test;

namespace {

std::string rowsText(int64_t rows, int64_t columns) {
  const std::string row = std::to_string(rows) + "xf32",
                    full = std::to_string(rows) + "x" + std::to_string(columns) + "xf32";
  return "step.program @p {\n  %x = step.buffer \"x\" : memref<" + full +
         ">\n  %y = step.buffer \"y\" : memref<" + row +
         ">\n  step.task ins(%x) outs(%y) : (memref<" + full + ">) -> memref<" + row +
         "> {\n  ^bb0(%a: tensor<" + full + ">):\n    %s = nano.reduce sum %a dims [1] : tensor<" +
         full + "> -> tensor<" + row + ">\n    nano.yield %s : tensor<" + row + ">\n  }\n}\n";
}

struct Size {
  int64_t rows, columns;
};

std::ostream &operator<<(std::ostream &os, const Size &size) {
  return os << size.rows << "x" << size.columns;
}

class CudaRowSum : public testing::TestWithParam<Size> {};

TEST_P(CudaRowSum, IsThatOfItsElements) {
  const auto [rows, columns] = GetParam();
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  std::vector<double> values(rows * columns);
  for (double &value : values)
    value = rounded("f32", normal(engine));
  const CudaRow kernel = cudaRow(rowsText(rows, columns));
  DeviceBuffer x = bufferOf("x", "f32", values), y("y", 4, rows);
  ASSERT_EQ(run(kernel, {{&x}, {&y, true}}), "");
  const std::vector<double> sums = y.values();
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0, size = 0;
    for (int64_t j = 0; j < columns; ++j) {
      sum += values[r * columns + j];
      size += std::abs(values[r * columns + j]);
    }
    EXPECT_NEAR(sums[r], sum, std::ldexp(size, -20)) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaRowSum,
                         testing::Values(Size{1, 33}, Size{1, 127}, Size{3, 127}, Size{1, 1021}),
                         testing::PrintToStringParamName());

/// x ← x / ‖x‖ + g · h of every row, and s ← s + ‖x‖² of the row before it changes.
std::string updateText(int64_t rows, int64_t columns) {
  const std::string row = std::to_string(rows) + "xf32",
                    full = std::to_string(rows) + "x" + std::to_string(columns) + "xf32";
  std::string text = R"(step.program @p {
  %x = step.buffer "x" : memref<FULL>
  %g = step.buffer "g" : memref<FULL>
  %h = step.buffer "h" : memref<FULL>
  %s = step.buffer "s" : memref<ROW>
  step.task ins(%x, %g, %h, %s) outs(%x, %s) : (memref<FULL>, memref<FULL>, memref<FULL>, memref<ROW>) -> (memref<FULL>, memref<ROW>) {
  ^bb0(%a: tensor<FULL>, %b: tensor<FULL>, %c: tensor<FULL>, %d: tensor<ROW>):
    %0 = nano.mul %a, %a : tensor<FULL>
    %1 = nano.reduce sum %0 dims [1] : tensor<FULL> -> tensor<ROW>
    %2 = nano.rsqrt %1 : tensor<ROW>
    %3 = nano.broadcast %2 dims [0] : tensor<ROW> -> tensor<FULL>
    %4 = nano.mul %a, %3 : tensor<FULL>
    %5 = nano.mul %b, %c : tensor<FULL>
    %6 = nano.add %4, %5 : tensor<FULL>
    %7 = nano.add %d, %1 : tensor<ROW>
    nano.yield %6, %7 : tensor<FULL>, tensor<ROW>
  }
}
)";
  for (auto [name, type] : {std::pair("FULL", &full), std::pair("ROW", &row)})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::strlen(name), *type);
  return text;
}

class CudaRowUpdate : public testing::TestWithParam<Size> {};

TEST_P(CudaRowUpdate, IsReadByNobodyWhoHasNoRow) {
  const auto [rows, columns] = GetParam();
  const CudaRow kernel = cudaRow(updateText(rows, columns));
  TemplateRunner runner(kernel.text, {"kernel"});
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  auto values = [&](int64_t count) {
    std::vector<double> made(count);
    for (double &value : made)
      value = rounded("f32", normal(engine));
    return made;
  };
  const std::vector<double> x = values(rows * columns), g = values(rows * columns),
                            h = values(rows * columns), s = values(rows);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DeviceBuffer bx = bufferOf("x", "f32", x), bg = bufferOf("g", "f32", g),
                 bh = bufferOf("h", "f32", h), bs = bufferOf("s", "f32", s);
    ASSERT_EQ(runner.run("kernel", kernel.shape,
                         {{&bx, true, 0, true}, {&bg}, {&bh}, {&bs, true, 0, true}}, seed),
              "");
    const std::vector<double> newX = bx.values(), newS = bs.values();
    for (int64_t r = 0; r < rows; ++r) {
      double square = 0;
      for (int64_t j = 0; j < columns; ++j)
        square += x[r * columns + j] * x[r * columns + j];
      EXPECT_NEAR(newS[r], s[r] + square, std::ldexp(1 + square, -20)) << "row " << r;
      for (int64_t j = r * columns; j < (r + 1) * columns; ++j) {
        const double expected = x[j] / std::sqrt(square) + g[j] * h[j];
        ASSERT_NEAR(newX[j], expected, std::ldexp(1 + std::abs(expected), -20)) << "at " << j;
      }
    }
  }
}

// One row that part of a block holds; rows that leave a part of the last block without one.
INSTANTIATE_TEST_SUITE_P(Sizes, CudaRowUpdate,
                         testing::Values(Size{1, 32}, Size{1, 64}, Size{1, 120}, Size{1, 128},
                                         Size{3, 64}, Size{5, 128}, Size{1, 1024}),
                         testing::PrintToStringParamName());

/// y = a + b, rounded, and z = y · Σ y of the row: what the second pass reads is y as it is stored.
std::string storedText(int64_t rows, int64_t columns) {
  const std::string row = std::to_string(rows) + "xf32",
                    full = std::to_string(rows) + "x" + std::to_string(columns) + "x";
  std::string text = R"(step.program @p {
  %a = step.buffer "a" : memref<FULLbf16>
  %b = step.buffer "b" : memref<FULLbf16>
  %y = step.buffer "y" : memref<FULLbf16>
  %z = step.buffer "z" : memref<FULLbf16>
  step.task ins(%a, %b) outs(%y, %z) : (memref<FULLbf16>, memref<FULLbf16>) -> (memref<FULLbf16>, memref<FULLbf16>) {
  ^bb0(%0: tensor<FULLbf16>, %1: tensor<FULLbf16>):
    %2 = nano.cast %0 : tensor<FULLbf16> -> tensor<FULLf32>
    %3 = nano.cast %1 : tensor<FULLbf16> -> tensor<FULLf32>
    %4 = nano.add %2, %3 : tensor<FULLf32>
    %5 = nano.cast %4 : tensor<FULLf32> -> tensor<FULLbf16>
    %6 = nano.cast %5 : tensor<FULLbf16> -> tensor<FULLf32>
    %7 = nano.reduce sum %6 dims [1] : tensor<FULLf32> -> tensor<ROW>
    %8 = nano.broadcast %7 dims [0] : tensor<ROW> -> tensor<FULLf32>
    %9 = nano.mul %6, %8 : tensor<FULLf32>
    %10 = nano.cast %9 : tensor<FULLf32> -> tensor<FULLbf16>
    nano.yield %5, %10 : tensor<FULLbf16>, tensor<FULLbf16>
  }
}
)";
  for (auto [name, type] : {std::pair("FULL", &full), std::pair("ROW", &row)})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::strlen(name), *type);
  return text;
}

class CudaRowStored : public testing::TestWithParam<Size> {};

// Tolerances: a rounding to bf16 (2⁻⁸), of z besides 2⁻²⁰ of y times the sum of absolute values.
TEST_P(CudaRowStored, IsReadAsItWasStored) {
  const auto [rows, columns] = GetParam();
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  auto values = [&] {
    std::vector<double> made(rows * columns);
    for (double &value : made)
      value = rounded("bf16", normal(engine));
    return made;
  };
  const std::vector<double> a = values(), b = values();
  const CudaRow kernel = cudaRow(storedText(rows, columns));
  DeviceBuffer ba = bufferOf("a", "bf16", a), bb = bufferOf("b", "bf16", b),
               by = bufferOf("y", "bf16", a), bz = bufferOf("z", "bf16", a);
  ASSERT_EQ(run(kernel, {{&ba}, {&bb}, {&by, true}, {&bz, true}}), "");
  const std::vector<double> y = by.values(), z = bz.values();
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0, size = 0;
    for (int64_t j = r * columns; j < (r + 1) * columns; ++j) {
      ASSERT_NEAR(y[j], a[j] + b[j], std::ldexp(std::abs(a[j] + b[j]), -8)) << "at " << j;
      sum += y[j];
      size += std::abs(y[j]);
    }
    for (int64_t j = r * columns; j < (r + 1) * columns; ++j)
      ASSERT_NEAR(z[j], y[j] * sum,
                  std::abs(y[j]) * (std::ldexp(std::abs(sum), -8) + std::ldexp(size, -20)))
          << "at " << j;
  }
}

// Rows of one vector of a thread, of several, and of some that not all threads have.
INSTANTIATE_TEST_SUITE_P(Sizes, CudaRowStored,
                         testing::Values(Size{3, 64}, Size{5, 768}, Size{5, 1600}, Size{2, 4096}),
                         testing::PrintToStringParamName());

/// One element of each row of a wider tensor: by as many threads as there are, not by one block.
TEST(CudaRowOfOne, IsARow) {
  const int64_t rows = 5000;
  const CudaRow kernel = cudaRow(R"(
step.program @p {
  %x = step.buffer "x" : memref<5000x1xf32>
  %whole = step.buffer "whole" : memref<5000x3xf32>
  %y = step.view %whole : memref<5000x3xf32> to memref<5000x1xf32, strided<[3, 1], offset: 1>>
  step.task ins(%x) outs(%y) : (memref<5000x1xf32>) -> memref<5000x1xf32, strided<[3, 1], offset: 1>> {
  ^bb0(%a: tensor<5000x1xf32>):
    %b = nano.mul %a, %a : tensor<5000x1xf32>
    nano.yield %b : tensor<5000x1xf32>
  }
}
)");
  EXPECT_GE(kernel.shape.blockIterations, 32) << kernel.text;
  std::vector<double> values(rows);
  for (int64_t i = 0; i < rows; ++i)
    values[i] = double(i % 100);
  DeviceBuffer x = bufferOf("x", "f32", values),
               whole = bufferOf("whole", "f32", std::vector<double>(3 * rows, -1.0));
  ASSERT_EQ(run(kernel, {{&x}, {&whole, true, sizeof(float)}}), "");
  const std::vector<double> found = whole.values();
  for (int64_t i = 0; i < 3 * rows; ++i)
    ASSERT_EQ(found[i], i % 3 == 1 ? values[i / 3] * values[i / 3] : -1.0) << i;
}

} // namespace
