// The training loop with phases and with several ranks: programs of a step, measurements of all
// ranks, the search for the cause of a loss that is not finite, indices out of range.
#include "runtime/Trainer.h"

#include "runtime/files/Checkpoint.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TrainingTest.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

namespace nano {
namespace {

using nlohmann::json;
using test::addBuffer;
using test::FakeDevice;
using test::makePlan;
using test::makeTokens;
using test::readText;
using test::writeShard;

class TrainerRanksTest : public test::TrainingTest {
protected:
  TrainerRanksTest() {
    writeShard(scratch / "train.bin", makeTokens(2000, 50, 1));
    writeShard(scratch / "val.bin", makeTokens(150, 50, 2));
    options.train = scratch / "train.bin";
    options.steps = 4;
  }
  std::string failure() {
    Status status = run();
    EXPECT_FALSE(status) << output;
    return status ? "" : status.error().message;
  }
  /// Gives every program a command that is all of it.
  static void giveCommands(plan::Plan &plan) {
    for (plan::Program &program : plan.programs) {
      const plan::Ref loss = {plan.training.lossBuffer, 0, true, false};
      program.commands = {
          {plan::Fill{plan::DType::F32, loss, 1}, 0, "all of " + program.name, {"bigram.cpp", 3}}};
    }
  }
  /// A plan whose loss is NaN in step 3 at the sequence.
  static plan::Plan planWithNan(const char *sequence) {
    plan::Plan plan =
        makePlan({}, {{"fake_nan_step", "3", true}, {"fake_nan_sequence", sequence, true}});
    giveCommands(plan);
    return plan;
  }
};

/// Hangs in the first write of the weight, on one rank.
class HangingDevice : public FakeDevice {
public:
  HangingDevice(const plan::Plan &plan, Communicator &communicator)
      : FakeDevice(plan, communicator), weight(plan.states[0].buffer), communicator(communicator) {}

  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override {
    while (communicator.rank() == 1 && buffer == weight && !communicator.failure())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return FakeDevice::write(buffer, offset, data, bytes);
  }

private:
  const uint32_t weight;
  Communicator &communicator;
};

TEST_F(TrainerRanksTest, WhoHangsInFillingItsStatesSaysInWhich) {
  options.world = 2;
  auto crew = Crew::threads(2, std::chrono::seconds(3));
  test::CapturedConsole console;
  Status status = train(
      plan, plan::planHash(plan), options,
      [](const plan::Plan &plan, Communicator &communicator,
         const DeviceOptions &) -> Result<std::unique_ptr<Device>> {
        return std::unique_ptr<Device>(new HangingDevice(plan, communicator));
      },
      console.console, crew.get());
  ASSERT_FALSE(status);
  EXPECT_CONTAINS(status.error().message,
                  "rank 1 (last seen in exchange 'counters of energy', making the "
                  "initial values of 'weight') did not come within 3 s");
}

TEST_F(TrainerRanksTest, StepsGoRoundThePhases) {
  plan.training.phases.push_back({"first.b", "next.b", "last.b", "update.b"});
  for (const char *name : {"first.b", "next.b", "last.b", "update.b"})
    plan.programs.push_back({name, {}, 1, 0});
  for (int world : {1, 2, 4}) {
    options.world = world;
    options.steps = 5;
    std::mutex mutex;
    std::map<int, std::string> ran;
    onRun = [&](const std::string &program, FakeDevice &device) {
      std::lock_guard guard(mutex);
      ran[device.rank()] += program + " ";
    };
    ASSERT_TRUE(run()) << output;
    const std::string one = world == 1   ? "first next next last update "
                            : world == 2 ? "first last update "
                                         : "last update ";
    const std::string two = world == 1   ? "first.b next.b next.b last.b update.b "
                            : world == 2 ? "first.b last.b update.b "
                                         : "last.b update.b ";
    for (int rank = 0; rank < world; ++rank)
      EXPECT_EQ(ran[rank], one + two + one + two + one) << rank;
  }
}

TEST_F(TrainerRanksTest, ResumesAfterWholeRoundsOnly) {
  options.save = scratch / "saves";
  options.steps = 4;
  ASSERT_TRUE(run()) << output;
  for (const char *name : {"update.b", "update.c"}) {
    plan.training.phases.push_back({"first", "next", "last", name});
    plan.programs.push_back({name, {}, 1, 0});
  }
  options.start.resume = std::exchange(options.save, "");
  options.steps = 6;
  EXPECT_CONTAINS(failure(),
                  "it was saved after step 4, and this plan keeps gradients over 3 steps");
}

/// With three phases, gradients live over three steps: checkpoints are made after 3, 6, 9, ….
TEST_F(TrainerRanksTest, CheckpointsAreMadeAfterWholeRounds) {
  for (const char *name : {"update.b", "update.c"}) {
    plan.training.phases.push_back({"first", "next", "last", name});
    plan.programs.push_back({name, {}, 1, 0});
  }
  auto saved = [&] {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(options.save))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  };
  options.save = scratch / "saves";
  options.saveEvery = 4;
  options.steps = 10;
  EXPECT_EQ(failure(), "--save: gradients are kept over 3 steps, and a checkpoint can only be made "
                       "after whole rounds of them or at the end of the run, not after step 10; "
                       "ask for --steps 12");
  options.steps = 12;
  ASSERT_TRUE(run());
  // Due after 4, 8 and 12.
  EXPECT_EQ(saved(), (std::vector<std::string>{"step-000006", "step-000009", "step-000012"}));

