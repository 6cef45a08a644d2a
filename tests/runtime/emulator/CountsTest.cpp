// Order between the blocks of a launch by counts in memory: what it gives, and the faults that it
// is used with.
#include "tests/runtime/emulator/KernelRun.h"

#include <gmock/gmock.h>

namespace nano::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t blocks = 7;

KernelRun chain(const std::string &fault) {
  KernelRun run("counts.cu", "chain_" + fault);
  run.inputOutput(std::vector<int32_t>(2)).output<float>(32).output<float>(32);
  run.threads(32).blocks(blocks);
  return run;
}

std::string at(const std::string &mark) { return "(" + lineOf("counts.cu", mark) + ")"; }

template <typename Matcher> void expectFault(const std::string &fault, const Matcher &matcher) {
  if (isOnGpu)
    return;
  KernelRun run = chain(fault);
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(run.run(), AllOf(HasSubstr("kernel 'chain_" + fault + "' (counts.cu)"), matcher));
}

TEST(EmulatorCounts, BlocksAddOneAfterTheOther) {
  for (bool checked : {true, false}) {
    KernelRun run = chain("None");
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(run.run(checked), "");
    EXPECT_EQ(run.result<int32_t>(0), (std::vector<int32_t>{blocks, blocks - 1}));
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(run.result<float>(1)[i], float(100 * 15 + 6 * i));
      EXPECT_EQ(run.result<float>(2)[i], float(2 * (100 * 15 + 6 * i)));
    }
  }
}

TEST(EmulatorCounts, WaitingForBlocksThatHaveNotBegun) {
  expectFault("Backwards", AllOf(HasSubstr("deadlock: "), HasSubstr("waitForCount"),
                                 HasSubstr(at("count_wait"))));
}

TEST(EmulatorCounts, AddingOutOfTurn) {
  expectFault("NoWait", AllOf(HasSubstr("race: writes 128 bytes"), HasSubstr(at("count_add")),
                              HasSubstr("which another block has written in the same launch")));
}

TEST(EmulatorCounts, ReadingOutOfTurn) {
  expectFault("ReadEarly", AllOf(HasSubstr("race: reads 4 bytes"), HasSubstr(at("count_read")),
                                 HasSubstr("which another block has written in the same launch")));
}

TEST(EmulatorCounts, AddingWithNoFence) {
  expectFault("NoFence", AllOf(HasSubstr("missing fence: "), HasSubstr(at("count_add")),
                               HasSubstr("with no fenceProxyGlobal")));
}

/// The copy had not ended when it was told.
TEST(EmulatorCounts, TellingTooEarly) {
  expectFault("ToldEarly", AllOf(HasSubstr("race: writes 128 bytes"), HasSubstr(at("count_add"))));
}

TEST(EmulatorCounts, AddingToNothing) {
  expectFault("NothingStored",
              AllOf(HasSubstr("uninitialised: writes 128 bytes"), HasSubstr(at("count_add"))));
}

} // namespace
} // namespace nano::test
