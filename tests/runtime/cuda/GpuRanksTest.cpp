// Several ranks on the GPUs of this machine, through NCCL, by copy engines and sharing them;
// skipped where there are too few.
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/RanksPlan.h"

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

namespace nano::cuda {
namespace {

using test::checkRanksRun;
using test::forRanks;
using test::ranksPlan;

class GpuRanksTest : public test::OnGpu {
protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (apis.driver)
      gpus = int(visibleGpus(*apis.driver).size());
  }

  void checkRanks(int world, int group, int64_t part = 4) {
    SCOPED_TRACE(std::to_string(world) + " ranks, groups of " + std::to_string(group));
    plan::Plan plan = ranksPlan(world, group, part);
    std::vector<Status> outcomes =
        forRanks(plan, options, apis, cache.path, [&](CudaDevice &device, Communicator &ranks) {
          for (int run = 0; run < 6; ++run)
            checkRanksRun(device, plan, ranks.rank(), run);
          if (ranks.rank() == 0)
            std::cout << world << " ranks: " << device.describe() << "\n";
        });
    for (const Status &outcome : outcomes)
      EXPECT_TRUE(outcome) << outcome.error().message;
  }

  void checkWorlds(int64_t part) {
    if (gpus < 2)
      GTEST_SKIP() << "there is one GPU";
    for (int world : {2, 4, 8})
      if (world <= gpus)
        for (int group : {world, world / 2})
          checkRanks(world, group, part);
  }

  void checkARankThatIsGone(int64_t part);

  int gpus = 0;
};

TEST_F(GpuRanksTest, SharedGpus) {
  options.shareGpus = true;
  checkRanks(2 * gpus, gpus);
}

TEST_F(GpuRanksTest, Nccl) { checkWorlds(4); }

TEST_F(GpuRanksTest, CopyEngines) {
  options.report = [](const std::string &line) { ADD_FAILURE() << line; };
  checkWorlds(test::largePart);
}

TEST_F(GpuRanksTest, MeasuresWithAllStreams) {
  if (gpus < 2)
    GTEST_SKIP() << "there is one GPU";
  options.trace = true;
  checkRanks(2, 2);
}

/// One rank stops in the middle of training: what waits for it ends, and the error names the
/// collective.
void GpuRanksTest::checkARankThatIsGone(int64_t part) {
  if (gpus < 2)
    GTEST_SKIP() << "there is one GPU";
  plan::Plan plan = ranksPlan(2, 2, part);
  std::atomic<bool> isOver = false;
  forRanks(plan, options, apis, cache.path, [&](CudaDevice &device, Communicator &ranks) {
    for (int run = 0; run < 3; ++run)
      checkRanksRun(device, plan, ranks.rank(), run);
    if (ranks.rank() == 1) {
      ranks.abort("a test's reason");
      while (!isOver)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    Status status = device.run("last");
    auto begin = std::chrono::steady_clock::now();
    if (status)
      status = device.wait();
    std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    isOver = true;
    ASSERT_FALSE(status);
    std::cout << "after " << waited.count() << " s: " << status.error().message << "\n";
    EXPECT_LT(waited.count(), 5);
    EXPECT_NE(status.error().message.find("command 3 'sums' (ranks.cpp:4)"), std::string::npos);
    EXPECT_NE(status.error().message.find("a test's reason"), std::string::npos);
  });
}

TEST_F(GpuRanksTest, ARankThatIsGoneEndsTheOthers) { checkARankThatIsGone(4); }

TEST_F(GpuRanksTest, ARankThatIsGoneEndsTheOthersCopies) { checkARankThatIsGone(test::largePart); }

} // namespace
} // namespace nano::cuda
