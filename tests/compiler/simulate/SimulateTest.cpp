// What nanoc simulate says of plans that no model file gives.
#include "compiler/simulate/Simulate.h"
#include "runtime/plan/PlanFile.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace nano;

namespace {

TEST(Simulate, APlanWithoutTraining) {
  plan::Plan plan;
  plan.model = "still";
  plan.target = "cuda";
  plan.worlds = {1};
  plan.arenaBytes = 256;
  plan.buffers.push_back({"scalars", 0, 256, plan::DType::F32, {64}, {}});
  const std::string path = testing::TempDir() + "nano-simulate-still.plan";
  Status written = plan::writePlanFile(plan, path);
  ASSERT_TRUE(bool(written)) << written.error().message;
  simulate::Options options;
  options.plan = path;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = simulate::run(options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "nanoc: " + path + ": the plan has no training step\n");
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 2);
  std::filesystem::remove(path);
}

} // namespace
