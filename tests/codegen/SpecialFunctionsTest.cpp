// exp, log, log1p, tanh, sigmoid, sin, cos, sqrt, rsqrt of generated kernels against libm in double
// precision: relative error at most 2e-7 over the ranges where results are normal numbers (sin,
// cos: absolute error, for |x| ≤ 5e4); and what they make of NaN, infinities and zeros.
#include "tests/codegen/TaskRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace nano;
using namespace nano::test;

namespace {

constexpr int64_t count = 1 << 16;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The op on `inputs` (at most `count`), by the generated kernel.
std::vector<double> run(const std::string &op, std::vector<double> inputs, int64_t lanes) {
  size_t given = inputs.size();
  inputs.resize(count, 0.5);
  std::string text =
      llvm::formatv("step.program @p {{\n%x = step.buffer \"x\" : memref<{0}xf32>\n%y = "
                    "step.buffer \"y\" : memref<{0}xf32>\n"
                    "step.task ins(%x) outs(%y) : (memref<{0}xf32>) -> memref<{0}xf32> "
                    "{{\n^bb0(%a: tensor<{0}xf32>):\n"
                    "%r = nano.{1} %a : tensor<{0}xf32>\nnano.yield %r : tensor<{0}xf32>\n}\n}\n",
                    count, op);
  auto runner = TaskRunner::make(text, emitRow, lanes);
  EXPECT_TRUE(runner);
  runner->setInput(0, TensorValue{{count}, inputs});
  runner->run();
  std::vector<double> outputs = runner->output(0).data;
  outputs.resize(given);
  return outputs;
}

struct Function {
  std::string op;
  std::function<double(double)> exact;
  double low, high;
  bool logarithmic =
      false; ///< arguments spread evenly by magnitude, of both signs when low is negative
  bool absolute = false; ///< the error is absolute
};

std::ostream &operator<<(std::ostream &os, const Function &function) { return os << function.op; }

class SpecialFunctions : public testing::TestWithParam<Function> {};

TEST_P(SpecialFunctions, AreAccurate) {
  const Function &function = GetParam();
  std::mt19937_64 random(5);
  std::vector<double> inputs;
  std::uniform_real_distribution<double> even(function.low, function.high), unit(0, 1);
  for (int64_t i = 0; i < count; ++i) {
    double x = even(random);
    if (function.logarithmic) {
      double high = function.high, low = std::max(function.low, high * 1e-30);
      x = low * std::pow(high / low, unit(random));
      if (function.low < 0 && i % 2 == 1)
        x = -x;
    }
    inputs.push_back(static_cast<float>(x));
  }
  for (int64_t lanes : TaskRunner::lanes()) {
    std::vector<double> outputs = run(function.op, inputs, lanes);
    double worst = 0, at = 0;
    for (int64_t i = 0; i < count; ++i) {
      double exact = function.exact(inputs[i]);
      double error = std::abs(outputs[i] - exact) / (function.absolute ? 1 : std::abs(exact));
      if (!(error <= worst)) {
        worst = error;
        at = inputs[i];
      }
    }
    EXPECT_LE(worst, 2e-7) << function.op << " at " << at;
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

INSTANTIATE_TEST_SUITE_P(
    All, SpecialFunctions,
    testing::Values(Function{"exp", [](double x) { return std::exp(x); }, -87.3, 88.7},
                    Function{"exp", [](double x) { return std::exp(x); }, -1, 1, true},
                    Function{"log", [](double x) { return std::log(x); }, 1e-38, 3e38, true},
                    Function{"log", [](double x) { return std::log(x); }, 0.4, 2.5},
                    Function{"log1p", [](double x) { return std::log1p(x); }, -0.999, 0.999, true},
                    Function{"log1p", [](double x) { return std::log1p(x); }, 0.4, 3e38, true},
                    Function{"log1p", [](double x) { return std::log1p(x); }, -0.999999, 4},
                    Function{"tanh", [](double x) { return std::tanh(x); }, -12, 12},
                    Function{"tanh", [](double x) { return std::tanh(x); }, -2, 2, true},
                    Function{"sigmoid", sigmoid, -85, 85}, Function{"sigmoid", sigmoid, -4, 4},
                    Function{"sin", [](double x) { return std::sin(x); }, -5e4, 5e4, false, true},
                    Function{"sin", [](double x) { return std::sin(x); }, -7, 7, true, true},
                    Function{"cos", [](double x) { return std::cos(x); }, -5e4, 5e4, false, true},
                    Function{"cos", [](double x) { return std::cos(x); }, -7, 7, true, true},
                    Function{"sqrt", [](double x) { return std::sqrt(x); }, 1e-37, 3e38, true},
                    Function{"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1e-37, 3e38,
                             true}));

TEST(SpecialFunctions, TreatExceptionalArgumentsAsLibmDoes) {
  struct Case {
    const char *op;
    double x, expected;
  };
  const Case cases[] = {
      {"exp", infinity, infinity},
      {"exp", -infinity, 0},
      {"exp", nan, nan},
      {"exp", 0, 1},
      {"exp", 100, infinity},
      {"exp", -200, 0},
      {"log", infinity, infinity},
      {"log", 0, -infinity},
      {"log", -1, nan},
      {"log", nan, nan},
      {"log", 1, 0},
      {"log1p", infinity, infinity},
      {"log1p", -1, -infinity},
      {"log1p", -2, nan},
      {"log1p", -infinity, nan},
      {"log1p", nan, nan},
      {"log1p", 0, 0},
      {"tanh", infinity, 1},
      {"tanh", -infinity, -1},
      {"tanh", nan, nan},
      {"tanh", 0, 0},
      {"tanh", 50, 1},
      {"sigmoid", infinity, 1},
      {"sigmoid", -infinity, 0},
      {"sigmoid", nan, nan},
      {"sigmoid", 0, 0.5},
      {"sigmoid", -200, 0},
      {"sin", 0, 0},
      {"cos", 0, 1},
      {"sin", nan, nan},
      {"cos", nan, nan},
      {"sin", infinity, nan},
      {"cos", -infinity, nan},
      {"sqrt", 0, 0},
      {"sqrt", -1, nan},
      {"sqrt", infinity, infinity},
      {"rsqrt", 0, infinity},
      {"rsqrt", infinity, 0},
      {"rsqrt", nan, nan},
  };
  for (int64_t lanes : TaskRunner::lanes())
    for (const char *op :
         {"exp", "log", "log1p", "tanh", "sigmoid", "sin", "cos", "sqrt", "rsqrt"}) {
      std::vector<double> inputs;
      for (const Case &one : cases)
        inputs.push_back(one.x);
      std::vector<double> outputs = run(op, inputs, lanes);
      for (size_t i = 0; i < std::size(cases); ++i) {
        if (std::string(cases[i].op) != op)
          continue;
        if (std::isnan(cases[i].expected))
          EXPECT_TRUE(std::isnan(outputs[i])) << op << " of " << inputs[i] << " is " << outputs[i];
        else
          EXPECT_EQ(outputs[i], cases[i].expected) << op << " of " << inputs[i];
      }
    }
}

} // namespace
