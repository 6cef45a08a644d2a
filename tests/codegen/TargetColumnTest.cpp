// Kernels of a softcapped cross-entropy and its gradient, where one column of a row is picked and
// treated unlike the others, against double precision: on this machine, and as CUDA on the emulator
// with all of its checks. Tolerances: the loss 1e-4 (a logarithm of sums of up to 30,000 terms in
// f32); the gradient half a step of its type (2⁻³ for e5m2, 2⁻⁸ for bf16; 2⁻¹⁷ below e5m2's normal
// numbers), 2⁻⁸ for what is kept in bf16, and 1e-4 of the row's largest element for f32 arithmetic.
#include "tests/codegen/CudaRow.h"
#include "tests/codegen/TaskRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

constexpr int64_t rows = 7;
constexpr double cap = 30, factor = 1.5, scale = 5000;

struct Case {
  int64_t columns;
  std::string logits, gradient; ///< element types; equal ones: updated in place
  bool isKept = false;          ///< CUDA: shared memory holds what the gradient needs
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.logits << "_" << c.gradient << "_" << c.columns;
}

/// The task as nano-fuse leaves it.
std::string caseText(const Case &c) {
  auto shape = [&](const std::string &element) {
    return std::to_string(rows) + "x" + std::to_string(c.columns) + "x" + element;
  };
  const std::string wide = "tensor<" + shape("f32") + ">", row = "tensor<7xf32>",
                    ids = "tensor<" + shape("i32") + ">", z = shape(c.logits),
                    g = shape(c.gradient);
  auto constant = [&](const std::string &name, double value, const std::string &type) {
    return "    " + name + " = nano.constant " + std::to_string(value) + " : " + type + "\n";
  };
  auto op = [&](const std::string &text, const std::string &type) {
    return "    " + text + " : " + type + "\n";
  };
  const bool inPlace = c.logits == c.gradient, isF8 = c.gradient == "f8E5M2";
  std::string text = "step.program @p {\n  %z = step.buffer \"z\" : memref<" + z + ">\n" +
                     "  %t = step.buffer \"t\" : memref<7xi32>\n" +
                     "  %l = step.buffer \"l\" : memref<7xf32>\n";
  if (!inPlace)
    text += "  %g = step.buffer \"g\" : memref<" + g + ">\n";
  text += "  step.task ins(%z, %t) outs(%l, " + std::string(inPlace ? "%z" : "%g") +
          ") : (memref<" + z + ">, memref<7xi32>) -> (memref<7xf32>, memref<" + g +
          ">) {\n  ^bb0(%a: tensor<" + z + ">, %b: tensor<7xi32>):\n";
  text += c.logits == "f32" ? constant("%zero", 0, wide) + op("%f = nano.add %a, %zero", wide)
                            : op("%f = nano.cast %a", "tensor<" + z + "> -> " + wide);
  text += constant("%factor", factor, wide) + constant("%cap", cap, wide) +
          constant("%one", 1, wide) + constant("%minus", -1, wide) + constant("%none", 0, wide) +
          constant("%rowCap", cap, row) + constant("%rowOne", 1, row) +
          constant("%rowScale", scale, row);
  text += op("%q = nano.mul %f, %factor", wide) + op("%s = nano.sigmoid %q", wide) +
          op("%x = nano.mul %s, %cap", wide) + op("%d = nano.sub %x, %cap", wide) +
          op("%e = nano.exp %d", wide) +
          op("%sum = nano.reduce sum %e dims [1]", wide + " -> " + row) +
          op("%log = nano.log %sum", row) + op("%lse = nano.add %rowCap, %log", row) +
          op("%i = nano.iota 1", ids) +
          op("%target = nano.broadcast %b dims [0]", "tensor<7xi32> -> " + ids) +
          op("%only = nano.select eq, %i, %target, %x, %none", ids + ", " + wide) +
          op("%picked = nano.reduce sum %only dims [1]", wide + " -> " + row) +
          op("%loss = nano.sub %lse, %picked", row) + op("%r = nano.div %rowOne, %sum", row) +
          op("%rs = nano.mul %r, %rowScale", row) +
          op("%p = nano.broadcast %r dims [0]", row + " -> " + wide) +
          op("%ps = nano.broadcast %rs dims [0]", row + " -> " + wide) +
          op("%c = nano.sub %one, %s", wide) + op("%sc = nano.mul %s, %c", wide) +
          op("%w = nano.mul %sc, %e", wide);
  if (isF8)
    text += op("%n = nano.cast %w", wide + " -> tensor<" + shape("bf16") + ">") +
            op("%k = nano.cast %n", "tensor<" + shape("bf16") + "> -> " + wide);
  text += op("%others = nano.mul " + std::string(isF8 ? "%k" : "%w") + ", %ps", wide) +
          constant("%allScale", scale, wide) + op("%ep = nano.mul %e, %p", wide) +
          op("%em = nano.add %ep, %minus", wide) + op("%es = nano.mul %em, %sc", wide) +
          op("%here = nano.mul %es, %allScale", wide) +
          op("%y = nano.select eq, %i, %target, %here, %others", ids + ", " + wide);
  if (c.gradient != "f32")
    text += op("%o = nano.cast %y", wide + " -> tensor<" + g + ">");
  text += "    nano.yield %loss, " + std::string(c.gradient == "f32" ? "%y" : "%o") +
          " : tensor<7xf32>, tensor<" + g + ">\n  }\n}\n";
  return text;
}

