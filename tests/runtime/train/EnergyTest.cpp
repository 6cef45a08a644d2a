// Joules: of steps between changes of a counter, agreed on by ranks, told by the log, the progress
// line and the times of commands.
#include "runtime/Energy.h"

#include "runtime/comm/LocalCommunicator.h"
#include "tests/runtime/train/TrainingTest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

namespace nano {
namespace {

using test::FakeDevice;

// A counter that moves every 100 ms, at 700 W: what it stands at was true when it moved.
TEST(EnergyRecord, PowerIsConstantBetweenChanges) {
  EnergyRecord record(0);
  record.begin(10.0);
  EXPECT_TRUE(record.isAhead()); // no step has ended
  record.see(10.0, 1000);
  record.end(10.05);
  EXPECT_EQ(record.ready(), 0u);
  EXPECT_FALSE(record.isAhead());
  record.see(10.06, 1000); // looked at, not moved
  EXPECT_EQ(record.ready(), 0u);
  record.see(10.1, 1070);
  EXPECT_EQ(record.ready(), 1u);
  EXPECT_TRUE(record.isAhead());
  record.end(10.15);
  record.see(10.2, 1170);
  ASSERT_EQ(record.ready(), 2u);
  EXPECT_NEAR(record.take(1).joules, 35, 1e-9);
  const EnergyFacts second = record.take(1);
  EXPECT_NEAR(second.joules, 35 + 50, 1e-9); // half at 700 W, half at 1,000
  EXPECT_NEAR(second.seconds, 0.1, 1e-9);
}

TEST(EnergyRecord, WhatLiesBetweenStepsIsLeftOut) {
  EnergyRecord record(0);
  record.see(0, 0);
  record.begin(0);
  record.end(1);
  record.begin(3); // after a validation
  record.end(4);
  for (int i = 1; i <= 4; ++i)
    record.see(i, 100 * i);
  ASSERT_EQ(record.ready(), 2u);
  const EnergyFacts both = record.take(2);
  EXPECT_NEAR(both.joules, 200, 1e-9);
  EXPECT_NEAR(both.seconds, 2, 1e-9);
}

TEST(EnergyRecord, ToldOnceTheyAreLongEnough) {
  EnergyRecord record(1);
  record.begin(0);
  for (int i = 0; i <= 10; ++i) {
    record.see(0.4 * i, i);
    if (i > 0)
      record.end(0.4 * i);
    // The first two have been agreed on.
    EXPECT_EQ(record.ready(), i < 3 ? 0 : size_t(i)) << i;
    EXPECT_EQ(record.ready(2), i < 5 ? 0 : size_t(i) - 2) << i;
  }
  record.take(10);
  record.end(4.1);
  EXPECT_EQ(record.ready(), 0u);
  record.see(4.2, 10); // stands still
  EXPECT_EQ(record.ready(), 0u);
  record.settle();
  ASSERT_EQ(record.ready(), 1u);
  EXPECT_EQ(record.take(1).joules, 0);
}

TEST(EnergyRecord, ACounterThatWasNeverRead) {
  EnergyRecord record(0);
  record.begin(0);
  record.end(1);
  record.settle();
  EXPECT_EQ(record.ready(), 0u);
  EXPECT_FALSE(record.isAhead());
}

// Ranks of unequal pace: steps are told when the last of them knows.
TEST(RankEnergy, RanksAgreeOnSteps) {
  constexpr int world = 3, steps = 12;
  const plan::Plan plan = test::makePlan({}, {{"fake_watts", "500"}});
  LocalGroup group(world);
  std::vector<std::vector<EnergyFacts>> told(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      Communicator &communicator = group.communicator(rank);
      test::FakeDevice device(plan, communicator);
      Result<RankEnergy> energy =
          RankEnergy::start(device, communicator, 100, {.look = 0.004, .window = 0.02});
      ASSERT_TRUE(energy);
      EXPECT_TRUE(energy->isCounting());
      EXPECT_EQ(energy->source().devices, world);
      EXPECT_EQ(energy->source().counter, "fakes");
      energy->begin();
      for (int step = 0; step < steps; ++step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2 + 4 * rank));
        energy->end();
        std::vector<float> values = {7};
        energy->offer(values);
        ASSERT_EQ(values.size(), 1 + energy->numbers());
        ASSERT_TRUE(communicator.allReduce(values.data(), int64_t(values.size()), plan::DType::F32,
                                           Combine::Max, plan::Ranks::All, "a round"));
        if (std::optional<EnergyFacts> facts = energy->accept(values.data() + 1))
          told[size_t(rank)].push_back(*facts);
      }
      Result<std::vector<EnergyFacts>> rest = energy->finish(communicator);
      ASSERT_TRUE(rest);
      told[size_t(rank)].insert(told[size_t(rank)].end(), rest->begin(), rest->end());
    });
  for (std::thread &thread : threads)
    thread.join();
  int64_t next = 101;
  double joules = 0, seconds = 0;
  for (const EnergyFacts &facts : told[0]) {
    EXPECT_EQ(facts.first, next);
    EXPECT_GE(facts.last, facts.first);
    next = facts.last + 1;
    joules += facts.joules;
    seconds += facts.seconds;
  }
  EXPECT_EQ(next, 100 + steps + 1);
  EXPECT_GE(told[0].size(), 2u); // as the run went on
  EXPECT_GE(seconds, 0.12);
  EXPECT_NEAR(joules / seconds, 500.0 * world, 150);
  for (const std::vector<EnergyFacts> &others : told) {
    ASSERT_EQ(others.size(), told[0].size());
    for (size_t i = 0; i < others.size(); ++i)
      EXPECT_EQ(others[i].joules, told[0][i].joules);
  }
}

