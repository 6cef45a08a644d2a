// Attention kernels against the interpreter in double precision.
// Tolerances are of |actual − expected| / (1 + |expected|): f32 2e-5 for y and lse, 1e-4 for
// gradients (sums over all queries); bf16 0.6 % (one rounding of the result, 2⁻⁹, one of the
// weights or gradients of scores where the processor multiplies pairs of bf16, 2⁻⁹, and the f32
// error).
#include "passes/attention/AttentionKernels.h"
#include "tests/codegen/AttentionTasks.h"
#include "tests/codegen/TaskRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace nano;
using namespace nano::test;

namespace {

/// Soft cap: 5·tanh(s/5).
const char *softCap = R"(
  %c = nano.constant 5.0 : tensor<f32>
  %a = nano.div %s, %c : tensor<f32>
  %b = nano.tanh %a : tensor<f32>
  %r = nano.mul %b, %c : tensor<f32>
)";
/// g·(1 − tanh²(s/5)).
const char *softCapGrad = R"(
  %c = nano.constant 5.0 : tensor<f32>
  %one = nano.constant 1.0 : tensor<f32>
  %a = nano.div %s, %c : tensor<f32>
  %b = nano.tanh %a : tensor<f32>
  %d = nano.mul %b, %b : tensor<f32>
  %e = nano.sub %one, %d : tensor<f32>
  %r = nano.mul %g, %e : tensor<f32>
)";
/// A linear penalty on the distance, by head: s + 0.01·(h + 1)·(k − q), times 1.5 for keys at odd
/// places.
const char *distance = R"(
  %two = nano.constant 2.0 : tensor<i32>
  %half = nano.div %key, %two : tensor<i32>
  %even = nano.mul %half, %two : tensor<i32>
  %i = nano.sub %key, %query : tensor<i32>
  %f = nano.cast %i : tensor<i32> -> tensor<f32>
  %hf = nano.cast %head : tensor<i32> -> tensor<f32>
  %c1 = nano.constant 0.01 : tensor<f32>
  %c2 = nano.constant 1.0 : tensor<f32>
  %c3 = nano.constant 1.5 : tensor<f32>
  %h1 = nano.add %hf, %c2 : tensor<f32>
  %slope = nano.mul %h1, %c1 : tensor<f32>
  %bias = nano.mul %slope, %f : tensor<f32>
  %scaled = nano.mul %s, %c3 : tensor<f32>
  %picked = nano.select eq, %key, %even, %s, %scaled : tensor<i32>, tensor<f32>
  %r = nano.add %picked, %bias : tensor<f32>
)";
const char *distanceGrad = R"(
  %two = nano.constant 2.0 : tensor<i32>
  %half = nano.div %key, %two : tensor<i32>
  %even = nano.mul %half, %two : tensor<i32>
  %c3 = nano.constant 1.5 : tensor<f32>
  %scaled = nano.mul %g, %c3 : tensor<f32>
  %r = nano.select eq, %key, %even, %g, %scaled : tensor<i32>, tensor<f32>
)";

/// Parts to run the iterations in.
std::vector<int64_t> someCuts(int64_t iterations, std::mt19937_64 &random) {
  std::vector<int64_t> cuts;
  for (int64_t i = 1; i < iterations; ++i)
    if (random() % 3 == 0)
      cuts.push_back(i);
  return cuts;
}

void fillQkv(TaskRunner &runner, const KeyRanges &ranges, std::mt19937_64 &random) {
  for (unsigned i = 0; i < 3; ++i)
    runner.setInput(i, TensorValue::normal(runner.inputType(i), random));
  runner.setInput(3, ranges.first);
  runner.setInput(4, ranges.last);
}

/// Runs whole and in parts, which must agree in every bit, and compares outputs with the
/// interpreter's, which it returns.
std::vector<TensorValue> check(TaskRunner &runner, std::vector<double> tolerances,
                               std::mt19937_64 &random) {
  runner.run();
  std::vector<std::byte> whole = runner.outputBytes();
  std::vector<TensorValue> expected = runner.expected();
  for (size_t i = 0; i < tolerances.size(); ++i)
    EXPECT_LE(largestError(runner.output(i), expected[i]), tolerances[i]) << "output " << i;
  runner.run(someCuts(runner.iterations(), random));
  EXPECT_EQ(runner.outputBytes(), whole) << "the bits depend on how the iterations were split";
  return expected;
}

