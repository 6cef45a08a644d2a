// --tune on the fake driver beside a board whose draw depends on what runs: what is chosen by
// joules, what by time, and what is kept.
#include "tests/runtime/Expect.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/FakeCuda.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace nano::cuda {
namespace {

using test::FakeCuda;
using test::productCases;
using test::productPlan;
using test::smallPlan;
using test::TemporaryFolder;

class TuningTest : public testing::Test {
protected:
  /// NVML of a board that draws `drawn` watts at any moment, by whatever ran last; its counter
  /// moves every 20 ms, by what was drawn on average. Its clock goes on by a millisecond whenever
  /// somebody looks, so that nothing depends on what else the machine does.
  struct Board {
    static inline std::function<double()> drawn;
    static inline double limit = 700, joules = 0, told = 0, seen = 0, moved = 0, time = 0;
    static double now() { return time += 1e-3; }
    static NvmlApi api() {
      joules = told = time = 0;
      seen = moved = now();
      return {[] { return nvml::success; },
              [](nvml::Outcome) { return "?"; },
              [](const char *, nvml::Device *) { return nvml::success; },
              [](nvml::Device, unsigned long long *value) {
                const double at = now();
                joules += drawn() * (at - std::exchange(seen, at));
                if (at >= moved + 0.02) {
                  told = joules;
                  moved = at;
                }
                *value = 1'000'000 + static_cast<unsigned long long>(1e3 * told);
                return nvml::success;
              },
              [](nvml::Device, unsigned *milliwatts) {
                *milliwatts = unsigned(1e3 * limit);
                return nvml::success;
              },
              now};
    }
  };

  TuningTest() {
    fake.parameterBytes = {{"scale", 8 + 1 * 5 * 8}, {"add", 8 + 4 * 4 * 8}};
    fake.onLaunch = [](const FakeCuda::Launch &launch) {
      test::runSmallKernel(launch.kernel == "scale_otherwise" ? "scale" : launch.kernel,
                           launch.parameter);
    };
    options.report = [this](const std::string &line) { reported.push_back(line); };
    options.tuneFile = cache.path + "/p.plan.tune.json";
    options.tune = true;
  }

  std::unique_ptr<CudaDevice> make(const plan::Plan &plan) {
    Apis apis = fake.apis();
    apis.nvml = &board;
    auto device = CudaDevice::create(plan, group.communicator(0), options, apis, cache.path);
    EXPECT_TRUE(device) << device.error().message;
    return device ? std::move(*device) : nullptr;
  }
  nlohmann::json kept() const { return nlohmann::json::parse(std::ifstream(options.tuneFile)); }
  /// The line that begins so; empty without one.
  std::string line(const std::string &begin) const {
    for (const std::string &each : reported)
      if (each.starts_with(begin))
        return each;
    return "";
  }

