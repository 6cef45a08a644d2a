// Sampling: the choice of a token, prompts, and the sliding window.
#include "runtime/Sampler.h"

#include "runtime/Random.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/FakeDevice.h"
#include "tests/runtime/train/TestSupport.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace nano {
namespace {

using test::CapturedConsole;
using test::FakeDevice;
using test::makePlan;
using test::ScratchDirectory;
using test::writeText;

TEST(ChooseToken, InvertsTheSoftmax) {
  std::vector<float> logits = {std::log(1.0F), std::log(2.0F), std::log(5.0F)};
  EXPECT_EQ(*chooseToken(logits, 1, 0.124), 0);
  EXPECT_EQ(*chooseToken(logits, 1, 0.126), 1);
  EXPECT_EQ(*chooseToken(logits, 1, 0.374), 1);
  EXPECT_EQ(*chooseToken(logits, 1, 0.376), 2);
  EXPECT_EQ(*chooseToken(logits, 1, std::nextafter(1.0, 0.0)), 2);
  // Half the temperature squares the odds: 1, 4, 25.
  EXPECT_EQ(*chooseToken(logits, 0.5, 0.9 / 30), 0);
  EXPECT_EQ(*chooseToken(logits, 0.5, 1.1 / 30), 1);
  EXPECT_EQ(*chooseToken(logits, 0.5, 5.1 / 30), 2);
  EXPECT_EQ(*chooseToken({3, 7, 7, 1}, 0, 0.99), 1);
  EXPECT_EQ(*chooseToken({3e38F, 0, -std::numeric_limits<float>::infinity()}, 1e-3, 0.999), 0);
}

TEST(ChooseToken, FrequenciesFollowTheSoftmax) {
  std::vector<float> logits = {0.5F, -1, 2, 0};
  std::vector<double> counts(4), expected(4);
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit / 0.8);
  constexpr int draws = 20000;
  Random random(3, "sample");
  for (int i = 0; i < draws; ++i)
    counts[size_t(*chooseToken(logits, 0.8, random.unit(uint64_t(i))))] += 1;
  for (size_t i = 0; i < 4; ++i) {
    double p = std::exp(logits[i] / 0.8) / sum;
    EXPECT_NEAR(counts[i] / draws, p, 5 * std::sqrt(p * (1 - p) / draws)) << i;
  }
}

TEST(ChooseToken, NotFinite) {
  float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float> &logits :
       {std::vector<float>{0, NAN}, std::vector<float>{infinity, 0},
        std::vector<float>{-infinity, -infinity}}) {
    auto token = chooseToken(logits, 1, 0.5);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().exitStatus(), 1);
  }
}

Result<std::vector<int32_t>> sampleWith(const plan::Plan &plan, const SampleOptions &options,
                                        FakeDevice::OnRun onRun = {}) {
  CapturedConsole console;
  return sample(
      plan, "hash", options,
      [&](const plan::Plan &plan, Communicator &communicator,
          const DeviceOptions &) -> Result<std::unique_ptr<Device>> {
        return std::unique_ptr<Device>(new FakeDevice(plan, communicator, onRun));
      },
      console.console);
}