/// Forward and backward kernels of one shape, at one vector width. `gradients`: the deviation of dy
/// and delta.
void checkBoth(const AttentionShape &shape, const KeyRanges &ranges, std::mt19937_64 &random,
               int64_t lanes, double gradients = 1, bool usesTiles = true) {
  SCOPED_TRACE("T " + std::to_string(shape.tokens) + ", H " + std::to_string(shape.heads) +
               ", Dh " + std::to_string(shape.size) + ", " + shape.element + ", " +
               std::to_string(lanes) + " lanes" + (usesTiles ? "" : " without AMX"));
  bool isF32 = shape.element == "f32";
  auto forward =
      TaskRunner::make(attentionText(shape), kernels::emitAttentionKernel, lanes, usesTiles);
  auto backward = TaskRunner::make(attentionGradText(shape), kernels::emitAttentionGradKernel,
                                   lanes, usesTiles);
  ASSERT_TRUE(forward && backward);
  fillQkv(*forward, ranges, random);
  TensorValue lse = check(*forward, {isF32 ? 2e-5 : 6e-3, 2e-5}, random)[1];
  for (unsigned i = 0; i < 5; ++i)
    backward->setInput(i, forward->input(i));
  backward->setInput(5, lse);
  for (unsigned i : {6, 7})
    backward->setInput(i, TensorValue::normal(backward->inputType(i), random, 0, gradients));
  double tolerance = isF32 ? 1e-4 : 6e-3;
  check(*backward, {tolerance, tolerance, tolerance}, random);
}

/// At every vector width of this machine.
void checkBoth(const AttentionShape &shape, const KeyRanges &ranges, std::mt19937_64 &random) {
  for (int64_t lanes : TaskRunner::lanes())
    checkBoth(shape, ranges, random, lanes);
}

/// At one of them: for cases whose code differs little.
void checkOnce(const AttentionShape &shape, const KeyRanges &ranges, std::mt19937_64 &random) {
  std::vector<int64_t> lanes = TaskRunner::lanes();
  checkBoth(shape, ranges, random, lanes[random() % lanes.size()]);
}

} // namespace

TEST(AttentionKernel, Causal) {
  std::mt19937_64 random(1);
  for (int64_t size : {32, 128})
    checkBoth({.tokens = 200, .heads = 2, .size = size}, keyRanges(200, true, 1000, 1, 0, random),
              random);
}

TEST(AttentionKernel, HeadSizesThatFillNoVector) {
  std::mt19937_64 random(2);
  for (int64_t size : {1, 20, 80, 136, 272})
    checkOnce({.tokens = 70, .heads = 3, .size = size}, keyRanges(70, true, 1000, 1, 0.1, random),
              random);
}

/// Where the processor multiplies pairs, with AMX and without: heads of odd sizes, and documents
/// and windows that begin and end within pairs. dy·v has numbers of one size whatever the head's.
TEST(AttentionKernel, FactorsOfBf16) {
  std::mt19937_64 random(12);
  for (auto [size, valueSize] : {std::pair<int64_t, int64_t>{1, 1},
                                 {7, 20},
                                 {33, 33},
                                 {64, 64},
                                 {80, 40},
                                 {96, 32},
                                 {136, 136}}) {
    AttentionShape shape{.tokens = 331,
                         .heads = 2,
                         .size = size,
                         .element = "bf16",
                         .packed = size == valueSize,
                         .valueSize = valueSize};
    for (int64_t lanes : TaskRunner::lanes())
      for (const KeyRanges &ranges : {keyRanges(shape.tokens, true, 1, 33, 0.1, random),
                                      arbitraryRanges(shape.tokens, random)})
        for (bool usesTiles : {false, true})
          checkBoth(shape, ranges, random, lanes, 1 / std::sqrt(double(valueSize)), usesTiles);
  }
}

