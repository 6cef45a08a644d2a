// What a run tells about FP8 products: when they are measured, the log, the table, static scales.
#include "runtime/Fp8Report.h"

#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TrainingTest.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace nano {
namespace {

using nlohmann::json;
using test::FakeDevice;
using test::makeTokens;
using test::readText;
using test::writeShard;

/// Runs of a plan whose parameter "weight" has products in FP8. FakeDevice reports
/// n·(r + 1)·(i + 1)/1024 in column i at the n-th measurement on rank r.
class Fp8ReportTest : public test::TrainingTest {
protected:
  Fp8ReportTest() {
    writeShard(scratch / "train.bin", makeTokens(2000, 50, 1));
    writeShard(scratch / "val.bin", makeTokens(150, 50, 2));
    options.train = scratch / "train.bin";
    options.log = scratch / "log.jsonl";
    options.steps = 5;
    plan.programs.push_back({"measure", {}, 1, 0});
    plan.training.measure = "measure";
    plan.training.reportBuffer = uint32_t(plan.buffers.size());
    plan.training.scaledWeights = {{"weight", "delayed"}};
    const uint64_t bytes = sizeof(float) * uint64_t(plan::reportColumns);
    plan.buffers.push_back(
        {"report", plan.arenaBytes, bytes, plan::DType::F32, {1, plan::reportColumns}, {}});
    plan.arenaBytes += 256;
    onRun = [this](const std::string &program, FakeDevice &device) {
      if (device.rank() == 0)
        programs.push_back(program);
    };
  }

