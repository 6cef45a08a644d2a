// The training loop against a plain re-implementation: order of sequences, ranks, resume, signals,
// validation, failures.
#include "runtime/Trainer.h"

#include "runtime/Random.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TrainingTest.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mutex>
#include <nlohmann/json.hpp>

namespace nano {
namespace {

using test::FakeDevice;
using test::makePlan;
using test::makeTokens;
using test::readText;
using test::writeShard;
using test::writeWideShard;

/// Runs of a plan on shards.
class TrainerTest : public test::TrainingTest {
protected:
  TrainerTest() {
    tokens = {makeTokens(300, 50, 1), makeTokens(200, 50, 2)};
    writeShard(scratch / "train_0.bin", tokens[0]);
    writeShard(scratch / "train_1.bin", tokens[1]);
    valTokens = makeTokens(150, 50, 3);
    writeShard(scratch / "val.bin", valTokens);
    options.train = scratch / "train_*.bin";
  }

  /// Runs and expects an error of that exit status; returns its message.
  std::string failure(int exitStatus) {
    Status status = run();
    EXPECT_FALSE(status) << output;
    if (status)
      return "";
    EXPECT_EQ(status.error().exitStatus(), exitStatus) << status.error().message;
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
    return status.error().message;
  }
  std::vector<double> losses() {
    std::vector<double> values;
    for (const nlohmann::json &step : events("step"))
      values.push_back(step["train_loss"]);
    return values;
  }
  /// Parameters after a run with these options.
  std::string parameters() {
    options.dumpParams = scratch / "params.safetensors";
    EXPECT_TRUE(run());
    options.dumpParams.clear();
    return readText(scratch / "params.safetensors");
  }