/// Targets at the ends, in the middle, and where there is no column.
std::vector<int> targets(int64_t columns) {
  const int last = static_cast<int>(columns) - 1;
  return {0, last, last / 2, -1, last + 1, last + 3, std::numeric_limits<int>::min()};
}

std::vector<double> logits(const Case &c) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  std::vector<double> values(rows * c.columns);
  for (double &value : values)
    value = rounded(c.logits, normal(engine));
  // Far ends, where sigmoids are 0 or 1.
  values[0] = -100;
  values[1] = 100;
  return values;
}

/// Compares a loss and a gradient with the equations in double precision.
void compare(const Case &c, const std::vector<double> &loss, const std::vector<double> &gradient) {
  const std::vector<double> z = logits(c);
  const std::vector<int> t = targets(c.columns);
  const double step = c.gradient == "f8E5M2" ? 0.125 + 1.0 / 256
                      : c.gradient == "bf16" ? 1.0 / 256
                                             : 0;
  const double smallest = c.gradient == "f8E5M2" ? std::ldexp(1, -17) : 0;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> s(c.columns);
    double sum = 0;
    for (int64_t j = 0; j < c.columns; ++j) {
      s[j] = 1 / (1 + std::exp(-factor * z[r * c.columns + j]));
      sum += std::exp(cap * s[j] - cap);
    }
    const bool isThere = t[r] >= 0 && t[r] < c.columns;
    EXPECT_NEAR(loss[r], cap + std::log(sum) - (isThere ? cap * s[t[r]] : 0), 1e-4) << "row " << r;
    double largest = 0;
    std::vector<double> wanted(c.columns);
    for (int64_t j = 0; j < c.columns; ++j) {
      const double p = std::exp(cap * s[j] - cap) / sum;
      wanted[j] = (p - (j == t[r] ? 1 : 0)) * s[j] * (1 - s[j]) * scale;
      largest = std::max(largest, std::abs(wanted[j]));
    }
    for (int64_t j = 0; j < c.columns; ++j)
      ASSERT_NEAR(gradient[r * c.columns + j], wanted[j],
                  step * std::abs(wanted[j]) + 1e-4 * largest + smallest)
          << "row " << r << ", column " << j << ", target " << t[r];
  }
}

class TargetColumn : public testing::TestWithParam<Case> {};

TEST_P(TargetColumn, OnThisMachine) {
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = TaskRunner::make(caseText(GetParam()), emitRow, lanes);
    ASSERT_TRUE(runner);
    const std::vector<double> z = logits(GetParam());
    const std::vector<int> t = targets(GetParam().columns);
    runner->setInput(0, {{rows, GetParam().columns}, {z.begin(), z.end()}});
    runner->setInput(1, {{rows}, {t.begin(), t.end()}});
    runner->run();
    TensorValue loss = runner->output(0), gradient = runner->output(1);
    compare(GetParam(), {loss.data.begin(), loss.data.end()},
            {gradient.data.begin(), gradient.data.end()});
  }
}

/// e5m2: one bit of sign, five of exponent with bias 15, two of mantissa.
double decodeE5m2(uint8_t byte) {
  const int exponent = byte >> 2 & 31, mantissa = byte & 3;
  const double magnitude =
      exponent ? std::ldexp(4 + mantissa, exponent - 17) : std::ldexp(mantissa, -16);
  return byte & 0x80 ? -magnitude : magnitude;
}

std::vector<double> valuesOf(const DeviceBuffer &buffer) {
  if (buffer.elementBytes > 1)
    return buffer.values();
  std::vector<double> values;
  for (std::byte byte : buffer.bytes)
    values.push_back(decodeE5m2(static_cast<uint8_t>(byte)));
  return values;
}

TEST_P(TargetColumn, AsCudaOnTheEmulator) {
  const Case &c = GetParam();
  const CudaRow kernel = cudaRow(caseText(c));
  EXPECT_EQ(kernel.text.find("*kept = ") != std::string::npos, c.isKept) << kernel.text;

  const std::vector<double> z = logits(c);
  const bool inPlace = c.logits == c.gradient;
  DeviceBuffer in = bufferOf("z", c.logits, z), ids = DeviceBuffer::ofInts("t", targets(c.columns)),
               loss("loss", 4, rows),
               out("g",
                   c.gradient == "f8E5M2" ? 1
                   : c.gradient == "bf16" ? 2
                                          : 4,
                   z.size());
  DeviceBuffer &gradient = inPlace ? in : out;
  std::vector<Argument> arguments{{&in, inPlace, 0, inPlace}, {&ids}, {&loss, true}};
  if (!inPlace)
    arguments.push_back({&out, true});
  ASSERT_EQ(run(kernel, arguments), "");
  compare(c, loss.values(), valuesOf(gradient));
}

INSTANTIATE_TEST_SUITE_P(Heads, TargetColumn,
                         testing::Values(Case{30080, "bf16", "f8E5M2", true},
                                         Case{30080, "bf16", "bf16", true},
                                         Case{30001, "f32", "f32", true},
                                         Case{100288, "bf16", "bf16", true},
                                         Case{130008, "bf16", "f8E5M2"},
                                         Case{103000, "bf16", "bf16"}, Case{60001, "f32", "f32"},
                                         Case{5003, "bf16", "f8E5M2"}, Case{130, "bf16", "f8E5M2"}),
                         testing::PrintToStringParamName());

} // namespace
