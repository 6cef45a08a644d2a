// Kernels with an online log-sum-exp and the softmax that follows from it, against double precision
// with the maximum first: on this machine, and as CUDA on the emulator with all of its checks.
// Tolerances: of y, 2⁻²² of its size (it is rounded once, and the largest x is added to a
// logarithm), and 3e-5 for the sum: up to 50,257 terms on 8 lanes, whose roundings (2⁻²⁴) and
// rescalings (4e-7 at most) go either way. Of p = e^(x − y), as much relative to p.
#include "tests/codegen/CudaRow.h"
#include "tests/codegen/TaskRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double lowest = -std::numeric_limits<float>::max();

struct Case {
  int64_t columns;
  std::string element;  ///< f32, or bf16 of which the task makes f32
  bool isAlone = false; ///< without the softmax
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.element << "_" << c.columns << (c.isAlone ? "_alone" : "");
}

/// Rows of every kind that an online maximum could trip over.
std::vector<std::vector<double>> rowsOf(const Case &c) {
  const int64_t n = c.columns;
  std::mt19937_64 engine(11);
  std::normal_distribution<double> normal;
  auto make = [&](auto element) {
    std::vector<double> row(n);
    for (int64_t j = 0; j < n; ++j)
      row[j] = rounded(c.element, element(j));
    return row;
  };
  /// Random numbers, but `value` at some columns.
  auto with = [&](const std::vector<int64_t> &columns, double value) {
    std::vector<double> row = make([&](int64_t) { return normal(engine); });
    for (int64_t j : columns)
      row[j % n] = value;
    return row;
  };
  const double step = 160.0 / static_cast<double>(n);
  return {
      make([&](int64_t) { return 3 * normal(engine); }),
      make([&](int64_t) { return 1000 + normal(engine); }),
      make([&](int64_t j) { return j % 3 == 1 ? 80 : -80; }),
      make([&](int64_t j) { return step * static_cast<double>(j) - 80; }),
      make([&](int64_t j) { return 80 - step * static_cast<double>(j); }),
      make([&](int64_t) { return 0.25; }),
      make([&](int64_t j) { return j == n / 2 ? 1e38 : -1e38; }),
      make([&](int64_t j) { return j == n - 1 ? 0 : -infinity; }),
      make([&](int64_t j) { return j % 5 == 0 ? normal(engine) : -infinity; }),
      make([&](int64_t) { return lowest; }),
      make([&](int64_t) { return -infinity; }),
      with({n / 3}, infinity),
      with({0, 1, n / 2, n - 1}, infinity),
      make([&](int64_t) { return infinity; }),
      with({n - 1}, NAN),
      with({0}, NAN),
  };
}

/// y = ln Σ e^x, p = e^(x − y); or y alone
std::string caseText(const Case &c) {
  const std::string rows = std::to_string(rowsOf(c).size()),
                    full = rows + "x" + std::to_string(c.columns) + "x", x = full + c.element,
                    wide = "tensor<" + full + "f32>", row = rows + "xf32";
  std::string text =
      "step.program @p {\n  %x = step.buffer \"x\" : memref<" + x +
      ">\n  %y = step.buffer \"y\" : memref<" + row + ">\n  %p = step.buffer \"p\" : memref<" +
      full + "f32>\n  step.task ins(%x) outs(%y" + (c.isAlone ? "" : ", %p") + ") : (memref<" + x +
      ">) -> (memref<" + row + (c.isAlone ? ">" : ">, memref<" + full + "f32>") +
      ") {\n  ^bb0(%a: tensor<" + x + ">):\n";
  std::string z = "%a";
  if (c.element != "f32") {
    text += "    %f = nano.cast %a : tensor<" + x + "> -> " + wide + "\n";
    z = "%f";
  }
  text +=
      "    %l = nano.reduce logsumexp " + z + " dims [1] : " + wide + " -> tensor<" + row + ">\n";
  if (c.isAlone)
    return text + "    nano.yield %l : tensor<" + row + ">\n  }\n}\n";
  return text + "    %b = nano.broadcast %l dims [0] : tensor<" + row + "> -> " + wide +
         "\n    %d = nano.sub " + z + ", %b : " + wide + "\n    %e = nano.exp %d : " + wide +
         "\n    nano.yield %l, %e : tensor<" + row + ">, " + wide + "\n  }\n}\n";
}