  std::vector<std::vector<uint16_t>> tokens;
  std::vector<uint16_t> valTokens;
};

/// The model of FakeDevice and the whole loop once more, for one rank, in f64 and with nothing in
/// between.
class PlainModel {
public:
  explicit PlainModel(uint64_t seed) {
    std::vector<float> values(50);
    Random(seed, "weight").normal(0, values, 0, 1);
    weight.assign(values.begin(), values.end());
    Random(seed, "bias").uniform(0, values, -0.5, 0.5);
    for (float value : values)
      bias.push_back(fromBf16(toBf16(value)));
  }
  double loss(const std::vector<uint16_t> &shard, size_t position, size_t count,
              std::vector<double> *gradient) {
    double sum = 0;
    for (size_t i = position; i < position + count; ++i) {
      double error = weight[shard[i]] + bias[shard[i]] - shard[i + 1] / 50.0;
      sum += 0.5 * error * error;
      if (gradient)
        (*gradient)[shard[i]] += error;
    }
    return sum;
  }
  /// Mean loss before the update of step `step` of 8 on these 64 tokens.
  double step(const std::vector<uint16_t> &shard, size_t position, int step) {
    std::vector<double> gradient(50);
    double sum = loss(shard, position, 64, &gradient);
    for (size_t i = 0; i < 50; ++i) {
      momentum[i] = 0.9 * momentum[i] + gradient[i] / 4;
      weight[i] -= 0.1 * (1 - step / 8.0) * momentum[i];
    }
    return sum / 64;
  }
  std::vector<double> weight, bias, momentum = std::vector<double>(50);
};

TEST_F(TrainerTest, LossesAreThoseOfAPlainLoop) {
  for (int world : {1, 2, 4}) {
    options.world = world;
    options.start.seed = 5;
    options.val = scratch / "val.bin";
    options.valEvery = 3;
    options.log = scratch / "log.jsonl";
    ASSERT_TRUE(run()) << world;
    PlainModel model(5);
    auto steps = events("step");
    ASSERT_EQ(steps.size(), 8u);
    std::map<int, double> validation;
    for (int s = 0; s < 8; ++s) {
      // 64 tokens a step: four steps fit into the 300 tokens, then three into the 200 (3·64 + 65 >
      // 200), then again.
      const auto &shard = s < 4 || s >= 7 ? tokens[0] : tokens[1];
      size_t position = 64 * size_t(s < 4 ? s : s < 7 ? s - 4 : 0);
      EXPECT_NEAR(steps[size_t(s)]["train_loss"], model.step(shard, position, s), 1e-5);
      EXPECT_EQ(steps[size_t(s)]["step"], s + 1);
      EXPECT_EQ(steps[size_t(s)]["tokens"], 64);
      EXPECT_NEAR(steps[size_t(s)]["lr"], 1 - s / 8.0, 1e-9);
      EXPECT_GE(steps[size_t(s)]["step_ms"], 0);
      validation[s + 1] = model.loss(valTokens, 0, 128, nullptr) / 128;
    }
    auto vals = events("val");
    ASSERT_EQ(vals.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      int step = i < 2 ? 3 * int(i + 1) : 8;
      EXPECT_EQ(vals[i]["step"], step);
      EXPECT_NEAR(vals[i]["val_loss"], validation[step], 1e-5);
    }
    EXPECT_EQ(
        readText(options.log).rfind(R"({"event":"run","plan_hash":")" + plan::planHash(plan), 0),
        0u);
    EXPECT_EQ(events("run")[0]["device"], "fake device");
    EXPECT_EQ(events("end")[0]["reason"], "done");
    EXPECT_CONTAINS(output, "step 8: past the last shard, reading starts again at the first");
    EXPECT_CONTAINS(output, "validation: 4 sequences of 32 = 128 tokens (10485760 were asked for, "
                            "the shards hold 150)");
  }
}

TEST_F(TrainerTest, SequencesOfTheBatchGoRoundTheRanks) {
  options.steps = 1;
  for (int world : {1, 2, 4}) {
    options.world = world;
    std::mutex mutex;
    std::map<int, std::vector<std::pair<std::string, std::vector<int32_t>>>> calls;
    onRun = [&](const std::string &program, FakeDevice &device) {
      const auto *inputs = device.at<int32_t>(plan.training.tokensBuffer);
      std::vector<int32_t> seen(inputs, inputs + 16);
      const auto *targets = device.at<int32_t>(plan.training.targetsBuffer);
      for (int t = 0; t < 15 && program != "update"; ++t)
        EXPECT_EQ(targets[t], inputs[t + 1]);
      std::lock_guard guard(mutex);
      calls[device.rank()].emplace_back(program,
                                        program == "update" ? std::vector<int32_t>() : seen);
    };
    ASSERT_TRUE(run());
    ASSERT_EQ(calls.size(), size_t(world));
    for (auto &[rank, list] : calls) {
      ASSERT_EQ(list.size(), size_t(4 / world) + 1);
      EXPECT_EQ(list.back().first, "update");
      for (size_t m = 0; m + 1 < list.size(); ++m) {
        EXPECT_EQ(list[m].first, m + 2 == list.size() ? "last" : m == 0 ? "first" : "next");
        size_t begin = 16 * (m * size_t(world) + size_t(rank));
        EXPECT_EQ(list[m].second, std::vector<int32_t>(tokens[0].begin() + long(begin),
                                                       tokens[0].begin() + long(begin) + 16));
      }
    }
  }
}

TEST_F(TrainerTest, ScalarsAreThoseOfTheStep) {
  options.val = scratch / "val.bin";
  options.steps = 3;
  std::vector<std::tuple<std::string, float, int>> seen;
  onRun = [&](const std::string &program, FakeDevice &device) {
    if (program != "next" && program != "last")
      seen.emplace_back(program, *device.learningRate(), *device.window());
  };
  ASSERT_TRUE(run());
  using Seen = std::tuple<std::string, float, int>;
  std::vector<Seen> expected;
  for (int s = 0; s < 3; ++s)
    for (const char *program : {"first", "update"})
      expected.emplace_back(program, 1 - float(s) / 8, s);
  for (int i = 0; i < 4; ++i)
    expected.emplace_back("validate", 1 - 3.0F / 8, 3);
  EXPECT_EQ(seen, expected);
}

TEST_F(TrainerTest, DevicesGetTheProgramsThatTheRunBegins) {
  plan.programs.push_back({"measure", {}, 1, 0});
  plan.training.measure = "measure";
  auto programs = [&] {
    std::string names;
    test::CapturedConsole console;
    EXPECT_FALSE(train(
        plan, plan::planHash(plan), options,
        [&](const plan::Plan &plan, Communicator &, const DeviceOptions &) {
          for (const plan::Program &program : plan.programs)
            names += program.name + " ";
          return Result<std::unique_ptr<Device>>(failed("enough"));
        },
        console.console));
    return names;
  };
  EXPECT_EQ(programs(), "first next last update ");
  options.val = scratch / "val.bin";
  EXPECT_EQ(programs(), "first next last update validate ");
  options.calibrate = scratch / "scales.json";
  EXPECT_EQ(programs(), "first next last update validate measure ");
  // What is tuned is kept for samples too.
  options.tune = true;
  EXPECT_EQ(programs(), "first next last update validate generate measure ");
}

TEST_F(TrainerTest, ScalarThatIsNotFinite) {
  plan.scalars[0].value.kind = plan::Expr::Kind::Div;
  plan.scalars[0].value.operands.resize(2);
  plan.scalars[0].value.operands[1] = plan::Expr{plan::Expr::Kind::Variable, 0, "step", {}};
  EXPECT_EQ(failure(1), "scalar 'lr' = 1 / step is not finite at step 0");
}

TEST_F(TrainerTest, ResumedTwiceIsBitEqual) {
  for (int world : {1, 4}) {
    options.world = world;
    options.steps.reset();
    options.log = scratch / "whole.jsonl";
    std::string whole = parameters();
    std::vector<double> wholeLosses = losses();

    std::string saves = scratch / ("saves" + std::to_string(world));
    options.log = scratch / "parts.jsonl";
    options.save = saves;
    options.steps = 3;
    ASSERT_TRUE(run());
    options.start.resume = saves;
    options.start.seed = 99; // not used: the checkpoint's counts
    options.steps = 7;       // crosses from one shard to the next
    ASSERT_TRUE(run());
    EXPECT_CONTAINS(output, "resuming " + saves + " after step 3");
    options.steps.reset();
    EXPECT_TRUE(parameters() == whole) << world;
    EXPECT_EQ(losses(), wholeLosses);
    EXPECT_EQ(events("run").size(), 3u);
    EXPECT_EQ(events("run")[2]["first_step"], 7);
    EXPECT_EQ(events("run")[2]["seed"], 0);
    // And once more, with nothing left to do.
    EXPECT_TRUE(parameters() == whole);
    EXPECT_CONTAINS(output, "nothing to train: 8 steps are done, 8 are asked for");
    options = TrainOptions();
    options.train = scratch / "train_*.bin";
  }
}

TEST_F(TrainerTest, InitialParametersDependOnTheSeedAlone) {
  options.steps = 0;
  std::string one = parameters();
  options.world = 4;
  std::swap(plan.states[0], plan.states[1]);
  auto two = parameters();
  options.start.seed = 1;
  auto other = parameters();
  std::string path = scratch / "p.safetensors";
  auto weight = [&](const std::string &content) {
    test::writeText(path, content);
    auto file = SafetensorsFile::open(path);
    EXPECT_TRUE(file);
    const TensorEntry &entry = file->tensors().at("weight");
    std::string bytes(entry.end - entry.begin, '\0');
    EXPECT_TRUE(file->read(entry, 0, bytes.data(), bytes.size()));
    return bytes;
  };
  EXPECT_EQ(weight(one), weight(two));
  EXPECT_NE(weight(one), weight(other));
}

TEST_F(TrainerTest, InitIsWhatWasDumped) {
  options.steps = 4;
  std::string trained = parameters();
  std::filesystem::rename(scratch / "params.safetensors", scratch / "init.safetensors");
  options.start.init = scratch / "init.safetensors";
  options.steps = 0;
  EXPECT_TRUE(parameters() == trained);
  options.steps = 1;
  EXPECT_FALSE(parameters() == trained);

  plan = makePlan({.vocabSize = 60});
  EXPECT_CONTAINS(failure(2),
                  "init.safetensors: does not fit the plan; different: bias is BF16 [50], "
                  "the plan has BF16 [60], weight is F32 [50], the plan has F32 [60]");
  options.start.init = scratch / "train_0.bin";
  EXPECT_CONTAINS(failure(2), "not a valid safetensors file");
  options.start.resume = scratch.path;
  EXPECT_CONTAINS(failure(2), "--init and --resume exclude each other");
}

/// In a row that no token uses: no loss would show it.
TEST_F(TrainerTest, InitThatIsNotFiniteIsRefused) {
  for (const char *name : {"train_0.bin", "train_1.bin"})
    writeShard(scratch / name, makeTokens(300, 40, 1));
  options.steps = 0;
  const std::string good = parameters();
  options.start.init = scratch / "init.safetensors";
  options.steps = 1;
  auto spoil = [&](const std::string &tensor, size_t byte, const std::string &value) {
    test::writeText(options.start.init, good);
    auto file = SafetensorsFile::open(options.start.init);
    ASSERT_TRUE(file);
    uint64_t header = 0;
    std::memcpy(&header, good.data(), sizeof header);
    const size_t at = sizeof header + header + file->tensors().at(tensor).begin;
    test::writeText(options.start.init, std::string(good).replace(at + byte, value.size(), value));
  };
  const std::string wanted = "; give values that are finite, or --allow-non-finite to start from "
                             "these";
  for (int world : {1, 2}) {
    options.world = world;
    spoil("weight", 4 * 45, {"\xff\xff\xff\x7f", 4});
    EXPECT_EQ(failure(2), options.start.init + ": tensor 'weight' holds NaN at [45]" + wanted);
    spoil("bias", 2 * 49, {"\x80\xff", 2});
    EXPECT_EQ(failure(2), options.start.init + ": tensor 'bias' holds infinity at [49]" + wanted);
  }
  options.start.allowNonFinite = true;
  options.save = scratch / "saves";
  options.world = 1;
  EXPECT_TRUE(run()) << output;
  // What was allowed to be saved is refused again.
  options.start = {};
  options.start.resume = std::exchange(options.save, "");
  EXPECT_EQ(failure(2), scratch / "saves/step-000001/params.safetensors: tensor 'bias' holds "
                                  "infinity at [49]" +
                            wanted);
  options.start.allowNonFinite = true;
  EXPECT_TRUE(run()) << output;
}

TEST_F(TrainerTest, SignalFinishesTheStepAndSaves) {
  for (int number : {SIGINT, SIGTERM})
    for (bool saves : {true, false}) {
      options.world = 2;
      options.log = scratch / "log.jsonl";
      options.save = saves ? scratch / ("saves" + std::to_string(number)) : "";
      onRun = [&](const std::string &program, FakeDevice &device) {
        if (program == "first" && device.updates() == 2 && device.rank() == 1)
          ::raise(number);
      };
      std::string name = number == SIGINT ? "SIGINT" : "SIGTERM";
      EXPECT_EQ(failure(1), "interrupted by " + name + " after step 3 of 8; " +
                                (saves ? "saved " + options.save + "/step-000003"
                                       : "nothing saved, there was no --save"));
      EXPECT_EQ(events("step").size(), 3u);
      EXPECT_CONTAINS(events("end")[0]["reason"].get<std::string>(), "interrupted by " + name);
    }
  // What was saved goes on as if nothing had happened.
  onRun = {};
  options.log = scratch / "resumed.jsonl";
  options.save.clear();
  options.start.resume = scratch / ("saves" + std::to_string(SIGTERM));
  std::string resumed = parameters();
  options.start.resume.clear();
  EXPECT_TRUE(parameters() == resumed);
}

TEST_F(TrainerTest, SignalDuringValidation) {
  options.val = scratch / "val.bin";
  options.valEvery = 2;
  options.save = scratch / "saves";
  options.log = scratch / "log.jsonl";
  int validations = 0;
  onRun = [&](const std::string &program, FakeDevice &) {
    if (program == "validate" && ++validations == 2)
      ::raise(SIGINT);
  };
  EXPECT_CONTAINS(failure(1), "interrupted by SIGINT after step 2 of 8; saved");
  EXPECT_EQ(validations, 2);
  EXPECT_EQ(events("val").size(), 0u);
  EXPECT_TRUE(std::filesystem::exists(scratch / "saves/step-000002/manifest.json"));
}

TEST_F(TrainerTest, SignalInTheLastStepIsTooLate) {
  onRun = [&](const std::string &program, FakeDevice &device) {
    if (program == "update" && device.updates() == 7)
      ::raise(SIGINT);
  };
  EXPECT_TRUE(run());
}

TEST_F(TrainerTest, Saves) {
  options.save = scratch / "saves";
  options.saveEvery = 3;
  ASSERT_TRUE(run());
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(options.save))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"step-000003", "step-000006", "step-000008"}));
  auto checkpoint = openCheckpoint(options.save + "/step-000006");
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->manifest.shard, 1u);
  EXPECT_EQ(checkpoint->manifest.shardFile, "train_1.bin");
  EXPECT_EQ(checkpoint->manifest.position, 128u);
  EXPECT_EQ(checkpoint->manifest.planHash, plan::planHash(plan));
}

