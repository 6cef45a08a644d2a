// What a reader of plans asks of buffers in the host's memory: that copies alone reach them.
#include "runtime/plan/PlanFile.h"
#include "tests/runtime/plan-device/TestPlans.h"

#include <functional>
#include <gtest/gtest.h>

namespace nano::plan {
namespace {

TEST(HostMemoryRules, EachIsChecked) {
  // Has a buffer of the host's memory in the place of another one.
  auto toHost = [](Plan &plan, uint32_t &index) {
    Buffer buffer = plan.buffers[index];
    buffer.name += " on the host";
    buffer.offset = hostBegin(plan) + plan.hostBytes;
    plan.hostBytes += (buffer.bytes + 255) / 256 * 256;
    index = uint32_t(plan.buffers.size());
    plan.buffers.push_back(std::move(buffer));
  };
  const std::pair<const char *, std::function<void(Plan &)>> rules[] = {
      {"the host's memory is larger than 2^46 bytes", [](Plan &p) { p.hostBytes = UINT64_MAX; }},
      {"an operand lies in the host's memory, which copies alone reach",
       [=](Plan &p) { toHost(p, (*p.programs[0].commands[5].as<Fill>()).to.buffer); }},
      {"an operand lies in the host's memory, which copies alone reach",
       [=](Plan &p) {
         toHost(p, (*p.programs[0].commands[0].as<Launch>()).segments[0].args[1].buffer);
       }},
      {"the value lies in the host's memory, which copies alone reach",
       [=](Plan &p) { toHost(p, p.states[0].buffer); }},
      {"it holds indices and lies in the host's memory",
       [=](Plan &p) {
         uint32_t index = (*p.programs[0].commands[6].as<Copy>()).to.buffer;
         toHost(p, index);
         p.buffers[index].type = DType::I32;
         p.indexGroups.push_back({0, 1});
         p.buffers[index].indices = int64_t(p.indexGroups.size()) - 1;
       }},
      {"it goes from the host's memory to itself",
       [=](Plan &p) {
         toHost(p, (*p.programs[0].commands[6].as<Copy>()).from.buffer);
         toHost(p, (*p.programs[0].commands[6].as<Copy>()).to.buffer);
       }},
      {"it reaches beyond the host's memory",
       [=](Plan &p) {
         toHost(p, (*p.programs[0].commands[6].as<Copy>()).to.buffer);
         p.hostBytes = 256;
       }},
  };
  for (const auto &[message, breakIt] : rules) {
    Plan plan = test::fullPlan();
    breakIt(plan);
    const Status status = validate(plan);
    ASSERT_FALSE(status) << message;
    EXPECT_NE(status.error().message.find(message), std::string::npos) << status.error().message;
  }
}

TEST(HostMemoryRules, AFileKeepsThem) {
  Plan plan = test::fullPlan();
  Copy &copy = *plan.programs[0].commands[6].as<Copy>();
  Buffer buffer = plan.buffers[copy.to.buffer];
  buffer.name = "away";
  buffer.offset = hostBegin(plan);
  plan.hostBytes = (buffer.bytes + 255) / 256 * 256;
  copy.to.buffer = uint32_t(plan.buffers.size());
  plan.buffers.push_back(std::move(buffer));
  ASSERT_TRUE(validate(plan)) << validate(plan).error().message;
  Result<Plan> read = parse(serialize(plan), "h.plan");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, plan);
}

} // namespace
} // namespace nano::plan
