// The root of a rounded square is the number itself: what lets the backward pass take max(h, 0)
// from its square. All bf16 numbers through a generated kernel.
#include "tests/codegen/TaskRunner.h"

#include "passes/kernels/RowKernel.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>

using namespace nano;
using namespace nano::test;

namespace {

constexpr uint32_t count = 1 << 16;
/// Where squares are normal numbers, in f32 and bf16 alike: exponents of both have 8 bits.
constexpr float smallest = 0x1p-63, tooLarge = 0x1p64;

float fromBf16(uint32_t bits) { return std::bit_cast<float>(bits << 16); }

mlir::LogicalResult emitRow(kernels::KernelFrame &frame) {
  auto form = kernels::RowForm::of(frame.task);
  return failed(form) ? mlir::failure() : kernels::emitRowKernel(frame, *form);
}

TEST(RootOfSquare, IsTheNumberForEveryBf16) {
  const char *text = R"(
    step.program @p {
      %x = step.buffer "x" : memref<65536xbf16>
      %s = step.buffer "s" : memref<65536xbf16>
      step.task ins(%x) outs(%s) : (memref<65536xbf16>) -> memref<65536xbf16> {
      ^bb0(%h: tensor<65536xbf16>):
        %zero = nano.constant 0.0 : tensor<65536xbf16>
        %r = nano.max %h, %zero : tensor<65536xbf16>
        %y = nano.mul %r, %r : tensor<65536xbf16>
        %root = nano.sqrt %y : tensor<65536xbf16>
        nano.yield %root : tensor<65536xbf16>
      }
    })";
  std::vector<double> inputs;
  for (uint32_t bits = 0; bits < count; ++bits)
    inputs.push_back(fromBf16(bits));
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = TaskRunner::make(text, emitRow, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, TensorValue{{count}, inputs});
    runner->run();
    std::vector<double> roots = runner->output(0).data;
    int exact = 0;
    for (uint32_t i = 0; i < count; ++i) {
      double h = inputs[i], s = roots[i];
      if (std::isnan(h)) {
        EXPECT_TRUE(std::isnan(s)) << std::hex << i;
      } else if (h <= 0) {
        EXPECT_EQ(s, 0) << std::hex << i;
      } else if (h < smallest) {
        EXPECT_LE(s, smallest) << h;
      } else if (h >= tooLarge) {
        EXPECT_TRUE(std::isinf(s)) << h;
      } else {
        EXPECT_EQ(s, h);
        ++exact;
      }
    }
    EXPECT_EQ(exact, 127 * 128); // exponents by significands
  }
}

} // namespace
