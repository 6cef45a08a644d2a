// Reasons of waits, on programs whose only conflict is planted.
#include "compiler/explore/Waits.h"

#include <gtest/gtest.h>

namespace nano::explore {
namespace {

using plan::Command;

/// Four buffers; the last one shares its bytes with the first.
plan::Plan planOf() {
  plan::Plan plan;
  for (uint64_t i = 0; i < 4; ++i) {
    plan::Buffer buffer;
    buffer.name = "b" + std::to_string(i);
    buffer.offset = i < 3 ? 256 * i : 0;
    buffer.bytes = 256;
    plan.buffers.push_back(buffer);
  }
  return plan;
}

Command copy(uint32_t stream, uint32_t from, uint32_t to) {
  const plan::Ref target = {to, 0, /*written=*/true, /*read=*/false};
  return {plan::Copy{plan::DType::F32, {from}, target, 64}, stream};
}

std::vector<WaitReason> reasonsOf(const Command &before, const Command &after) {
  plan::Program program;
  program.commands = {
      before, {plan::RecordEvent{0}, before.stream}, {plan::WaitEvent{0}, after.stream}, after};
  program.streams = 2;
  return waitReasons(planOf(), program);
}

TEST(Waits, ReadOfWhatIsWritten) {
  const auto reasons = reasonsOf(copy(0, 0, 1), copy(1, 1, 2));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].wait, 2u);
  EXPECT_EQ(reasons[0].before, 0u);
  EXPECT_EQ(reasons[0].after, 3u);
  EXPECT_EQ(reasons[0].buffer, 1u);
  EXPECT_EQ(reasons[0].kind, WaitReason::Kind::ReadsWritten);
}

TEST(Waits, WriteOverWhatIsRead) {
  const auto reasons = reasonsOf(copy(0, 0, 1), copy(1, 2, 0));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].kind, WaitReason::Kind::OverwritesRead);
  EXPECT_EQ(reasons[0].buffer, 0u);
}

TEST(Waits, WriteOverWhatIsWritten) {
  const auto reasons = reasonsOf(copy(0, 0, 1), copy(1, 2, 1));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].kind, WaitReason::Kind::OverwritesWritten);
}

TEST(Waits, BuffersOfTheSameBytes) {
  const auto reasons = reasonsOf(copy(0, 0, 1), copy(1, 2, 3));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].kind, WaitReason::Kind::OverwritesRead);
  EXPECT_EQ(reasons[0].buffer, 3u);
}

TEST(Waits, NoConflictNoReason) { EXPECT_TRUE(reasonsOf(copy(0, 0, 1), copy(1, 0, 2)).empty()); }

} // namespace
} // namespace nano::explore