  // A signal in step 4 is heard after step 6.
  std::filesystem::remove_all(options.save);
  onRun = [&](const std::string &program, FakeDevice &device) {
    if (program == "update" && device.updates() == 3)
      ::raise(SIGINT);
  };
  EXPECT_EQ(failure(),
            "interrupted by SIGINT after step 6 of 12; saved " + options.save + "/step-000006");
  EXPECT_EQ(saved(), std::vector<std::string>{"step-000006"});
  // In a validation after step 4 too.
  std::filesystem::remove_all(options.save);
  options.val = scratch / "val.bin";
  options.valEvery = 4;
  onRun = [&](const std::string &program, FakeDevice &) {
    if (program == "validate")
      ::raise(SIGINT);
  };
  EXPECT_CONTAINS(failure(), "after step 6 of 12; saved");
  options.val.clear();
  options.valEvery = 0;
  // Nothing to save: at once.
  options.saveEvery = 0;
  const std::string save = std::exchange(options.save, "");
  onRun = [&](const std::string &program, FakeDevice &device) {
    if (program == "update" && device.updates() == 3)
      ::raise(SIGINT);
  };
  EXPECT_CONTAINS(failure(), "interrupted by SIGINT after step 4 of 12; nothing saved");

  // A resumed run goes on with the programs of its step.
  std::vector<std::string> updates;
  onRun = [&](const std::string &program, FakeDevice &) {
    if (program.rfind("update", 0) == 0)
      updates.push_back(program);
  };
  options.start.resume = save;
  options.steps = 11;
  ASSERT_TRUE(run()) << output;
  EXPECT_EQ(updates,
            (std::vector<std::string>{"update", "update.b", "update.c", "update", "update.b"}));
}

/// A run whose last step is not the last of a round ends with a checkpoint, from which none goes
/// on.
TEST_F(TrainerRanksTest, TheEndOfTheRunIsSaved) {
  for (const char *name : {"update.b", "update.c"}) {
    plan.training.phases.push_back({"first", "next", "last", name});
    plan.programs.push_back({name, {}, 1, 0});
  }
  plan.training.numIterations = 7;
  options.save = scratch / "saves";
  options.saveEvery = 3;
  options.steps = 7;
  ASSERT_TRUE(run()) << output;
  for (const char *name : {"step-000003", "step-000006", "step-000007"})
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(options.save) / name)) << name;
  options.start.resume = std::exchange(options.save, "");
  options.saveEvery = 0;
  ASSERT_TRUE(run()) << output; // nothing to train
  options.steps = 9;
  EXPECT_CONTAINS(failure(),
                  "it was saved after step 7, and this plan keeps gradients over 3 steps");
}

TEST_F(TrainerRanksTest, WithinARoundTheStateBeforeIsNotSaved) {
  plan = planWithNan("0"); // in step 3, the first of the second round
  plan.training.phases.resize(2, plan.training.phases[0]);
  options.save = scratch / "saves";
  EXPECT_CONTAINS(failure(), "saved the state before it, " + options.save + "/step-000002");
  std::filesystem::remove_all(options.save);
  plan.training.phases.resize(4, plan.training.phases[0]);
  EXPECT_CONTAINS(failure(), "nothing saved, gradients are kept over 4 steps and it is not the "
                             "first of a round");
  EXPECT_FALSE(std::filesystem::exists(options.save + "/step-000002"));
}

