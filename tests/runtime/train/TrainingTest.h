// Tests that train a plan on FakeDevices share the run and the reading of its log.
#pragma once

#include "runtime/Trainer.h"
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/train/FakeDevice.h"
#include "tests/runtime/train/TestSupport.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace nano::test {

/// A plan, options, and a directory for the files of its runs.
class TrainingTest : public testing::Test {
protected:
  /// Trains the plan, which must be valid; what the console got is then in `output`.
  Status run() {
    EXPECT_TRUE(plan::validate(plan)) << plan::validate(plan).error().message;
    CapturedConsole captured;
    Status status = train(
        plan, plan::planHash(plan), options,
        [&](const plan::Plan &plan, Communicator &communicator,
            const DeviceOptions &deviceOptions) -> Result<std::unique_ptr<Device>> {
          return std::unique_ptr<Device>(new FakeDevice(plan, communicator, onRun, deviceOptions));
        },
        captured.console);
    output = captured.text();
    return status;
  }
  /// The log's entries of one kind.
  std::vector<nlohmann::json> events(const std::string &event) {
    std::vector<nlohmann::json> found;
    for (const std::string &line : linesOf(readText(options.log)))
      if (auto json = nlohmann::json::parse(line); json["event"] == event)
        found.push_back(json);
    return found;
  }

  ScratchDirectory scratch;
  plan::Plan plan = makePlan();
  TrainOptions options;
  FakeDevice::OnRun onRun; ///< called before each program of each rank
  std::string output;
};

} // namespace nano::test