  std::vector<std::string> programs;
};

TEST_F(Fp8ReportTest, MeasuresTheFirstStepTheLastAndThoseWithValidation) {
  options.fp8Report = true;
  options.val = scratch / "val.bin";
  options.valTokens = 32;
  options.valEvery = 3;
  ASSERT_TRUE(run()) << output;
  std::vector<json> found = events("fp8");
  ASSERT_EQ(found.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t steps[] = {1, 3, 5};
    EXPECT_EQ(found[i]["step"], steps[i]);
    const json &product = found[i]["products"].at(0);
    EXPECT_EQ(product["product"], "weight");
    EXPECT_EQ(product["recipe"], "delayed");
    const double unit = double(i + 1) / 1024;
    double column = 0;
    for (const char *tensor : {"input", "weight", "gradient"})
      for (const char *number : {"amax", "scale", "saturated", "flushed"})
        EXPECT_EQ(product[tensor][number], ++column * unit) << tensor << " " << number;
    for (const char *part : {"forward", "input_gradient", "weight_gradient"})
      EXPECT_EQ(product["error"][part], ++column * unit) << part;
  }
  // On the first micro-batch, before it is trained on.
  EXPECT_EQ(programs[0], "measure");
  EXPECT_EQ(programs[1], "first");
  EXPECT_EQ(std::count(programs.begin(), programs.end(), "measure"), 3);
  // The last one is shown.
  EXPECT_CONTAINS(output, "FP8 in the first micro-batch of step 5:");
  EXPECT_CONTAINS(output, "0.00293    0.005859");
  EXPECT_EQ(output.find("step 3:"), std::string::npos);
}

// Of all ranks the largest magnitudes and scales, the mean of the shares, the root of the mean of
// the errors' squares.
TEST_F(Fp8ReportTest, AllRanksMeasure) {
  options.fp8Report = true;
  options.world = 2;
  options.calibrate = scratch / "scales.json";
  ASSERT_TRUE(run()) << output;
  std::vector<json> found = events("fp8");
  ASSERT_EQ(found.size(), 2u);
  const json &product = found[0]["products"].at(0);
  double column = 0;
  for (const char *tensor : {"input", "weight", "gradient"}) {
    for (const char *number : {"amax", "scale"})
      EXPECT_EQ(product[tensor][number], 2 * ++column / 1024) << tensor << " " << number;
    for (const char *number : {"saturated", "flushed"})
      EXPECT_EQ(product[tensor][number], 1.5 * ++column / 1024) << tensor << " " << number;
  }
  // Three operations in f32, each rounded by at most 2⁻²⁴ of its result.
  for (const char *part : {"forward", "input_gradient", "weight_gradient"}) {
    const double wanted = std::sqrt(2.5) * ++column / 1024;
    EXPECT_NEAR(product["error"][part].get<double>(), wanted, 3e-7 * wanted) << part;
  }
  EXPECT_CONTAINS(output, "FP8 in the first micro-batches of step 5, of 2 ranks:");
  // The second rank's ninth number at the fifth measurement.
  EXPECT_EQ(json::parse(readText(options.calibrate))["scales"]["weight"]["gradient"],
            2 * 2 * 45.0 / 1024 / 57344);
}

TEST_F(Fp8ReportTest, NothingIsMeasuredUnasked) {
  ASSERT_TRUE(run()) << output;
  EXPECT_EQ(events("fp8").size(), 0u);
  EXPECT_EQ(std::count(programs.begin(), programs.end(), "measure"), 0);
}

TEST_F(Fp8ReportTest, CalibrationTakesTheLargestOfAllSteps) {
  options.calibrate = scratch / "scales.json";
  ASSERT_TRUE(run()) << output;
  EXPECT_EQ(std::count(programs.begin(), programs.end(), "measure"), 5);
  EXPECT_EQ(events("fp8").size(), 0u);
  json file = json::parse(readText(options.calibrate));
  EXPECT_EQ(file["format"], "nano fp8 scales");
  EXPECT_EQ(file["version"], 1);
  ASSERT_EQ(file["scales"].size(), 1u);
  const json &scales = file["scales"]["weight"];
  // Columns 0, 4 and 8 at the fifth measurement, twice that over the formats' largest numbers.
  EXPECT_EQ(scales["input"], 2 * 5.0 / 1024 / 448);
  EXPECT_EQ(scales["weight"], 2 * 25.0 / 1024 / 448);
  EXPECT_EQ(scales["gradient"], 2 * 45.0 / 1024 / 57344);
}

/// Products that see nothing but zeros: shown as they are, and no scale can be made of them.
TEST_F(Fp8ReportTest, NothingButZeros) {
  plan.hyperparameters.push_back({"fake_report_zero", "1", true});
  options.fp8Report = true;
  ASSERT_TRUE(run()) << output;
  EXPECT_EQ(events("fp8").at(0)["products"].at(0)["input"]["amax"], 0);
  EXPECT_CONTAINS(output, "weight  delayed   input              0                0.000%    0.000%");
  options.calibrate = scratch / "scales.json";
  Status status = run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_EQ(status.error().message, "--calibrate: the input of the products with 'weight' was zero "
                                    "in every measured step; train more steps");
  EXPECT_FALSE(std::filesystem::exists(options.calibrate));
}

TEST_F(Fp8ReportTest, Refusals) {
  auto message = [&](int exitStatus) {
    Status status = run();
    EXPECT_FALSE(status);
    EXPECT_EQ(status ? 0 : status.error().exitStatus(), exitStatus);
    return status ? "" : status.error().message;
  };
  options.calibrate = scratch / "no/scales.json";
  EXPECT_CONTAINS(message(2), "--calibrate " + options.calibrate);
  options.calibrate = scratch / "scales.json";
  options.steps = 0;
  EXPECT_EQ(message(2), "--calibrate: there is no step to measure; ask for more --steps");
  options.fp8Report = true;
  EXPECT_EQ(message(2), "--fp8-report: there is no step to measure; ask for more --steps");
  options.steps = 1;
  plan.training.measure = "";
  EXPECT_EQ(message(2), "--fp8-report: no matrix product of the plan runs in FP8; compile it with "
                        "-D fp8=head|mlp|all or -D fp8.<parameter>=current");
  options.fp8Report = false;
  EXPECT_CONTAINS(message(2), "--calibrate: no matrix product of the plan runs in FP8");
  EXPECT_FALSE(std::filesystem::exists(options.calibrate));
}

} // namespace
} // namespace nano
