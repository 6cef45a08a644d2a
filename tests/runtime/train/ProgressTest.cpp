// The lines that people and programs read.
#include "runtime/Progress.h"

#include "runtime/Log.h"
#include "tests/runtime/train/TestSupport.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace nano {
namespace {

using test::CapturedConsole;
using test::linesOf;
using test::ScratchDirectory;

TEST(Progress, Numbers) {
  EXPECT_EQ(countText(0), "0");
  EXPECT_EQ(countText(950), "950");
  EXPECT_EQ(countText(999.6), "1.00k");
  EXPECT_EQ(countText(53149), "53.1k");
  EXPECT_EQ(countText(531490), "531k");
  EXPECT_EQ(countText(1.214e6), "1.21M");
  EXPECT_EQ(countText(2.5e12), "2500G");
  EXPECT_EQ(durationText(4.23), "4.2s");
  EXPECT_EQ(durationText(185), "3m05s");
  EXPECT_EQ(durationText(7629), "2h07m");
  EXPECT_EQ(durationText(-1), "0.0s");
}

StepFacts factsOf(int64_t step, double loss, double milliseconds) {
  return {step, loss, milliseconds, 1000, 0.05, 1000 * step, 1000 * (100 - step)};
}

TEST(Progress, LineSaysEverything) {
  CapturedConsole captured;
  Progress progress(captured.console, 100);
  progress.step(factsOf(1, 9, 5000)); // slow, and left out of what follows
  for (int64_t step = 2; step <= 11; ++step)
    progress.step(factsOf(step, 5 - 0.01 * double(step), 200));
  EXPECT_EQ(progress.line(factsOf(11, 4.89, 200)),
            "step 11/100 17.8s left  loss 4.8900 (-0.0900/9)  lr 0.05  200 ms  5.00k tok/s");
}

TEST(Progress, AStageHasItsOwnPace) {
  CapturedConsole captured;
  Progress progress(captured.console, 20);
  for (int64_t step = 1; step <= 10; ++step)
    progress.step({step, 5, 100, 1000, 0.05, 1000 * step, 1000 * (10 - step) + 20000, "short"});
  const StepFacts later{11, 4, 400, 2000, 0.05, 12000, 18000, "long"};
  progress.step(later);
  EXPECT_EQ(progress.line(later),
            "step 11/20 3.6s left  loss 4.0000 (+0.0000/0)  lr 0.05  400 ms  5.00k tok/s");
}

TEST(Progress, PlainLinesAreFew) {
  CapturedConsole captured;
  Progress progress(captured.console, 50);
  for (int64_t step = 1; step <= 50; ++step)
    progress.step(factsOf(step, 5, 1));
  std::vector<std::string> lines = linesOf(captured.text());
  ASSERT_EQ(lines.size(), 2u); // the first and the last; less than a second has passed
  EXPECT_EQ(lines[0].rfind("step 1/50 ", 0), 0u);
  EXPECT_EQ(lines[1].rfind("step 50/50", 0), 0u);
  EXPECT_NE(lines[1].find("done"), std::string::npos);
}

TEST(Progress, LiveLineIsRenewedAndOtherLinesGoAbove) {
  CapturedConsole captured(/*live=*/true);
  Progress progress(captured.console, 3);
  progress.step(factsOf(1, 5, 1));
  captured.console.say("a note");
  progress.step(factsOf(3, 5, 1));
  std::string text = captured.text();
  EXPECT_EQ(text.rfind("\r\033[Kstep 1/3", 0), 0u) << text;
  EXPECT_NE(text.find("\r\033[Ka note\nstep 3/3"), std::string::npos) << text;
  EXPECT_EQ(text.back(), '\n');
  for (const std::string &line : linesOf(text))
    EXPECT_LE(line.size(), 80u + 40u);
}

TEST(Log, Lines) {
  ScratchDirectory scratch;
  plan::Plan plan = test::makePlan(
      {}, {{"model_dim", "64", true}, {"lr", "0.05", false}, {"dtype", "bf16", false}});
  {
    auto log = Log::open(scratch / "log.jsonl", false);
    ASSERT_TRUE(log);
    ASSERT_TRUE(log->run(
        plan, {"abc", "cpu \xff", {{"gpu", "G 1"}, {"bytes", "12"}}, 2, UINT64_MAX, 3, 9}));
    ASSERT_TRUE(log->step({4, 1.0 / 3, 12.5, 1000, 0.05, 4000}));
    ASSERT_TRUE(log->validation(4, 2.5, 640));
    ASSERT_TRUE(log->checkpoint(4, "runs/a/step-000004"));
    ASSERT_TRUE(log->start({{"plan", 1.2345}, {"total", 20}}));
    ASSERT_TRUE(log->end(4, "done"));
  }
  std::vector<nlohmann::json> events;
  for (const std::string &line : linesOf(test::readText(scratch / "log.jsonl")))
    events.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["event"], "run");
  EXPECT_EQ(events[0]["plan_hash"], "abc");
  EXPECT_EQ(events[0]["world"], 2);
  EXPECT_EQ(events[0]["device_facts"]["gpu"], "G 1");
  EXPECT_EQ(events[0]["device_facts"]["bytes"], 12);
  EXPECT_EQ(events[0]["seed"], UINT64_MAX);
  EXPECT_EQ(events[0]["parameters"], 100);
  EXPECT_EQ(events[0]["hyperparameters"],
            (nlohmann::json{{"model_dim", 64}, {"lr", 0.05}, {"dtype", "bf16"}}));
  EXPECT_TRUE(events[0]["versions"].contains("nanorun"));
  EXPECT_EQ(events[1], (nlohmann::json{{"event", "step"},
                                       {"step", 4},
                                       {"train_loss", 1.0 / 3},
                                       {"step_ms", 12.5},
                                       {"tokens", 1000},
                                       {"lr", 0.05},
                                       {"total_tokens", 4000}}));
  EXPECT_EQ(events[2], (nlohmann::json{
                           {"event", "val"}, {"step", 4}, {"val_loss", 2.5}, {"val_tokens", 640}}));
  EXPECT_EQ(events[3],
            (nlohmann::json{{"event", "checkpoint"}, {"step", 4}, {"path", "runs/a/step-000004"}}));
  EXPECT_EQ(events[4],
            (nlohmann::json{{"event", "start"}, {"ms", {{"plan", 1.23}, {"total", 20.0}}}}));
  EXPECT_EQ(events[5], (nlohmann::json{{"event", "end"}, {"step", 4}, {"reason", "done"}}));
}

TEST(Log, AppendsOrBeginsAnew) {
  ScratchDirectory scratch;
  for (bool append : {false, true, true, false, true}) {
    auto log = Log::open(scratch / "log.jsonl", append);
    ASSERT_TRUE(log && log->end(0, append ? "more" : "new"));
  }
  EXPECT_EQ(linesOf(test::readText(scratch / "log.jsonl")).size(), 2u);
}

TEST(Log, PlacesThatCannotBeWritten) {
  ScratchDirectory scratch;
  auto log = Log::open(scratch / "no/log.jsonl", false);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().exitStatus(), 2);
  EXPECT_EQ(log.error().message, "--log " + (scratch / "no/log.jsonl") +
                                     ": cannot be created: No such file or directory");
  auto full = Log::open("/dev/full", false);
  ASSERT_TRUE(full);
  Status status = full->end(0, "done");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "/dev/full: cannot be written: No space left on device; make room or save elsewhere");
}

} // namespace
} // namespace nano