/// A folder with checkpoints of two runs, as older versions left it: one of them goes on, the other
/// is named and stays as it is.
TEST_F(TrainerTest, RunsAreNotMixed) {
  const std::string saves = scratch / "saves";
  options.save = saves;
  options.steps = 3;
  ASSERT_TRUE(run());
  ASSERT_TRUE(run()); // the same run again
  EXPECT_CONTAINS(output, saves + " holds step-000003 of this very run");
  options.start.seed = 1;
  options.steps = 2;
  EXPECT_CONTAINS(failure(2), "--save " + saves + ": holds step-000003 of another run (bigram, ");
  EXPECT_TRUE(openCheckpoint(saves + "/step-000003"));
  options.save = scratch / "other";
  ASSERT_TRUE(run());
  EXPECT_EQ(output.find("of other runs"), std::string::npos);
  std::filesystem::rename(options.save + "/step-000002", saves + "/step-000002");

  options.save.clear();
  options.steps = 4;
  options.start = {};
  options.start.resume = saves;
  ASSERT_TRUE(run());
  EXPECT_CONTAINS(output, "of other runs and left alone: step-000002");
  EXPECT_CONTAINS(output, "after step 3");
  options.save = saves;
  EXPECT_CONTAINS(failure(2), "--save " + saves + ": holds step-000002 of another run (bigram, ");
  options.setAside = true;
  ASSERT_TRUE(run()) << output;
  EXPECT_CONTAINS(output, "moved step-000002 of another run");
  EXPECT_EQ(test::namesIn(saves),
            (std::vector<std::string>{"set-aside-1", "step-000003", "step-000004"}));
  EXPECT_EQ(test::namesIn(saves + "/set-aside-1"), std::vector<std::string>{"step-000002"});
  options.setAside = false;

  // With another plan from step 3 on: step 4 of the first is not part of that.
  options.start.resume = saves + "/step-000003";
  plan = makePlan({.numIterations = 9});
  options.steps = 5;
  EXPECT_CONTAINS(failure(2), "--save " + saves + ": holds step-000004 of another run (bigram, ");
  options.start.resume = saves;
  ASSERT_TRUE(run()) << output;
  options.steps = 6;
  ASSERT_TRUE(run()) << output;
  EXPECT_EQ(output.find("of other runs"), std::string::npos);
  auto checkpoint = openCheckpoint(saves + "/step-000006");
  ASSERT_TRUE(checkpoint);
  ASSERT_EQ(checkpoint->manifest.run.from.size(), 1u);
  EXPECT_EQ(checkpoint->manifest.run.from[0].second, 4);
  EXPECT_EQ(test::namesIn(saves),
            (std::vector<std::string>{"set-aside-1", "step-000003", "step-000004", "step-000005",
                                      "step-000006"}));
}

