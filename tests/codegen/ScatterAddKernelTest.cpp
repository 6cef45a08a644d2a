// scatter_add and scan kernels against the interpreter.
// Tolerance of scatter_add, of |actual − expected| / (1 + |expected|): f32 one rounding (6e-8) a
// term, of up to twice the mean number of terms; bf16 0.4 % (one rounding).
#include "passes/cpu/SequenceKernels.h"
#include "tests/codegen/TaskRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace nano;
using namespace nano::test;
using llvm::formatv;

namespace {

struct ScatterShape {
  int64_t tokens, rows, size;
  std::string from = "f32", to = "f32";
  bool strided = false; ///< x and y are columns of wider buffers
};

std::string scatterText(const ScatterShape &s) {
  std::string text = "step.program @p {\n";
  auto operand = [&](const char *name, int64_t rows, const std::string &element) -> std::string {
    if (!s.strided) {
      std::string type = formatv("memref<{0}x{1}x{2}>", rows, s.size, element);
      text += formatv("%{0} = step.buffer \"{0}\" : {1}\n", name, type);
      return type;
    }
    std::string whole = formatv("memref<{0}x{1}x{2}>", rows, s.size + 7, element);
    std::string type = formatv("memref<{0}x{1}x{2}, strided<[{3}, 1], offset: 3>>", rows, s.size,
                               element, s.size + 7);
    text += formatv(
        "%{0}_whole = step.buffer \"{0}\" : {1}\n%{0} = step.view %{0}_whole : {1} to {2}\n", name,
        whole, type);
    return type;
  };
  std::string x = operand("x", s.tokens, s.from), y = operand("y", s.rows, s.to);
  text += formatv("%ids = step.buffer \"ids\" : memref<{0}xi32>\n", s.tokens);
  text += formatv("step.task ins(%x, %ids) outs(%y) : ({0}, memref<{1}xi32>) -> {2} {{\n", x,
                  s.tokens, y);
  text +=
      formatv("^bb0(%a: tensor<{0}x{1}x{2}>, %i: tensor<{0}xi32>):\n", s.tokens, s.size, s.from);
  text += formatv("%r = nano.scatter_add %a, %i : (tensor<{0}x{1}x{2}>, tensor<{0}xi32>) -> "
                  "tensor<{3}x{1}x{4}>\n",
                  s.tokens, s.size, s.from, s.rows, s.to);
  text += formatv("nano.yield %r : tensor<{0}x{1}x{2}>\n", s.rows, s.size, s.to);
  return text + "}\n}\n";
}

/// `ids` in [low, high); at least `iterations` iterations.
void checkScatter(const ScatterShape &shape, int64_t low, int64_t high, std::mt19937_64 &random,
                  int64_t iterations = 1) {
  SCOPED_TRACE(formatv("T {0}, V {1}, D {2}, {3} to {4}", shape.tokens, shape.rows, shape.size,
                       shape.from, shape.to)
                   .str());
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = TaskRunner::make(scatterText(shape), kernels::emitScatterAddKernel, lanes);
    ASSERT_TRUE(runner);
    EXPECT_GE(runner->iterations(), iterations);
    runner->setInput(0, TensorValue::normal(runner->inputType(0), random));
    runner->setInput(1, TensorValue::integers(runner->inputType(1), random, low, high));
    runner->run();
    std::vector<std::byte> whole = runner->outputBytes();
    double termsOfARow = static_cast<double>(shape.tokens) / static_cast<double>(high - low);
    EXPECT_LE(largestError(runner->output(0), runner->expected()[0]),
              shape.to == "f32" ? 1e-6 + 6e-8 * 2 * termsOfARow : 4e-3);
    std::vector<int64_t> cuts;
    for (int64_t i = 1; i < runner->iterations(); ++i)
      cuts.push_back(i);
    runner->run(cuts);
    EXPECT_EQ(runner->outputBytes(), whole) << "the bits depend on how the iterations were split";
  }
}

