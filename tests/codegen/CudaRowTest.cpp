// Sums of rows as CUDA on the emulator, of sizes that do not fill the vectors of a row's threads:
// with several rows and with one, whose places depend on the thread alone. Tolerance: 2⁻²⁰ of the
// sum of absolute values, for up to 1021 terms in f32.
#include "tests/codegen/CudaRow.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace nano::test;

namespace {

std::string taskText(int64_t rows, int64_t columns) {
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
  const CudaRow kernel = cudaRow(taskText(rows, columns), rows);
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

} // namespace