TEST_F(TrainerTest, LossThatIsNotFiniteStops) {
  plan = makePlan({}, {{"fake_nan_step", "6", true}});
  for (int world : {1, 2}) {
    options.world = world;
    options.save = scratch / "saves";
    options.saveEvery = 1;
    options.log = scratch / "log.jsonl";
    EXPECT_EQ(
        failure(1),
        "the loss is nan at step 6 (sequence 0 of the batch, rank 0), stopped before the "
        "update; run again with checks, it appeared in no buffer; the state before it is in " +
            options.save + "/step-000005");
    EXPECT_EQ(events("step").size(), 5u);
    EXPECT_EQ(events("end")[0]["step"], 5);
    EXPECT_TRUE(openCheckpoint(options.save + "/step-000005"));
    EXPECT_FALSE(std::filesystem::exists(options.save + "/step-000006"));
  }
}

/// The state before the step is saved, goes on where that step's batch begins, and the buffer is
/// named with the command that wrote it.
TEST_F(TrainerTest, LossThatIsNotFiniteIsSavedAndFound) {
  auto make = [](const char *nanStep) {
    plan::Plan made = makePlan({}, {{"fake_nan_step", nanStep, true}});
    const plan::Ref loss = {made.training.lossBuffer, 0, true, false};
    const plan::Command all = {
        plan::Fill{plan::DType::F32, loss, 1}, 0, "all of it", {"bigram.cpp", 3}};
    for (size_t program : {0, 1}) // first, next
      made.programs[program].commands = {all};
    return made;
  };
  plan = make("0");
  std::string whole = parameters();
  plan = make("6");
  for (int world : {1, 2}) {
    options.world = world;
    options.save = scratch / ("saves" + std::to_string(world));
    EXPECT_EQ(failure(1),
              "the loss is nan at step 6 (sequence 0 of the batch, rank 0), stopped before the "
              "update; first in buffer 'loss' (bigram.cpp:1), element 0 = nan, written by program "
              "'first', command 0 'all of it' (bigram.cpp:3); saved the state before it, " +
                  options.save + "/step-000005");
  }
  plan = make("0");
  options.world = 1;
  options.start.resume = scratch / "saves1";
  EXPECT_EQ(parameters(), whole);
  options.start.resume.clear();
  options.save.clear();
  plan = make("6");
  EXPECT_CONTAINS(failure(1), "(bigram.cpp:3); nothing saved, there was no --save");
}