std::string scanText(int64_t tokens, const std::string &combiner, bool inPlace) {
  std::string text = formatv("step.program @p {{\n%x = step.buffer \"x\" : memref<{0}xi32>\n%y = "
                             "step.buffer \"y\" : memref<{0}xi32>\n",
                             tokens);
  text +=
      formatv("step.task ins(%x) outs(%{2}) : (memref<{0}xi32>) -> memref<{0}xi32> {{\n^bb0(%a: "
              "tensor<{0}xi32>):\n"
              "%r = nano.scan {1} %a : tensor<{0}xi32>\nnano.yield %r : tensor<{0}xi32>\n}\n}\n",
              tokens, combiner, inPlace ? "x" : "y");
  return text;
}

} // namespace

TEST(ScatterAddKernel, SumsRowsById) {
  std::mt19937_64 random(1);
  for (const char *from : {"f32", "bf16"})
    for (const char *to : {"f32", "bf16"})
      checkScatter({300, 41, 64, from, to}, 0, 41, random);
}

TEST(ScatterAddKernel, AnyShape) {
  std::mt19937_64 random(2);
  for (int64_t size : {1, 7, 16, 33, 128, 300})
    checkScatter({97, 53, size, size % 2 ? "bf16" : "f32", "f32"}, 0, 53, random);
  checkScatter({1, 1, 16}, 0, 1, random);
  checkScatter({500, 3, 40}, 1, 2, random);     // one id
  checkScatter({5, 900, 40}, 880, 900, random); // most rows are zero
}

/// Several iterations: ids spread over the rows, in a few of them, and all alike, so that most
/// iterations have no row.
TEST(ScatterAddKernel, IterationsShareTheRows) {
  std::mt19937_64 random(5);
  checkScatter({400, 4000, 260}, 0, 4000, random, 2);
  checkScatter({3000, 2500, 200, "bf16", "f32"}, 1200, 1210, random, 2);
  checkScatter({5000, 1, 220}, 0, 1, random, 2);
}

TEST(ScatterAddKernel, StridedOperands) {
  std::mt19937_64 random(3);
  checkScatter({100, 30, 150, "f32", "f32", true}, 0, 30, random);
  checkScatter({100, 30, 37, "bf16", "bf16", true}, 0, 30, random);
}

/// Rows are added in order of t: 1e8 − 1e8 + 1 is 1 in f32, and 0 in the other order.
TEST(ScatterAddKernel, AddsInOrderOfPositions) {
  auto runner = TaskRunner::make(scatterText({5, 2, 1}), kernels::emitScatterAddKernel, 8);
  ASSERT_TRUE(runner);
  runner->setInput(0, {{5, 1}, {1e8, 7, -1e8, 1, 2}});
  runner->setInput(1, {{5}, {1, 0, 1, 1, 0}});
  runner->run();
  EXPECT_EQ(runner->output(0).data, (std::vector<double>{9, 1}));
}

TEST(ScanKernel, SumsAndMaxima) {
  std::mt19937_64 random(4);
  for (const char *combiner : {"sum", "max"})
    for (int64_t tokens : {1, 17, 1000})
      for (bool inPlace : {false, true}) {
        auto runner =
            TaskRunner::make(scanText(tokens, combiner, inPlace), kernels::emitScanKernel, 8);
        ASSERT_TRUE(runner);
        runner->setInput(0, TensorValue::integers(runner->inputType(0), random, -100, 100));
        std::vector<TensorValue> expected = runner->expected();
        runner->run();
        EXPECT_EQ(runner->output(0).data, expected[0].data);
      }
}

/// Sums wrap at 32 bits.
TEST(ScanKernel, Wraps) {
  auto runner = TaskRunner::make(scanText(3, "sum", false), kernels::emitScanKernel, 8);
  ASSERT_TRUE(runner);
  runner->setInput(0, {{3}, {2147483647, 1, -2147483648.0}});
  runner->run();
  EXPECT_EQ(runner->output(0).data, (std::vector<double>{2147483647, -2147483648.0, 0}));
}
