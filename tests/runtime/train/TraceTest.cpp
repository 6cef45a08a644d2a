// What the trace of a step says: names, places, times, floors and gaps.
#include "runtime/Trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace nano {
namespace {

using plan::CommandWork;
using plan::DType;

class TraceTest : public testing::Test {
protected:
  TraceTest() {
    plan.model = "m";
    plan.kernels.emplace_back();
    plan.kernels[0].name = "norm_1234";
    plan.kernels[0].summary = "mul, add";
    plan.kernels[0].locations = {{"m.cpp", 3}, {"m.cpp", 5}};
    plan.programs = {{"first", {}, 2, 0}, {"update", {}, 1, 0}};
    plan::Launch launch;
    launch.segments = {{{{0, 0, false, true, 6000}, {0, 0, true, true, 1000}}, 1, 1},
                       {{{0, 0, true, false, 2000}}, 1, 1}};
    plan::Matmul product;
    product.m = 100, product.n = 200, product.k = 50, product.batch = 2;
    product.strideA = 5000, product.strideC = 20000; // one B for both
    product.aType = product.bType = product.cType = DType::BF16;
    plan.programs[0].commands = {{launch, 1, "norm", {}}, {product, 0, "", {"m.cpp", 7}}};
    plan.programs[1].commands = {{plan::Fill{DType::F32, {}, 500}, 0, "zero", {}}};
    const auto &first = plan.programs[0].commands;
    spans = {{&first[0], 10, 5e-6},
             {&first[1], 10 + 5e-6, 20e-6},
             {&plan.programs[1].commands[0], 11, 4e-6}};
    rates.copyBytes = 1e9;  // 1000 bytes a microsecond
    rates.bf16Flops = 1e12; // 1e6 operations a microsecond
  }

  plan::Plan plan;
  std::vector<CommandSpan> spans;
  DeviceRates rates;
};

TEST_F(TraceTest, CountsWork) {
  CommandWork launch = workOf(plan, *spans[0].command);
  EXPECT_EQ(launch.bytes, 6000 + 2 * 1000 + 2000);
  EXPECT_EQ(launch.flops, 0);
  CommandWork product = workOf(plan, *spans[1].command);
  EXPECT_EQ(product.flops, 2.0 * 100 * 200 * 50 * 2);
  EXPECT_EQ(product.bytes, 2.0 * (2 * 100 * 50 + 50 * 200 + 2 * 100 * 200));
  auto added = *spans[1].command->as<plan::Matmul>();
  added.beta = 1;
  added.strideD = 20000;
  EXPECT_EQ(workOf(plan, {added}).bytes, product.bytes + 2 * 2 * 100 * 200);
  EXPECT_EQ(workOf(plan, *spans[2].command).bytes, 2000);
}

TEST_F(TraceTest, FloorIsTheLongerOfBytesAndOperations) {
  EXPECT_DOUBLE_EQ(floorOf(plan, spans[0], rates), 10e-6);
  EXPECT_DOUBLE_EQ(floorOf(plan, spans[1], rates), 120e-6); // its bytes; operations: 4 µs
  rates.bf16Flops = 1e10;
  EXPECT_DOUBLE_EQ(floorOf(plan, spans[1], rates), 400e-6);
  auto f8 = *spans[1].command->as<plan::Matmul>();
  f8.aType = DType::F8E4M3FN;
  f8.bType = DType::F8E5M2;
  rates.f8Flops = 2e9;
  const plan::Command product = {f8};
  EXPECT_DOUBLE_EQ(floorOf(plan, {&product}, rates), 2000e-6);
}

TEST_F(TraceTest, CountsWhatAttentionsQueriesSee) {
  plan::Kernel &kernel = plan.kernels[0];
  kernel.flopsPerKey = 100;
  kernel.indices = {{1, 0}, {2, 0}};
  kernel.reaches = {{1, {64, 16, 16}}, {3, {192, 40, 40}}};
  kernel.flopsType = DType::BF16;
  plan::Launch launch;
  launch.segments = {{{{0, 0}, {0, 256}, {0, 512}}, 1, 1}, {{{0, 0}, {0, 768}, {0, 1024}}, 2, 1}};
  const std::vector<plan::KeyRanges> ranges = plan::keyRangesOf(plan, launch);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].first.offset, 256u);
  EXPECT_EQ(ranges[0].last.offset, 512u);
  EXPECT_EQ(ranges[0].queries, 4u);
  EXPECT_EQ(ranges[1].queries, 10u);
  const int32_t first[] = {0, 0, 2, 3}, last[] = {0, 1, 1, 5}; // 1, 2, none, 3 keys
  EXPECT_EQ(plan::meanKeys(first, last, 4), 1.5);
  EXPECT_EQ(plan::meanKeys(first, last, 0), 0);
  EXPECT_EQ(plan::attentionFlops(plan, launch, {1.5, 4}), 100 * (1.5 + 2 * 4));
  const plan::Command command = {launch};
  const CommandSpan span{&command, 0, 0, 4e7};
  EXPECT_DOUBLE_EQ(floorOf(plan, span, rates), 40e-6);
  rates.bf16Joules = 1e-12;
  EXPECT_DOUBLE_EQ(floorJoulesOf(plan, span, rates), 40e-6);
  kernel.flopsPerKey = 0;
  EXPECT_TRUE(plan::keyRangesOf(plan, launch).empty());
}

