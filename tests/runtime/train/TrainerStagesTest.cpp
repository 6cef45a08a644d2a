// Runs of several stages: batches of each stage's shape, the same as one run a stage joined by
// checkpoints, resumed anywhere, with what the log says of them.
#include "tests/runtime/train/TrainingTest.h"

#include "runtime/plan/PlanFile.h"

#include <gtest/gtest.h>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace nano {
namespace {

using test::FakeDevice;
using test::makeTokens;
using test::readText;
using test::writeShard;

/// Of 8 steps the first 3 have 4 sequences of 16 tokens, the others 2 of 48.
class TrainerStagesTest : public test::TrainingTest {
protected:
  TrainerStagesTest() {
    writeShard(scratch / "train_0.bin", makeTokens(300, 50, 1));
    writeShard(scratch / "train_1.bin", makeTokens(230, 50, 2));
    writeShard(scratch / "val.bin", makeTokens(150, 50, 3));
    options.train = scratch / "train_*.bin";
    options.log = scratch / "log.jsonl";
    staged.worlds = {1, 2};
    staged.training.stage = "short";
    staged.training.until = 3;
    staged.laterStages = {staged.training};
    plan::Training &later = staged.laterStages.front();
    later.stage = "long";
    later.until = later.numIterations;
    later.phases = {{"first.long", "next.long", "last.long", "update"}};
    later.globalBatch = 96;
    later.seqLen = 48;
    for (const char *name : {"first.long", "next.long", "last.long"})
      staged.programs.push_back({name, {}, 1, 0});
    later.tokensBuffer = test::addBuffer(staged, "tokens.long", 48);
    later.targetsBuffer = test::addBuffer(staged, "targets.long", 48);
    plan = staged;
  }

  /// A run of one stage alone.
  plan::Plan alone(const plan::Training &stage) const {
    plan::Plan plan = staged;
    plan.training = stage;
    plan.training.stage.clear();
    plan.training.until = 0;
    plan.laterStages.clear();
    return plan;
  }

  /// The plan's parameters after so many steps; what is saved lies below `save`.
  std::string parameters(int64_t steps, const std::string &save, const std::string &resume = "") {
    options.steps = steps;
    options.save = scratch / save;
    options.start.resume = resume.empty() ? "" : scratch / resume;
    options.dumpParams = scratch / "params.safetensors";
    Status status = run();
    EXPECT_TRUE(status) << status.error().message;
    for (const nlohmann::json &step : events("step"))
      losses.push_back(step["train_loss"]);
    return readText(options.dumpParams);
  }