TEST_F(TrainerTest, FailureOfOneRankEndsAll) {
  plan = makePlan({}, {{"fake_fail_step", "3", true}, {"fake_fail_rank", "2", true}});
  options.world = 4;
  EXPECT_EQ(failure(1), "step 3: fake failure");
}

TEST_F(TrainerTest, ExceptionOfADeviceIsAnError) {
  options.world = 2;
  onRun = [](const std::string &program, FakeDevice &device) {
    if (program == "update" && device.rank() == 1)
      throw std::bad_alloc();
  };
  EXPECT_EQ(failure(1), "rank 1: out of memory");
}

TEST_F(TrainerTest, WrongOptions) {
  options.world = 3;
  EXPECT_EQ(failure(2), "the plan was compiled for 1, 2, 4 ranks, not for 3; choose one of them "
                        "with --gpus or compile it with --world 3");
  options.world = 1;
  options.saveEvery = 1;
  EXPECT_EQ(failure(2), "--save-every: needs --save DIR");
  options.saveEvery = 0;
  options.valEvery = 1;
  EXPECT_EQ(failure(2), "--val-every: needs --val 'GLOB'");
  options.valEvery = 0;
  options.val = scratch / "val.bin";
  options.valTokens = 31;
  EXPECT_EQ(failure(2), "--val-tokens 31: less than one validation sequence of 32 tokens");
  options.valTokens = 32;
  writeShard(scratch / "short.bin", makeTokens(32, 50, 1));
  options.val = scratch / "short.bin";
  EXPECT_CONTAINS(failure(2), "fewer tokens than one validation sequence: no shard has 33");
  options.val.clear();
  options.train = scratch / "short.bin";
  EXPECT_CONTAINS(failure(2), "short.bin: fewer tokens than one global batch");
  options.train.clear();
  EXPECT_CONTAINS(failure(2), "--train is missing");
  options.train = scratch / "train_*.bin";
  options.save = scratch / "val.bin";
  EXPECT_CONTAINS(failure(2), "--save " + (scratch / "val.bin"));
  options.save.clear();
  options.dumpParams = scratch / "no/params.safetensors";
  EXPECT_CONTAINS(failure(2),
                  "--dump-params " + (scratch / "no/params.safetensors") + ": cannot be created");
  options.dumpParams = scratch.path;
  EXPECT_CONTAINS(failure(2), "is a directory; give the name of a file");
  options.dumpParams.clear();
  plan.training.validate.clear();
  options.val = scratch / "val.bin";
  EXPECT_EQ(failure(2), "--val: the plan has no validation program");
  options.val.clear();
  plan.training.phases.clear();
  EXPECT_CONTAINS(failure(2), "the plan has no training programs");
}