std::vector<double> flat(const std::vector<std::vector<double>> &rows) {
  std::vector<double> values;
  for (const std::vector<double> &row : rows)
    values.insert(values.end(), row.begin(), row.end());
  return values;
}

double expected(const std::vector<double> &row) {
  double largest = -infinity;
  for (double x : row) {
    if (std::isnan(x))
      return x;
    largest = std::max(largest, x);
  }
  if (std::isinf(largest))
    return largest;
  double sum = 0;
  for (double x : row)
    sum += std::exp(x - largest);
  return largest + std::log(sum);
}

void compare(const Case &c, const std::vector<double> &y, const std::vector<double> &p) {
  const std::vector<std::vector<double>> rows = rowsOf(c);
  ASSERT_EQ(y.size(), rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    SCOPED_TRACE("row " + std::to_string(r));
    const double want = expected(rows[r]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(y[r])) << y[r];
      continue;
    }
    if (std::isinf(want)) {
      EXPECT_EQ(y[r], want);
      continue;
    }
    const double tolerance = 3e-5 + std::ldexp(std::abs(want), -22);
    EXPECT_NEAR(y[r], want, tolerance);
    for (int64_t j = 0; !c.isAlone && j < c.columns; ++j) {
      const double wanted = std::exp(rows[r][j] - want);
      ASSERT_NEAR(p[r * c.columns + j], wanted, std::min(tolerance, 1.0) * wanted + 1e-30)
          << "column " << j;
    }
  }
}

class LogSumExp : public testing::TestWithParam<Case> {};

TEST_P(LogSumExp, OnThisMachine) {
  const std::vector<double> x = flat(rowsOf(GetParam()));
  for (int64_t lanes : TaskRunner::lanes()) {
    SCOPED_TRACE(std::to_string(lanes) + " lanes");
    auto runner = TaskRunner::make(caseText(GetParam()), emitRow, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, {{static_cast<int64_t>(rowsOf(GetParam()).size()), GetParam().columns}, x});
    runner->run();
    compare(GetParam(), runner->output(0).data,
            GetParam().isAlone ? std::vector<double>() : runner->output(1).data);
  }
}

TEST_P(LogSumExp, AsCudaOnTheEmulator) {
  const std::vector<double> values = flat(rowsOf(GetParam()));
  const size_t rows = rowsOf(GetParam()).size();
  const CudaRow kernel = cudaRow(caseText(GetParam()));
  DeviceBuffer x = bufferOf("x", GetParam().element, values), y("y", 4, rows),
               p("p", 4, values.size());
  std::vector<Argument> arguments{{&x}, {&y, true}};
  if (!GetParam().isAlone)
    arguments.push_back({&p, true});
  ASSERT_EQ(run(kernel, arguments), "");
  compare(GetParam(), y.values(), p.values());
}

// Rows shorter than a vector, of several vectors and a rest, and longer than a block's registers;
// alone, long rows are read and nothing of them is kept or written.
INSTANTIATE_TEST_SUITE_P(Rows, LogSumExp,
                         testing::Values(Case{2, "f32"}, Case{3, "f32"}, Case{8, "bf16"},
                                         Case{13, "bf16"}, Case{16, "f32"}, Case{40, "f32"},
                                         Case{129, "f32"}, Case{768, "bf16"}, Case{1030, "f32"},
                                         Case{4100, "bf16"}, Case{50257, "bf16"},
                                         Case{20000, "f32"}, Case{50257, "bf16", true},
                                         Case{60001, "f32", true}),
                         testing::PrintToStringParamName());

} // namespace