TEST_F(TrainerRanksTest, ProfileHoldsTheLastStepOfAllRanks) {
  giveCommands(plan);
  options.world = 2;
  options.val = scratch / "val.bin";
  options.valEvery = 1; // validations before and after the last step
  options.profile = scratch / "trace.json";
  ASSERT_TRUE(run()) << output;
  json trace = json::parse(readText(options.profile));
  EXPECT_EQ(trace["otherData"]["step"], 4);
  EXPECT_EQ(trace["otherData"]["world"], 2);
  std::map<int, std::vector<std::string>> programs;
  std::map<int, std::string> rows;
  for (const json &event : trace["traceEvents"]) {
    if (event["name"] == "process_name")
      rows[event["pid"]] = event["args"]["name"];
    if (event["ph"] != "X")
      continue;
    programs[event["pid"]].push_back(event["args"]["program"]);
    EXPECT_EQ(event["dur"], 1e6 * (event["pid"].get<int>() + 1));
  }
  const std::vector<std::string> step = {"first", "last", "update"};
  EXPECT_EQ(programs, (std::map<int, std::vector<std::string>>{{0, step}, {1, step}}));
  EXPECT_EQ(rows, (std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
}

TEST_F(TrainerRanksTest, TimesAreThoseOfAllRanks) {
  giveCommands(plan);
  options.world = 2;
  options.times = scratch / "times.json";
  ASSERT_TRUE(run()) << output;
  json times = json::parse(readText(options.times));
  EXPECT_EQ(times["world"], 2);
  ASSERT_EQ(times["commands"].size(), 3u);
  EXPECT_EQ(times["commands"][0]["program"], "first");
  EXPECT_EQ(times["commands"][0]["runs"], 4);
  EXPECT_EQ(times["commands"][0]["ms"], 4000);
  EXPECT_EQ(times["commands"][0]["rank_ms"], (json{4000, 8000}));
  options.world = 1;
  ASSERT_TRUE(run()) << output;
  EXPECT_FALSE(json::parse(readText(options.times))["commands"][0].contains("rank_ms"));
}

/// Sequence 3 of four is the second micro-batch of rank 1 of two: rank 0 comes along through the
/// collectives of the last program.
TEST_F(TrainerRanksTest, LossThatIsNotFiniteIsFoundOnItsRank) {
  plan = planWithNan("3");
  options.world = 2;
  options.save = scratch / "saves";
  EXPECT_EQ(
      failure(),
      "the loss is nan at step 3 (sequence 3 of the batch, rank 1), stopped before the update; "
      "first in buffer 'loss' (bigram.cpp:1), element 0 = nan, written by program 'last', "
      "command 0 'all of last' (bigram.cpp:3); saved the state before it, " +
          options.save + "/step-000002");
  EXPECT_TRUE(openCheckpoint(options.save + "/step-000002"));
}

/// Programs check two indices, whose numbers each rank writes as a test says. What one rank finds
/// out of range ends all with the same line, before the update and with no checkpoint behind it.
TEST_F(TrainerRanksTest, IndexOutOfRangeEndsAll) {
  plan::IndexChecks &checks = plan.training.checks;
  checks.list = {{"gather", 400, {"bigram.cpp", 7}}, {"cross_entropy", 50, {"bigram.cpp", 9}}};
  checks.buffer = addBuffer(plan, "checks", 2);
  options.save = scratch / "saves";
  options.saveEvery = 1;
  options.log = scratch / "log.jsonl";
  std::atomic<int64_t> bad = -1; // what rank 1 finds in the second micro-batch of step 3
  onRun = [&](const std::string &program, FakeDevice &device) {
    auto *numbers = device.at<int32_t>(plan.training.checks.buffer);
    const bool isHere = device.rank() == 1 && device.updates() == 2 && program == "last";
    numbers[0] = 399;
    numbers[1] = isHere ? int32_t(bad) : 0;
  };
  options.world = 2;
  for (int32_t number : {50, INT32_MAX, -1, INT32_MIN}) {
    bad = number;
    EXPECT_EQ(failure(),
              fmt::format("step 3: bigram.cpp:9: cross_entropy: index {} is outside of [0, 50) "
                          "(sequence 3, rank 1), stopped before the update; the state before it "
                          "is in {}/step-000002",
                          number, options.save));
    EXPECT_EQ(events("step").size(), 2u);
    EXPECT_FALSE(std::filesystem::exists(options.save + "/step-000003"));
    std::filesystem::remove_all(options.save);
  }
  bad = 49;
  EXPECT_TRUE(run()) << output;
}

/// Every rank finds one: they say what the first of them does. One rank alone says it likewise.
TEST_F(TrainerRanksTest, IndicesOutOfRangeOnAllRanks) {
  plan.training.checks = {{{"gather", 400, {}}}, addBuffer(plan, "checks", 1)};
  onRun = [&](const std::string &, FakeDevice &device) {
    *device.at<int32_t>(plan.training.checks.buffer) = 1000 + device.rank();
  };
  for (int world : {1, 4}) {
    options.world = world;
    EXPECT_EQ(failure(), "step 1: gather: index 1000 is outside of [0, 400) (sequence 0, rank 0), "
                         "stopped before the update; nothing saved, there was no --save");
  }
}

TEST_F(TrainerRanksTest, IndexOutOfRangeInValidation) {
  plan.training.valChecks = {{{"gather", 60, {"bigram.cpp", 7}}}, addBuffer(plan, "checks", 1)};
  onRun = [&](const std::string &program, FakeDevice &device) {
    if (program == "validate")
      *device.at<int32_t>(plan.training.valChecks.buffer) =
          device.updates() == 4 && device.rank() == 1 ? 60 : 59;
  };
  options.val = scratch / "val.bin";
  options.valEvery = 2;
  options.world = 2;
  EXPECT_EQ(failure(), "validation after step 4: bigram.cpp:7: gather: index 60 is outside of "
                       "[0, 60) (sequence 1, rank 1)");
}

/// An update that is part of the last program: the same run, but nothing is left of the state
/// before a loss that is not finite.
TEST_F(TrainerRanksTest, UpdateWithinTheLastProgram) {
  auto join = [](plan::Plan &plan) {
    plan.training.phases[0].update.clear();
    const plan::Ref weights = {plan.states[0].buffer, 0, true, false};
    plan.programs[2].commands.push_back({plan::Fill{plan::DType::F32, weights, 1}}); // last
  };
  options.dumpParams = scratch / "p.safetensors";
  ASSERT_TRUE(run());
  const std::string apart = readText(options.dumpParams);
  join(plan);
  ASSERT_TRUE(run());
  EXPECT_EQ(readText(options.dumpParams), apart);

  plan = makePlan({}, {{"fake_nan_step", "3", true}});
  join(plan);
  options.save = scratch / "saves";
  for (int world : {1, 2}) {
    options.world = world;
    EXPECT_EQ(failure(),
              "the loss is nan at step 3 (sequence 0 of the batch, rank 0), stopped after "
              "the update; compile with -D update=apart to see where it appears; nothing "
              "saved, its micro-batches have changed what a checkpoint holds");
  }
  options.saveEvery = 1;
  EXPECT_CONTAINS(failure(), "the state before it is in " + options.save + "/step-000002");
}

TEST_F(TrainerRanksTest, SearchThatFails) {
  plan = planWithNan("1");
  plan.hyperparameters.push_back({"fake_fail_check", "1", true});
  for (int world : {1, 2}) {
    options.world = world;
    EXPECT_CONTAINS(failure(), "stopped before the update; running again with checks failed: fake "
                               "command failed; nothing saved, there was no --save");
  }
}

TEST_F(TrainerRanksTest, StatesThatMicroBatchesChangeAreNotSavedAfterThem) {
  plan = planWithNan("0");
  // last: the momentum
  plan.programs[2].commands[0].as<plan::Fill>()->to.buffer = plan.states[2].buffer;
  options.save = scratch / "saves";
  options.saveEvery = 1;
  EXPECT_CONTAINS(failure(), "the state before it is in " + options.save + "/step-000002");
  options.saveEvery = 0;
  std::filesystem::remove_all(options.save);
  EXPECT_CONTAINS(failure(),
                  "nothing saved, its micro-batches have changed what a checkpoint holds");
  EXPECT_FALSE(std::filesystem::exists(options.save + "/step-000002"));
}

TEST_F(TrainerRanksTest, CheckpointsOfSeveralRanksGoOnAtAnotherWorld) {
  options.world = 4;
  options.save = scratch / "saves";
  options.steps = 3;
  ASSERT_TRUE(run());
  EXPECT_TRUE(std::filesystem::exists(options.save + "/step-000003/params-00003.safetensors"));
  options.save.clear();
  options.start.resume = scratch / "saves";
  options.steps.reset();
  std::vector<std::string> results;
  for (int world : {1, 2, 4}) {
    options.world = world;
    options.log = scratch / ("log" + std::to_string(world));
    ASSERT_TRUE(run()) << output;
    std::vector<json> steps = events("step");
    ASSERT_EQ(steps.size(), 5u);
    EXPECT_EQ(steps[0]["step"], 4);
    results.push_back(steps[0]["train_loss"].dump()); // before the first update: to the bit
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

} // namespace
} // namespace nano