TEST_F(TrainerTest, TokenOutsideTheVocabulary) {
  options.world = 4;
  tokens[0][200] = 50; // sequence 12, step 4
  writeShard(scratch / "train_0.bin", tokens[0]);
  options.log = scratch / "log.jsonl";
  EXPECT_CONTAINS(failure(2),
                  "train_0.bin: token 50 at position 200 is outside the plan's vocabulary of 50");
  EXPECT_EQ(events("step").size(), 3u);
}

/// 32-bit shards train the same run; a vocabulary that 16-bit ones cannot hold is said.
TEST_F(TrainerTest, WideTokens) {
  options.dumpParams = scratch / "a.safetensors";
  ASSERT_TRUE(run());
  const std::string narrow = readText(options.dumpParams);
  EXPECT_EQ(output.find("32-bit"), std::string::npos);
  for (size_t i = 0; i < tokens.size(); ++i)
    writeWideShard(scratch / fmt::format("train_{}.bin", i), {tokens[i].begin(), tokens[i].end()});
  ASSERT_TRUE(run());
  EXPECT_EQ(readText(options.dumpParams), narrow);
  plan = makePlan({.vocabSize = 65537});
  ASSERT_TRUE(run());
  EXPECT_EQ(output.find("32-bit"), std::string::npos);
  for (size_t i = 0; i < tokens.size(); ++i)
    writeShard(scratch / fmt::format("train_{}.bin", i), tokens[i]);
  ASSERT_TRUE(run());
  EXPECT_CONTAINS(output, "the vocabulary of 65537 needs 32-bit tokens, and these have 16 bits: "
                          "none from 65536 on is among them");
}