class EnergyTest : public test::TrainingTest {
protected:
  EnergyTest() {
    test::writeShard(scratch / "train.bin", test::makeTokens(300, 50, 1));
    test::writeShard(scratch / "val.bin", test::makeTokens(150, 50, 2));
    options.train = scratch / "train.bin";
    options.log = scratch / "log.jsonl";
    options.steps = 6;
  }
  void count(std::vector<plan::Hyperparameter> settings) {
    settings.push_back({"fake_watts", "100"});
    settings.push_back({"fake_sleep_ms", "10"});
    plan = test::makePlan({}, std::move(settings));
  }
  /// Of all events, which follow each other from the first step to the last.
  EnergyFacts sum() {
    EnergyFacts all;
    int64_t next = 1;
    for (const nlohmann::json &event : events("energy")) {
      EXPECT_EQ(event["first_step"], next);
      next = event["step"].get<int64_t>() + 1;
      all.joules += event["joules"].get<double>();
      all.seconds += event["seconds"].get<double>();
    }
    EXPECT_EQ(next, 7);
    return all;
  }
  /// What the fakes draw together.
  double watts() {
    const EnergyFacts all = sum();
    return all.joules / all.seconds;
  }
};

TEST_F(EnergyTest, OfAllRanks) {
  for (int world : {1, 2}) {
    count({});
    options.world = world;
    ASSERT_TRUE(run());
    EXPECT_NEAR(watts(), 100.0 * world, 25);
    EXPECT_EQ(events("run").at(0)["energy"],
              (nlohmann::json{{"counter", "fakes"}, {"devices", world}}));
    const EnergyFacts all = sum();
    const std::string end =
        fmt::format("\n{:.2f} J a step, {:.3f} kJ in 6 steps, {:.0f} W on {} device{} (by fakes)\n",
                    all.joules / 6, all.joules / 1000, watts(), world, world == 1 ? "" : "s");
    EXPECT_NE(output.find(end), std::string::npos) << output << end;
    EXPECT_EQ(output.find("without joules"), std::string::npos);
  }
}

TEST_F(EnergyTest, ACounterOfSeveralRanksCountsOnce) {
  count({{"fake_shared_counter", "1"}});
  options.world = 2;
  ASSERT_TRUE(run());
  EXPECT_NEAR(watts(), 100, 25);
  EXPECT_EQ(events("run").at(0)["energy"]["devices"], 1);
}

TEST_F(EnergyTest, MissingIsSaidOnce) {
  ASSERT_TRUE(run());
  EXPECT_TRUE(events("energy").empty());
  EXPECT_EQ(events("run").at(0)["energy"],
            (nlohmann::json{{"missing", "the fake counts nothing"}}));
  const std::string line = options.log + ": without joules: the fake counts nothing\n";
  const size_t at = output.find(line);
  ASSERT_NE(at, std::string::npos) << output;
  EXPECT_EQ(output.find("joules", at + line.size()), std::string::npos);
  options.log.clear(); // nothing lacks then
  ASSERT_TRUE(run());
  EXPECT_EQ(output.find("joules"), std::string::npos);
}

TEST_F(EnergyTest, OneRankWithoutACounter) {
  count({{"fake_uncounted_rank", "1"}});
  options.world = 2;
  ASSERT_TRUE(run());
  EXPECT_TRUE(events("energy").empty());
  EXPECT_EQ(events("run").at(0)["energy"],
            (nlohmann::json{{"missing", "rank 1: the fake counts nothing"}}));
}

TEST_F(EnergyTest, ValidationsAreLeftOut) {
  count({});
  options.val = scratch / "val.bin";
  options.valTokens = 128;
  options.valEvery = 2;
  double validated = 0;
  onRun = [&](const std::string &program, FakeDevice &) {
    if (program != plan.training.validate)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    validated += 0.04;
  };
  ASSERT_TRUE(run());
  ASSERT_GE(validated, 0.3);
  double steps = 0;
  for (const nlohmann::json &step : events("step"))
    steps += 1e-3 * step["step_ms"].get<double>();
  EXPECT_LT(sum().seconds, steps + validated / 2);
  EXPECT_NEAR(watts(), 100, 25);
}

TEST_F(EnergyTest, TimesHaveThem) {
  count({});
  options.times = scratch / "times.json";
  ASSERT_TRUE(run());
  EXPECT_NEAR(nlohmann::json::parse(test::readText(options.times))["joules"].get<double>(),
              sum().joules, 1e-6);
  plan = test::makePlan();
  ASSERT_TRUE(run());
  EXPECT_FALSE(nlohmann::json::parse(test::readText(options.times)).contains("joules"));
}

TEST(ProgressLine, HasJoulesOnceTheyAreKnown) {
  test::CapturedConsole console;
  Progress progress(console.console, 10);
  StepFacts facts;
  facts.step = 1;
  facts.milliseconds = 100;
  facts.tokens = 1000;
  EXPECT_TRUE(progress.line(facts).ends_with(" tok/s")) << progress.line(facts);
  for (const auto &[joules, text] :
       {std::pair(660.0, "33.0 J"), std::pair(20.0, "1.00 J"), std::pair(46913.0, "2346 J")}) {
    progress.energy({1, 20, joules, 1});
    EXPECT_TRUE(progress.line(facts).ends_with(std::string(" tok/s  ") + text))
        << progress.line(facts);
  }
}

} // namespace
} // namespace nano