TEST_F(TraceTest, CountsOperationsOfKernels) {
  plan.kernels[0].flops = 1e7; // of an iteration; one in each of two segments
  EXPECT_EQ(workOf(plan, *spans[0].command).flops, 2e7);
  EXPECT_DOUBLE_EQ(floorOf(plan, spans[0], rates), 10e-6); // f32, whose rate is not known
  rates.f32Flops = 1e11;
  EXPECT_DOUBLE_EQ(floorOf(plan, spans[0], rates), 200e-6);
  plan.kernels[0].flopsType = DType::BF16;
  EXPECT_DOUBLE_EQ(floorOf(plan, spans[0], rates), 20e-6);
}

TEST_F(TraceTest, NamesEveryCommand) {
  std::vector<CommandSpan> later = {spans[2]}; // of rank 1
  later[0].start = 10 - 1e-3;
  auto trace =
      nlohmann::json::parse(traceText(plan, "hash", "a device", 12, {spans, later}, rates));
  std::vector<nlohmann::json> events;
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X")
      events.push_back(event);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["name"], "norm");
  EXPECT_EQ(events[0]["pid"], 0);
  EXPECT_EQ(events[0]["tid"], 1);
  EXPECT_NEAR(events[0]["ts"], 1000, 1e-3); // rank 1 begins before
  EXPECT_NEAR(events[0]["dur"], 5, 1e-6);
  EXPECT_EQ(events[0]["args"]["kernel"], "norm_1234");
  EXPECT_EQ(events[0]["args"]["at"], "m.cpp:3, m.cpp:5");
  EXPECT_NEAR(events[0]["args"]["floor_us"], 10, 1e-6);
  EXPECT_NEAR(events[0]["args"]["gap_us"], -5, 1e-6);
  EXPECT_EQ(events[1]["name"], "matmul 100x200x50 batch 2 bf16*bf16->bf16");
  EXPECT_EQ(events[1]["args"]["at"], "m.cpp:7");
  EXPECT_NEAR(events[1]["ts"], 1005, 1e-3);
  EXPECT_EQ(events[1]["args"]["program"], "first");
  EXPECT_EQ(events[2]["args"]["program"], "update");
  EXPECT_EQ(events[3]["pid"], 1);
  EXPECT_NEAR(events[3]["ts"], 0, 1e-3);
  EXPECT_EQ(trace["otherData"]["world"], 2);
  EXPECT_NEAR(events[2]["args"]["of_floor"], 0.5, 1e-6);
  EXPECT_EQ(trace["otherData"]["step"], 12);
  EXPECT_NEAR(trace["otherData"]["us"], 29, 1e-6);
  ASSERT_EQ(trace["kernels"].size(), 3u);
  EXPECT_EQ(trace["kernels"][0]["name"], "fill"); // 2 µs above its floor, the others below theirs
  EXPECT_NEAR(trace["kernels"][0]["gap_us"], 2, 1e-6);
}

TEST_F(TraceTest, NamesTheLargestWastes) {
  rates.copyJoules = 2e-9; // 10000 bytes: 20 uJ
  rates.bf16Joules = 1e-9; // 4e6 operations: 4 mJ
  EXPECT_DOUBLE_EQ(floorJoulesOf(plan, spans[0], rates), 20e-6);
  EXPECT_DOUBLE_EQ(floorJoulesOf(plan, spans[1], rates), 4e-3);
  const std::vector<CommandCost> costs = {{spans[0].command, 5e-6, 3e-3},
                                          {spans[1].command, 10e-6, 6e-3}};
  spans.push_back(spans[0]); // once more
  EXPECT_EQ(wastes(plan, spans, costs, rates),
            (std::vector<std::string>{
                "0.01 J in the commands of a step, each by itself, 0.00 J by their bytes and "
                "operations; furthest above:",
                "  0.006 J more than 0.000: 2 x 5.0 us at 600 W, norm_1234",
                "  0.002 J more than 0.004: 1 x 10.0 us at 600 W, matmul 100x200x50 batch 2 "
                "bf16*bf16->bf16"}));
  auto trace = nlohmann::json::parse(traceText(plan, "hash", "a device", 1, {spans}, rates, costs));
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["name"] == "norm") {
      EXPECT_NEAR(event["args"]["mj"], 3, 1e-9);
      EXPECT_NEAR(event["args"]["alone_us"], 5, 1e-9);
      EXPECT_NEAR(event["args"]["floor_mj"], 0.02, 1e-9);
    } else if (event["ph"] == "X" && event["cat"] == "fill") {
      EXPECT_FALSE(event["args"].contains("mj")); // it was not measured
    }
  EXPECT_NEAR(trace["otherData"]["mj"], 12, 1e-9);
  EXPECT_NEAR(trace["otherData"]["floor_mj"], 4.04, 1e-9);
  EXPECT_NEAR(trace["otherData"]["joules"]["bf16_flop"], 1e-9, 1e-18);
}

TEST_F(TraceTest, WithoutRatesThereAreNoFloors) {
  auto trace = nlohmann::json::parse(traceText(plan, "hash", "a device", 1, {spans}, std::nullopt));
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X") {
      EXPECT_FALSE(event["args"].contains("floor_us"));
    }
  EXPECT_FALSE(trace["otherData"].contains("floor_us"));
  EXPECT_FALSE(traceText(plan, "hash", "a device", 1, {}, std::nullopt).empty());
}

} // namespace
} // namespace nano