TEST(AttentionKernel, RandomShapesAndMasks) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 8; ++trial) {
    AttentionShape shape;
    shape.tokens = std::uniform_int_distribution<int64_t>(1, 330)(random);
    shape.heads = std::uniform_int_distribution<int64_t>(1, 3)(random);
    shape.size = 8 * std::uniform_int_distribution<int64_t>(1, 9)(random);
    shape.element = trial % 2 ? "bf16" : "f32";
    shape.packed = trial % 3 == 0;
    KeyRanges ranges = trial % 4 == 0 ? arbitraryRanges(shape.tokens, random)
                                      : keyRanges(shape.tokens, trial % 4 != 1, 1 + trial % 3, 32,
                                                  0.02 * (trial % 5), random);
    checkOnce(shape, ranges, random);
  }
}

TEST(AttentionKernel, ValuesOfAnotherSize) {
  std::mt19937_64 random(11);
  for (auto [size, valueSize] :
       {std::pair<int64_t, int64_t>{48, 32}, {16, 64}, {192, 128}, {7, 20}})
    checkBoth({.tokens = 130, .heads = 2, .size = size, .valueSize = valueSize},
              keyRanges(130, true, 1000, 1, 0.02, random), random);
  checkOnce({.tokens = 90,
             .heads = 4,
             .sharing = 2,
             .size = 40,
             .element = "bf16",
             .score = softCap,
             .scoreGrad = softCapGrad,
             .spread = true,
             .valueSize = 24},
            arbitraryRanges(90, random), random);
}

TEST(AttentionKernel, SharedKeys) {
  std::mt19937_64 random(10);
  for (int64_t heads : {4, 6})
    checkBoth({.tokens = 210, .heads = heads, .sharing = heads / 2, .size = 40, .packed = true},
              keyRanges(210, true, 1000, 1, 0.02, random), random);
  checkOnce({.tokens = 90, .heads = 3, .sharing = 3, .size = 16, .element = "bf16"},
            arbitraryRanges(90, random), random);
  AttentionShape shape{.tokens = 120, .heads = 4, .sharing = 2, .size = 32};
  shape.score = distance;
  shape.scoreGrad = distanceGrad;
  shape.spread = true;
  checkOnce(shape, keyRanges(120, false, 1000, 1, 0.01, random), random);
}

TEST(AttentionKernel, ScoreRegions) {
  std::mt19937_64 random(4);
  for (const char *element : {"f32", "bf16"}) {
    AttentionShape shape{.tokens = 150, .heads = 3, .size = 32, .element = element};
    shape.score = softCap;
    shape.scoreGrad = softCapGrad;
    checkOnce(shape, keyRanges(150, true, 2, 64, 0.02, random), random);
    shape.score = distance;
    shape.scoreGrad = distanceGrad;
    checkOnce(shape, keyRanges(150, false, 1000, 1, 0.01, random), random);
  }
}

TEST(AttentionKernel, SingleTokenDocumentsAndWindowsOfOneBlock) {
  std::mt19937_64 random(5);
  checkOnce({.tokens = 130, .size = 16}, keyRanges(130, true, 1000, 1, 1, random), random);
  checkOnce({.tokens = 130, .size = 16}, keyRanges(130, true, 1, 1, 0, random), random);
  checkOnce({.tokens = 300, .size = 16}, keyRanges(300, true, 1, 128, 0, random), random);
  checkOnce({.tokens = 1, .heads = 1, .size = 16}, keyRanges(1, true, 1, 1, 0, random), random);
  checkOnce({.tokens = 257, .size = 64}, keyRanges(257, false, 1000, 1, 0, random), random);
}

TEST(AttentionKernel, ElementsApart) {
  std::mt19937_64 random(9);
  AttentionShape shape{.tokens = 90, .size = 24};
  shape.spread = true;
  checkOnce(shape, keyRanges(90, true, 1000, 1, 0.05, random), random);
}

TEST(AttentionKernel, StatisticsMayBeUnused) {
  std::mt19937_64 random(6);
  AttentionShape shape{.tokens = 64, .size = 16};
  shape.statistics = false;
  auto runner = TaskRunner::make(attentionText(shape), kernels::emitAttentionKernel, 8);
  ASSERT_TRUE(runner);
  fillQkv(*runner, keyRanges(64, true, 1000, 1, 0, random), random);
  check(*runner, {2e-5}, random);
}