  TemporaryFolder cache;
  FakeCuda fake;
  LocalGroup group{1};
  DeviceOptions options;
  NvmlApi board = Board::api();
  std::vector<std::string> reported;
};

/// Watts of a board that the algorithm which ran last drives to its limit, all but the third.
double drawnByAlgorithm(const FakeCuda &fake, double limit, double saving) {
  return !fake.algorithms.empty() && fake.algorithms.back() == 2 ? saving : limit;
}

TEST_F(TuningTest, AtThePowerLimitTheFewestJoulesAreChosen) {
  Board::drawn = [&] { return drawnByAlgorithm(fake, 700, 100); };
  fake.elapsed = 60; // all algorithms take 20 ms by the clock
  const plan::Plan plan = productPlan({productCases()[0]});
  ASSERT_TRUE(make(plan));
  EXPECT_CONTAINS(line("the products draw"), " W, the limit is 700 W: fewest joules are chosen");
  EXPECT_CONTAINS(line("tuned 48x32x64"), ": algorithm 3 of 4 by joules, ");
  EXPECT_CONTAINS(line("tuned 48x32x64"), " mJ (the first: ");
  EXPECT_CONTAINS(line("tuned 48x32x64"), "; 2: ");
  const nlohmann::json json = kept();
  const nlohmann::json &choice = *json["machines"]["Fake GPU, cuBLASLt 13.0.2"].begin();
  EXPECT_EQ(choice["chosen"], 2);
  EXPECT_EQ(choice["limit_w"], 700);
  EXPECT_LT(choice["mj"], choice["first_mj"]);
  ASSERT_EQ(choice["held"].size(), 3U);
  // Joules of a run are those watts for its time, to within one look at the clock of each of the
  // two moves of the counter that they are counted between.
  for (const auto &each : choice["held"]) {
    const double watts = each["chosen"] == 2 ? 100 : 700;
    EXPECT_NEAR(1e3 * double(each["mj"]) / double(each["us"]), watts, 0.01 * watts);
  }

  const std::string described = Tuning::describe(options.tuneFile);
  EXPECT_CONTAINS(described, "chosen by --tune on Fake GPU, cuBLASLt 13.0.2\n  48x32x64 ");
  EXPECT_CONTAINS(described, ": algorithm 3 of 4 by joules, ");
  EXPECT_CONTAINS(described, "; algorithm 2: ");
  EXPECT_EQ(Tuning::describe(cache.path + "/none"), "");

  // Kept and taken again, without a word.
  options.tune = false;
  reported.clear();
  auto device = make(plan);
  ASSERT_TRUE(device);
  fake.algorithms.clear();
  test::checkProducts(*device, plan);
  EXPECT_EQ(fake.algorithms, std::vector<int>(fake.algorithms.size(), 2));
  EXPECT_FALSE(fake.algorithms.empty());
  EXPECT_TRUE(reported.empty());
  // Joules that no measurement gives.
  for (const char *key : {"mj", "first_mj", "limit_w", "held"}) {
    nlohmann::json wrong = json;
    (*wrong["machines"]["Fake GPU, cuBLASLt 13.0.2"].begin())[key] = -1;
    std::ofstream(options.tuneFile) << wrong;
    reported.clear();
    ASSERT_TRUE(make(plan)) << key;
    ASSERT_EQ(reported.size(), 1U) << key;
    EXPECT_CONTAINS(reported[0], "what is wrong in it is left aside");
  }
  // A file from before joules were counted.
  nlohmann::json old = json;
  for (const char *key : {"mj", "first_mj", "limit_w", "held"})
    old["machines"]["Fake GPU, cuBLASLt 13.0.2"].begin()->erase(key);
  std::ofstream(options.tuneFile) << old;
  reported.clear();
  ASSERT_TRUE(make(plan));
  EXPECT_TRUE(reported.empty());
}

TEST_F(TuningTest, BelowThePowerLimitTheFastestAreChosen) {
  Board::drawn = [&] { return drawnByAlgorithm(fake, 200, 100); };
  fake.elapsed = 60;
  const plan::Plan plan = productPlan({productCases()[0]});
  ASSERT_TRUE(make(plan));
  EXPECT_CONTAINS(line("the products draw"),
                  " W, the limit is not reached: the fastest are chosen");
  EXPECT_CONTAINS(line("tuned 48x32x64"), " mJ (the first: ");
  EXPECT_EQ(line("tuned 48x32x64").find("by joules"), std::string::npos);
  EXPECT_FALSE(kept()["machines"]["Fake GPU, cuBLASLt 13.0.2"].begin()->contains("limit_w"));
}

TEST_F(TuningTest, VariationsOfWhatIsProposedAreMeasuredToo) {
  fake.option = 7;
  fake.candidates = 1;
  Board::drawn = [&] {
    return !fake.algorithms.empty() && fake.algorithms.back() >= 700 ? 90 : 700;
  };
  fake.elapsed = 60;
  const plan::Plan plan = productPlan({productCases()[0]});
  ASSERT_TRUE(make(plan));
  EXPECT_CONTAINS(line("tuned 48x32x64"), ": algorithm 2 of 2 by joules, ");
  EXPECT_EQ(kept()["machines"]["Fake GPU, cuBLASLt 13.0.2"].begin()->at("chosen"), 1);
  // It is what later runs take.
  options.tune = false;
  auto device = make(plan);
  ASSERT_TRUE(device);
  fake.algorithms.clear();
  test::checkProducts(*device, plan);
  EXPECT_EQ(fake.algorithms, std::vector<int>(fake.algorithms.size(), 700));
  EXPECT_FALSE(fake.algorithms.empty());
}

TEST_F(TuningTest, ProductsThatLeaveTheBoardIdleAreNotHeld) {
  Board::drawn = [] { return 700.0; };
  fake.elapsed = 0.006F;
  ASSERT_TRUE(make(productPlan({productCases()[0]})));
  EXPECT_EQ(line("the products draw"), "");
  EXPECT_EQ(line("tuned 48x32x64").find(" mJ"), std::string::npos);
}

TEST_F(TuningTest, CandidatesAreChosenByJoules) {
  plan::Plan plan = smallPlan(1000);
  plan.kernels.push_back(plan.kernels[0]);
  plan.kernels.back().name = "scale_otherwise";
  plan.sources.push_back({"scale_otherwise.cu", plan.sources[1].text});
  std::string &text = plan.sources.back().text;
  text.replace(text.find(" scale("), 7, " scale_otherwise(");
  plan.kernels.back().source = plan.sources.back().name;
  fake.parameterBytes["scale_otherwise"] = fake.parameterBytes["scale"];
  for (plan::Command &command : plan.programs[0].commands)
    if (const auto *launch = command.as<plan::Launch>(); launch && launch->kernel == 0) {
      command.candidates = {*launch};
      command.candidates[0].kernel = 2;
    }
  ASSERT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
  Board::drawn = [&] {
    return !fake.launches.empty() && fake.launches.back().kernel == "scale_otherwise" ? 100 : 690;
  };
  fake.elapsed = 1;
  auto device = make(plan);
  ASSERT_TRUE(device);
  ASSERT_TRUE(device->prepareAhead({"main"})); // which is measured on its data, so not yet
  test::checkSmallPlan(*device, 1000, 2);
  EXPECT_CONTAINS(line("tuned scale: scale_otherwise by joules, "), " mJ (scale ");
  const nlohmann::json choice = kept()["kernels"]["Fake GPU"]["scale | scale_otherwise"];
  EXPECT_EQ(choice["chosen"], "scale_otherwise");
  EXPECT_EQ(choice["limit_w"], 700);
  EXPECT_LT(choice["mj"]["scale_otherwise"], choice["mj"]["scale"]);
  EXPECT_GT(choice["us"]["scale"], 0);
  EXPECT_CONTAINS(Tuning::describe(options.tuneFile), "  scale_otherwise by joules, ");
}

TEST_F(TuningTest, CommandsCostWhatTheBoardDraws) {
  options.tune = false;
  Board::drawn = [] { return 500.0; };
  fake.elapsed = 1;
  const plan::Plan plan = smallPlan(1000);
  auto device = make(plan);
  ASSERT_TRUE(device);
  test::checkSmallPlan(*device, 1000, 1);
  EXPECT_EQ(device->whyNoCosts(), "");
  Result<std::vector<CommandCost>> costs = device->costs({"main"});
  ASSERT_TRUE(costs) << costs.error().message;
  const std::vector<plan::Command> &commands = plan.programs[0].commands;
  // Events wait for others and cost nothing alone.
  EXPECT_EQ(costs->size(), size_t(std::count_if(commands.begin(), commands.end(), [](auto &each) {
              return each.template is<plan::Launch>() || each.template is<plan::Fill>() ||
                     each.template is<plan::Copy>();
            })));
  ASSERT_FALSE(costs->empty());
  const auto updates = [](const CommandCost &each) {
    const auto *launch = each.command->as<plan::Launch>();
    return launch && launch->kernel == 1;
  };
  for (const CommandCost &each : *costs) {
    EXPECT_GE(each.seconds, 0);
    if (!updates(each)) // else copies that put back what it updates are subtracted
      EXPECT_NEAR(each.joules / each.seconds, 500, 5);
  }
  // What a command updates is as it was, however often it has run.
  EXPECT_TRUE(std::any_of(costs->begin(), costs->end(), updates));
  auto refused = device->costs({"none"});
  ASSERT_FALSE(refused);
  EXPECT_CONTAINS(refused.error().message, "the plan has no program 'none'");
}

} // namespace
} // namespace nano::cuda