TEST_F(TrainerTest, ResumeWithOtherShardsOrRanks) {
  options.save = scratch / "saves";
  options.steps = 5; // stops in train_1.bin
  ASSERT_TRUE(run());
  options.save.clear();
  options.steps = 6;
  options.start.resume = scratch / "saves";
  options.world = 2;
  ASSERT_TRUE(run());
  EXPECT_CONTAINS(output, "the checkpoint was made with --gpus 1, this is --gpus 2");
  options.train = scratch / "train_1.bin";
  EXPECT_CONTAINS(
      failure(2),
      "the checkpoint goes on in shard 1 with the name train_1.bin, which is not there");
  options.train = scratch / "*.bin";
  writeShard(scratch / "a.bin", tokens[0]);
  EXPECT_CONTAINS(failure(2), "the checkpoint goes on in shard 1");
  plan = makePlan({.vocabSize = 60});
  EXPECT_CONTAINS(failure(2), "was made by another plan");
}

TEST_F(TrainerTest, ValidationAlone) {
  options.train.clear();
  options.steps = 0;
  options.val = scratch / "val.bin";
  options.valTokens = 64;
  options.log = scratch / "log.jsonl";
  ASSERT_TRUE(run());
  auto vals = events("val");
  ASSERT_EQ(vals.size(), 1u);
  EXPECT_EQ(vals[0]["step"], 0);
  EXPECT_EQ(vals[0]["val_tokens"], 64);
  PlainModel model(0);
  EXPECT_NEAR(vals[0]["val_loss"], model.loss(valTokens, 0, 64, nullptr) / 64, 1e-6);
}

} // namespace
} // namespace nano