/// Scores of some hundreds give weights of nearly 0 and 1 and no infinities. They are sums of
/// products of about 2000: their error, and so that of the weights, is about 2⁻²⁴ of that times the
/// square root of their number.
TEST(AttentionKernel, LargeScores) {
  std::mt19937_64 random(7);
  auto runner = TaskRunner::make(attentionText({.tokens = 140, .heads = 1, .size = 16}),
                                 kernels::emitAttentionKernel, 8);
  ASSERT_TRUE(runner);
  fillQkv(*runner, keyRanges(140, true, 1000, 1, 0, random), random);
  for (unsigned i : {0, 1})
    runner->setInput(i, TensorValue::normal(runner->inputType(i), random, 0, 40));
  check(*runner, {2e-3, 2e-3}, random);
}

/// Keys that no query of a block sees are not read: NaN in them reaches nothing, although other
/// heads' and blocks' queries are beside them. AMX multiplies 32 keys and 16 queries at once: where
/// it is used, what is seen begins and ends with these.
TEST(AttentionKernel, DoesNotReadUnseenKeys) {
  std::mt19937_64 random(8);
  const int64_t tokens = 400;
  int64_t unseenFrom = 120, unseenTo = 330;
  // Queries before 330 see only keys before 120, the others only keys from 330 on.
  auto rangesOf = [&] {
    KeyRanges ranges{{{tokens}, {}}, {{tokens}, {}}};
    for (int64_t t = 0; t < tokens; ++t) {
      ranges.first.data.push_back(t < unseenTo ? 0 : unseenTo);
      ranges.last.data.push_back(t < unseenTo ? std::min(t, unseenFrom - 1) : t);
    }
    return ranges;
  };
  const AttentionShape f32{.tokens = tokens, .heads = 2, .size = 32},
      bf16{.tokens = tokens, .heads = 2, .size = 32, .element = "bf16"};
  const int64_t row = f32.heads * f32.size;
  auto plant = [&](TaskRunner &runner, unsigned operand, double value) {
    TensorValue x = runner.input(operand);
    std::fill(x.data.begin() + unseenFrom * row, x.data.begin() + unseenTo * row, value);
    runner.setInput(operand, x);
  };
  double nan = std::numeric_limits<double>::quiet_NaN();
  auto check = [&](const AttentionShape &shape, int64_t lanes, bool usesTiles) {
    auto forward =
        TaskRunner::make(attentionText(shape), kernels::emitAttentionKernel, lanes, usesTiles);
    ASSERT_TRUE(forward);
    fillQkv(*forward, rangesOf(), random);
    for (unsigned operand : {1, 2})
      plant(*forward, operand, 0);
    forward->run();
    std::vector<std::byte> clean = forward->outputBytes();
    for (unsigned operand : {1, 2})
      plant(*forward, operand, nan);
    forward->run();
    EXPECT_EQ(forward->outputBytes(), clean);

    auto backward = TaskRunner::make(attentionGradText(shape), kernels::emitAttentionGradKernel,
                                     lanes, usesTiles);
    ASSERT_TRUE(backward);
    for (unsigned i = 0; i < 5; ++i)
      backward->setInput(i, forward->input(i));
    backward->setInput(5, forward->output(1));
    backward->setInput(6, TensorValue::normal(backward->inputType(6), random));
    backward->setInput(7, TensorValue::normal(backward->inputType(7), random));
    backward->run();
    for (unsigned i = 0; i < 3; ++i) {
      TensorValue gradient = backward->output(i);
      EXPECT_TRUE(std::none_of(gradient.data.begin(), gradient.data.end(),
                               [](double x) { return std::isnan(x); }))
          << "output " << i;
      if (i == 0)
        continue;
      EXPECT_TRUE(std::all_of(gradient.data.begin() + unseenFrom * row,
                              gradient.data.begin() + unseenTo * row,
                              [](double x) { return x == 0; }))
          << "a key that nobody sees has a gradient";
    }
  };
  for (int64_t lanes : TaskRunner::lanes())
    for (const AttentionShape &shape : {f32, bf16})
      check(shape, lanes, false);
  unseenFrom = 128, unseenTo = 384;
  check(bf16, TaskRunner::lanes().back(), true);
}

TEST(AttentionKernel, RefusesToOverwriteItsOperands) {
  std::string text = attentionText({.tokens = 16, .size = 16});
  size_t at = text.find("outs(%y");
  text.replace(at, 7, "outs(%q");
  EXPECT_EQ(TaskRunner::emissionError(text, kernels::emitAttentionKernel),
            "'step.task' op cannot write q in place: other iterations read it");
}