TEST(Sampler, GoesOnFromThePromptInASlidingWindow) {
  ScratchDirectory scratch;
  writeText(scratch / "prompt", "7 8\n\t9 ");
  plan::Plan plan = makePlan({.vocabSize = 20, .genSeqLen = 4});
  SampleOptions options;
  options.count = 16;
  options.promptFile = scratch / "prompt";
  std::vector<std::vector<int32_t>> windows;
  int32_t scalar = -1;
  auto tokens = sampleWith(plan, options, [&](const std::string &program, FakeDevice &device) {
    EXPECT_EQ(program, "generate");
    auto *window = device.at<int32_t>(plan.training.genTokensBuffer);
    windows.emplace_back(window, window + 4);
    scalar = *device.window();
  });
  ASSERT_TRUE(tokens) << tokens.error().message;
  // FakeDevice prefers the next number by 20 at temperature 0.8, and pads with columns that must
  // not be chosen.
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 16; ++i)
    expected.push_back((10 + i) % 20);
  EXPECT_EQ(*tokens, expected);
  ASSERT_EQ(windows.size(), 16u);
  EXPECT_EQ(windows[0], (std::vector<int32_t>{7, 8, 9, 0}));
  EXPECT_EQ(windows[1], (std::vector<int32_t>{7, 8, 9, 10}));
  EXPECT_EQ(windows[2], (std::vector<int32_t>{8, 9, 10, 11}));
  EXPECT_EQ(windows[15], (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(scalar, 8) << "the scalars of the last step";
}

TEST(Sampler, PlansForManyRanksSampleOnOne) {
  plan::Plan plan = makePlan({.vocabSize = 20});
  plan.worlds = {2, 4};
  plan.group = 2;
  SampleOptions options;
  options.count = 3;
  CapturedConsole console;
  auto tokens = sample(
      plan, "hash", options,
      [&](const plan::Plan &alone, Communicator &communicator,
          const DeviceOptions &) -> Result<std::unique_ptr<Device>> {
        EXPECT_EQ(communicator.world(), 1);
        EXPECT_EQ(alone.group, 1);
        EXPECT_EQ(alone.programs.size(), 1u);
        for (const plan::State &state : alone.states)
          EXPECT_EQ(state.role, plan::State::Role::Parameter);
        return std::unique_ptr<Device>(new FakeDevice(alone, communicator));
      },
      console.console);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(tokens->size(), 3u);
}

TEST(Sampler, IndexOutOfRangeStops) {
  plan::Plan plan = makePlan({.vocabSize = 20});
  plan.training.genChecks = {{{"gather", 19, {"bigram.cpp", 7}}},
                             test::addBuffer(plan, "checks", 1)};
  SampleOptions options;
  options.count = 5;
  int runs = 0;
  const auto tokens = sampleWith(plan, options, [&](const std::string &, FakeDevice &device) {
    *device.at<int32_t>(plan.training.genChecks.buffer) = ++runs == 3 ? 19 : 18;
  });
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().exitStatus(), 1);
  EXPECT_EQ(tokens.error().message, "--sample: token 3, after step 8: bigram.cpp:7: gather: index "
                                    "19 is outside of [0, 19)");
}

TEST(Sampler, SeedsDecide) {
  plan::Plan plan = makePlan();
  SampleOptions options;
  options.count = 50;
  options.temperature = 100;
  auto first = sampleWith(plan, options), again = sampleWith(plan, options);
  options.start.seed = 1;
  auto other = sampleWith(plan, options);
  ASSERT_TRUE(first && again && other);
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
}

TEST(Sampler, WrongPrompts) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan();
  SampleOptions options;
  options.count = 1;
  options.promptFile = scratch / "prompt";
  auto errorOf = [&](const std::string &text) {
    writeText(options.promptFile, text);
    auto tokens = sampleWith(plan, options);
    EXPECT_FALSE(tokens);
    EXPECT_EQ(tokens.error().exitStatus(), 2);
    return tokens.error().message;
  };
  EXPECT_CONTAINS(errorOf(""), "holds no token");
  EXPECT_CONTAINS(errorOf("1 2 x"), "'x' (number 3) is not a token of the vocabulary, 0 to 49");
  EXPECT_CONTAINS(errorOf("50"), "'50' (number 1) is not a token");
  EXPECT_CONTAINS(errorOf("-1"), "'-1' (number 1) is not a token");
  EXPECT_CONTAINS(errorOf("1.5"), "'1.5' (number 1)");
  EXPECT_CONTAINS(errorOf("99999999999"), "(number 1)");
  options.promptFile = scratch / "missing";
  auto missing = sampleWith(plan, options);
  ASSERT_FALSE(missing);
  EXPECT_CONTAINS(missing.error().message, "--prompt-tokens");
  plan.training.generate.clear();
  auto none = sampleWith(plan, options);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "--sample: the plan has no program for it");
}

} // namespace
} // namespace nano
