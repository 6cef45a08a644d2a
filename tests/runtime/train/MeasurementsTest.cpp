// Measurements on their way from rank to rank.
#include "runtime/Measurements.h"

#include <gtest/gtest.h>

namespace nano {
namespace {

class MeasurementsTest : public testing::Test {
protected:
  MeasurementsTest() {
    plan.programs = {{"first", std::vector<plan::Command>(3), 1, 0},
                     {"empty", {}, 1, 0},
                     {"update", std::vector<plan::Command>(2), 1, 0}};
  }
  const plan::Command *at(size_t program, size_t command) {
    return &plan.programs[program].commands[command];
  }
  plan::Plan plan;
};

TEST_F(MeasurementsTest, SpansAndTimesComeBack) {
  RankSpans spans{"a machine\n", 7.25, {{at(0, 2), 1.5, 0.25, 3e9}, {at(2, 1), 2.5, 1e-9}}};
  const plan::Plan copy = plan; // another rank's
  auto back = unpackSpans(copy, packSpans(plan, spans));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->machine, spans.machine);
  EXPECT_EQ(back->meeting, 7.25);
  ASSERT_EQ(back->spans.size(), 2u);
  EXPECT_EQ(back->spans[0].command, &copy.programs[0].commands[2]);
  EXPECT_EQ(back->spans[0].start, 1.5);
  EXPECT_EQ(back->spans[0].flops, 3e9);
  EXPECT_EQ(back->spans[1].flops, 0);
  EXPECT_EQ(back->spans[1].command, &copy.programs[2].commands[1]);
  EXPECT_EQ(back->spans[1].seconds, 1e-9);
  auto times = unpackTimes(copy, packTimes(plan, {{at(2, 0), 12, 0.5}}));
  ASSERT_TRUE(times);
  ASSERT_EQ(times->size(), 1u);
  EXPECT_EQ((*times)[0].command, &copy.programs[2].commands[0]);
  EXPECT_EQ((*times)[0].runs, 12u);
  EXPECT_EQ((*times)[0].seconds, 0.5);
}

TEST_F(MeasurementsTest, WhatIsOfAnotherPlanIsRefused) {
  const std::string text = packSpans(plan, {"m", 0, {{at(0, 2), 1, 1}}});
  plan::Plan smaller = plan;
  smaller.programs[0].commands.resize(2);
  EXPECT_EQ(unpackSpans(smaller, text).error().message,
            "another rank's measurements are not of this plan");
  for (size_t size : {size_t(0), size_t(3), size_t(16), text.size() - 1})
    EXPECT_EQ(unpackSpans(plan, text.substr(0, size)).error().message,
              "another rank's measurements are cut off")
        << size;
}

TEST_F(MeasurementsTest, OtherMachinesAreMovedToTheMeeting) {
  auto ranks = aligned({{"a", 100, {{at(0, 0), 90, 1}}},
                        {"a", 101, {{at(0, 0), 91, 1}}},
                        {"b", 5000, {{at(0, 0), 4989, 1}}}});
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0][0].start, 90);
  EXPECT_EQ(ranks[1][0].start, 91); // the same clock
  EXPECT_EQ(ranks[2][0].start, 89); // eleven seconds before the meeting
}

TEST(MachineName, IsThatOfTheBoot) {
  EXPECT_FALSE(machineName().empty());
  EXPECT_EQ(machineName(), machineName());
}

} // namespace
} // namespace nano
