// The root of a rounded square is the number itself: what lets the backward pass take max(h, 0)
// from its square. All bf16 numbers through a generated kernel; of f32, numbers of every exponent,
// on this machine and as CUDA on the emulator.
#include "tests/codegen/CudaRow.h"
#include "tests/codegen/TaskRunner.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <random>

using namespace nano;
using namespace nano::test;

namespace {

constexpr int64_t count = 1 << 16;
/// Where squares are normal numbers, in f32 and bf16 alike: exponents of both have 8 bits.
constexpr float smallest = 0x1p-63, tooLarge = 0x1p64;

std::string rootText(const std::string &element) {
  const std::string type = std::to_string(count) + "x" + element, memory = "memref<" + type + ">",
                    tensor = " : tensor<" + type + ">\n";
  return "step.program @p {\n  %x = step.buffer \"x\" : " + memory +
         "\n  %s = step.buffer \"s\" : " + memory + "\n  step.task ins(%x) outs(%s) : (" + memory +
         ") -> " + memory + " {\n  ^bb0(%h: tensor<" + type + ">):\n    %zero = nano.constant 0.0" +
         tensor + "    %r = nano.max %h, %zero" + tensor + "    %y = nano.mul %r, %r" + tensor +
         "    %root = nano.sqrt %y" + tensor + "    nano.yield %root" + tensor + "  }\n}\n";
}

std::vector<double> allBf16() {
  std::vector<double> numbers;
  for (uint32_t bits = 0; bits < count; ++bits)
    numbers.push_back(std::bit_cast<float>(bits << 16));
  return numbers;
}

/// Of every exponent and sign the first and last numbers, and as many at random as there is room
/// for.
std::vector<double> someF32() {
  std::mt19937 engine(2);
  std::vector<double> numbers;
  constexpr uint32_t exponents = 512, each = count / exponents;
  for (uint32_t high = 0; high < exponents; ++high)
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t significand = i < 3 ? i : i < 6 ? 0x7fffff - (i - 3) : engine() & 0x7fffff;
      numbers.push_back(std::bit_cast<float>(high << 23 | significand));
    }
  return numbers;
}

/// Checks the roots of max(h, 0)²; returns how many were to be exact.
int64_t check(const std::vector<double> &inputs, const std::vector<double> &roots) {
  int64_t exact = 0;
  EXPECT_EQ(roots.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double h = inputs[i], s = roots[i];
    if (std::isnan(h)) {
      EXPECT_TRUE(std::isnan(s)) << i;
    } else if (h <= 0) {
      EXPECT_EQ(s, 0) << h;
    } else if (h < smallest) {
      EXPECT_LE(s, smallest) << h;
    } else if (h >= tooLarge) {
      EXPECT_TRUE(std::isinf(s)) << h;
    } else {
      EXPECT_EQ(s, h);
      ++exact;
    }
  }
  return exact;
}

TEST(RootOfSquare, IsTheNumberForEveryBf16) {
  const std::vector<double> inputs = allBf16();
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = TaskRunner::make(rootText("bf16"), emitRow, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, TensorValue{{count}, inputs});
    runner->run();
    EXPECT_EQ(check(inputs, runner->output(0).data), 127 * 128); // exponents by significands
  }
}

TEST(RootOfSquare, IsTheNumberInF32) {
  const std::vector<double> inputs = someF32();
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = TaskRunner::make(rootText("f32"), emitRow, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, TensorValue{{count}, inputs});
    runner->run();
    EXPECT_EQ(check(inputs, runner->output(0).data), 127 * 128);
  }
}

TEST(RootOfSquare, AsCudaOnTheEmulator) {
  for (const std::string element : {"bf16", "f32"}) {
    SCOPED_TRACE(element);
    const std::vector<double> inputs = element == "f32" ? someF32() : allBf16();
    const CudaRow kernel = cudaRow(rootText(element));
    DeviceBuffer x = bufferOf("x", element, inputs),
                 s("s", element == "f32" ? 4 : 2, inputs.size());
    ASSERT_EQ(run(kernel, {{&x}, {&s, true}}), "");
    EXPECT_EQ(check(inputs, s.values()), 127 * 128);
  }
}

} // namespace