  plan::Plan staged = test::makePlan();
  std::vector<double> losses; ///< of all runs so far
};

TEST_F(TrainerStagesTest, IsOneRunAStageJoinedByCheckpoints) {
  for (int world : {1, 2}) {
    options.world = world;
    const std::string name = "run" + std::to_string(world);
    plan = staged;
    losses.clear();
    const std::string whole = parameters(8, name + "-whole");
    const std::vector<double> wholeLosses = std::exchange(losses, {});
    ASSERT_EQ(wholeLosses.size(), 8u);

    plan = alone(staged.training);
    parameters(3, name + "-short");
    plan = alone(staged.laterStages[0]);
    std::filesystem::remove(options.log); // a resumed run would go on in it
    EXPECT_EQ(parameters(8, name + "-long", name + "-short"), whole);
    EXPECT_EQ(losses, wholeLosses);
  }
}

TEST_F(TrainerStagesTest, ResumesInAnyStage) {
  const std::string whole = parameters(8, "whole");
  for (int64_t stop : {2, 3, 5}) {
    const std::string name = "stop" + std::to_string(stop);
    parameters(stop, name);
    EXPECT_EQ(parameters(8, name + "-on", name), whole) << stop;
  }
}

TEST_F(TrainerStagesTest, LogSaysTheStage) {
  options.val = scratch / "val.bin";
  options.valTokens = 64;
  options.valEvery = 3;
  parameters(8, "logged");
  const nlohmann::json run = events("run").at(0);
  EXPECT_EQ(
      run["stages"],
      (nlohmann::json{{{"stage", "short"}, {"until", 3}, {"seq_len", 16}, {"global_batch", 64}},
                      {{"stage", "long"}, {"until", 8}, {"seq_len", 48}, {"global_batch", 96}}}));
  const std::vector<nlohmann::json> steps = events("step");
  ASSERT_EQ(steps.size(), 8u);
  EXPECT_EQ(steps[2]["stage"], "short");
  EXPECT_EQ(steps[2]["tokens"], 64);
  EXPECT_EQ(steps[3]["stage"], "long");
  EXPECT_EQ(steps[3]["tokens"], 96);
  EXPECT_EQ(steps[7]["total_tokens"], 3 * 64 + 5 * 96);
  for (const char *line :
       {"stage short: 3 steps of 64 tokens: 1 rank with 4 micro-batches of 16 tokens\n",
        "stage long: 5 steps of 96 tokens: 1 rank with 2 micro-batches of 48 tokens\n"})
    EXPECT_NE(output.find(line), std::string::npos) << output;
}

TEST_F(TrainerStagesTest, LaterStagesArePreparedWhereTheyComeToRun) {
  std::vector<std::string> ahead;
  bool hasRun = false;
  onRun = [&](const std::string &program, FakeDevice &) {
    if (!program.starts_with("ahead: ")) {
      hasRun = true;
      return;
    }
    EXPECT_FALSE(hasRun);
    ahead.push_back(program.substr(7));
  };
  parameters(3, "a");
  EXPECT_TRUE(ahead.empty());
  hasRun = false;
  parameters(4, "b");
  EXPECT_EQ(ahead, (std::vector<std::string>{"first.long", "next.long", "last.long", "update"}));
  ahead.clear();
  hasRun = false;
  parameters(5, "c", "b");
  EXPECT_TRUE(ahead.empty());
}

TEST_F(TrainerStagesTest, EventsToComeArePreparedBeforeTheFirstStep) {
  // One after the first step, which runs it at once; one later in the first stage, one after every
  // step of the second, one behind the run's end.
  for (const char *name : {"at.first", "in.short", "in.long", "behind"})
    plan.programs.push_back({name, {}, 1, 0});
  plan.training.events = {{"at.first", 0}, {"in.short", 2}};
  plan.laterStages[0].events = {{"in.long", -1}, {"behind", 6}};
  std::vector<std::string> ahead, ran;
  float rate = 0;
  onRun = [&](const std::string &program, FakeDevice &device) {
    if (program == "ahead: in.short")
      rate = *device.learningRate();
    if (program.starts_with("ahead: ")) {
      EXPECT_TRUE(ran.empty());
      ahead.push_back(program.substr(7));
    } else {
      ran.push_back(program);
      if (program == "in.short")
        EXPECT_EQ(*device.learningRate(), rate); // as when it was prepared
    }
  };
  parameters(5, "events");
  EXPECT_EQ(ahead, (std::vector<std::string>{"in.short", "first.long", "next.long", "last.long",
                                             "update", "in.long"}));
  EXPECT_EQ(std::count(ran.begin(), ran.end(), "in.short"), 1);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), "in.long"), 2);
}

TEST_F(TrainerStagesTest, ShardsMustHoldTheLargestBatch) {
  writeShard(scratch / "small.bin", makeTokens(80, 50, 1));
  options.train = scratch / "small.bin";
  options.steps = 3;
  EXPECT_TRUE(run());
  options.steps = 4;
  const Status status = run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 2);
  EXPECT_NE(status.error().message.find("it has 80, a step of 96 needs 97 in one shard"),
            std::string::npos)
      << status.error().message;
}

} // namespace
} // namespace nano
