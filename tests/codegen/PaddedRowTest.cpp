// Kernels for CUDA of long rows of which only the first columns exist, as a head's whose vocabulary
// is filled up: the logarithm of a softmax over these, and zeros behind them, on the emulator
// against double precision. The columns end in the part of a row that has a loop, at its end,
// behind it, and nowhere. Tolerances: half a step of bf16 (2⁻⁸), and 1e-4 for a logarithm of sums
// of up to 50,000 terms in f32. And short rows that end within a thread's vector.
#include "tests/codegen/CudaRow.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace nano::test;

namespace {

struct Case {
  int64_t columns, there;
  bool isKnown; ///< that all columns of the loop are there
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.there << "_of_" << c.columns;
}

constexpr int64_t rows = 3;

std::string caseText(const Case &c) {
  std::string text = R"(step.program @p {
  %x = step.buffer "x" : memref<ALLxbf16>
  %y = step.buffer "y" : memref<ALLxbf16>
  step.task ins(%x) outs(%y) : (memref<ALLxbf16>) -> (memref<ALLxbf16>) {
  ^bb0(%0: tensor<ALLxbf16>):
    %1 = nano.cast %0 : tensor<ALLxbf16> -> tensor<ALLxf32>
    %2 = nano.iota 1 : tensor<ALLxi32>
    %3 = nano.constant THERE.0 : tensor<ALLxi32>
    %4 = nano.constant -1.0e30 : tensor<ALLxf32>
    %5 = nano.select lt, %2, %3, %1, %4 : tensor<ALLxi32>, tensor<ALLxf32>
    %6 = nano.reduce logsumexp %5 dims [1] : tensor<ALLxf32> -> tensor<3xf32>
    %7 = nano.broadcast %6 dims [0] : tensor<3xf32> -> tensor<ALLxf32>
    %8 = nano.sub %5, %7 : tensor<ALLxf32>
    %9 = nano.constant 0.0 : tensor<ALLxf32>
    %10 = nano.select lt, %2, %3, %8, %9 : tensor<ALLxi32>, tensor<ALLxf32>
    %11 = nano.cast %10 : tensor<ALLxf32> -> tensor<ALLxbf16>
    nano.yield %11 : tensor<ALLxbf16>
  }
}
)";
  const std::pair<std::string, std::string> words[] = {
      {"ALL", std::to_string(rows) + "x" + std::to_string(c.columns)},
      {"THERE", std::to_string(c.there)}};
  for (const auto &[word, value] : words)
    for (size_t at; (at = text.find(word)) != std::string::npos;)
      text.replace(at, word.size(), value);
  return text;
}

class PaddedRow : public testing::TestWithParam<Case> {};

TEST_P(PaddedRow, IsThatOfTheColumnsThere) {
  const Case &c = GetParam();
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  std::vector<double> x(rows * c.columns);
  for (double &value : x)
    value = rounded("bf16", 3 * normal(engine));
  const CudaRow kernel = cudaRow(caseText(c));
  int comparisons = 0;
  const std::string comparison = "< " + std::to_string(c.there);
  for (size_t at = 0; (at = kernel.text.find(comparison, at)) != std::string::npos; ++at)
    ++comparisons;
  EXPECT_EQ(comparisons < 2, c.isKnown) << kernel.text;

  DeviceBuffer in = bufferOf("x", "bf16", x), out("y", 2, rows * c.columns);
  ASSERT_EQ(run(kernel, {{&in}, {&out, true}}), "");
  const std::vector<double> y = out.values();
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t j = 0; j < c.there; ++j)
      sum += std::exp(x[r * c.columns + j]);
    for (int64_t j = 0; j < c.columns; ++j) {
      const double wanted = j < c.there ? x[r * c.columns + j] - std::log(sum) : 0;
      ASSERT_NEAR(y[r * c.columns + j], wanted, std::ldexp(std::abs(wanted), -8) + 1e-4)
          << "row " << r << " column " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, PaddedRow,
                         testing::Values(Case{50304, 50257, true}, Case{50304, 49152, true},
                                         Case{50304, 49151, false}, Case{50304, 20000, false},
                                         Case{50304, 50304, true}),
                         testing::PrintToStringParamName());

// 0/0 behind a row's end is NaN, and two lanes of a sigmoid are divided together. Tolerance: (6 +
// |x|)·2⁻²³ of the sigmoid, |x| ≤ 8, twice that of its square, and the quotient's own error.
TEST(ShortRow, EndsWithinAVector) {
  for (const int64_t columns : {1, 7, 33, 101}) {
    const std::string full = "3x" + std::to_string(columns) + "xf32",
                      one = std::to_string(columns) + "xf32";
    const std::string text =
        "step.program @p {\n  %x = step.buffer \"x\" : memref<" + full +
        ">\n  %w = step.buffer \"w\" : memref<" + one + ">\n  %y = step.buffer \"y\" : memref<" +
        full + ">\n  step.task ins(%x, %w) outs(%y) : (memref<" + full + ">, memref<" + one +
        ">) -> (memref<" + full + ">) {\n  ^bb0(%0: tensor<" + full + ">, %1: tensor<" + one +
        ">):\n    %2 = nano.broadcast %1 dims [1] : " + "tensor<" + one + "> -> tensor<" + full +
        ">\n    %3 = nano.div %0, %2 : tensor<" + full + ">\n    %4 = nano.sigmoid %3 : tensor<" +
        full + ">\n    %5 = nano.reduce sum %4 dims [1] : tensor<" + full +
        "> -> tensor<3xf32>\n    %6 = nano.broadcast %5 dims [0] : " + "tensor<3xf32> -> tensor<" +
        full + ">\n    %7 = nano.div %4, %6 : tensor<" + full + ">\n    nano.yield %7 : tensor<" +
        full + ">\n  }\n}\n";
    std::vector<double> x(3 * columns), w(columns);
    for (int64_t i = 0; i < 3 * columns; ++i)
      x[i] = double(i % 13) - 6;
    for (int64_t j = 0; j < columns; ++j)
      w[j] = j % 2 == 0 ? 1 : -0.75;
    DeviceBuffer in = bufferOf("x", "f32", x), divisors = bufferOf("w", "f32", w),
                 out("y", 4, 3 * columns);
    ASSERT_EQ(run(cudaRow(text), {{&in}, {&divisors}, {&out, true}}), "");
    const std::vector<double> y = out.values();
    auto sigmoid = [&](int64_t i) { return 1 / (1 + std::exp(-x[i] / w[i % columns])); };
    for (int64_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (int64_t j = 0; j < columns; ++j)
        sum += sigmoid(r * columns + j);
      for (int64_t i = r * columns; i < (r + 1) * columns; ++i)
        ASSERT_NEAR(y[i], sigmoid(i) / sum, 40 * 0x1p-23 * sigmoid(i) / sum)
            << columns << " columns, element " << i;
    }
  }
}

} // namespace
