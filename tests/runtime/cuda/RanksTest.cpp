// Several ranks on fake GPUs, a thread each: collectives of every kind in every way to run a
// program, the choice of GPUs, and what becomes of the others when a rank fails.
#include "tests/runtime/Expect.h"
#include "tests/runtime/cuda/DeviceTest.h"
#include "tests/runtime/cuda/FakeCuda.h"
#include "tests/runtime/cuda/FakeTables.h"
#include "tests/runtime/cuda/RanksPlan.h"
#include "tests/runtime/cuda/Sums.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace nano::cuda {
namespace {

using namespace std::chrono_literals;
using test::checkRanksRun;
using test::FakeCuda;
using test::largePart;
using test::ranksPlan;
using test::TemporaryFolder;

class RanksTest : public testing::Test {
protected:
  RanksTest() {
    test::runSums(fake);
    options.report = [this](const std::string &line) {
      std::lock_guard guard(mutex);
      lines.push_back(line);
    };
  }

  std::vector<Status> forRanks(const plan::Plan &plan, const test::RankBody &body) {
    return test::forRanks(plan, options, fake.apis(), cache.path, body);
  }

  /// Runs the plan four times on all ranks and compares all that it writes.
  void checkRanks(int world, int group, int64_t part = 4) {
    plan::Plan plan = ranksPlan(world, group, part);
    std::vector<Status> outcomes = forRanks(plan, [&](CudaDevice &device, Communicator &ranks) {
      for (int run = 0; run < 4; ++run)
        checkRanksRun(device, plan, ranks.rank(), run);
    });
    for (const Status &outcome : outcomes)
      EXPECT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(fake.allocations, 0);
    EXPECT_EQ(fake.objects, 0);
  }

  int countCalls(const std::string &begin) const {
    return int(std::count_if(fake.calls.begin(), fake.calls.end(),
                             [&](const std::string &each) { return each.rfind(begin, 0) == 0; }));
  }

  FakeCuda fake;
  TemporaryFolder cache;
  DeviceOptions options;
  std::mutex mutex;
  std::vector<std::string> lines; ///< reported
};

TEST_F(RanksTest, CollectivesOfOneGroup) {
  fake.devices = 2;
  checkRanks(2, 2);
  // The peers of one group exchange nothing; groups of all ranks need no communicator of their own.
  EXPECT_EQ(countCalls("all-gather"), 2 * 2); // one by one, recorded; then the graph is replayed
  EXPECT_EQ(countCalls("launch graph"), 2 * 3);
  EXPECT_EQ(countCalls("abort"), 0);
}

TEST_F(RanksTest, CollectivesOfSeveralGroups) {
  fake.devices = 4;
  checkRanks(4, 2);
  EXPECT_EQ(countCalls("all-reduce"), 4 * 5 * 2); // two in one, maxima, peers, bf16
  EXPECT_EQ(countCalls("group start"), 4 * 2 * 2);
}

TEST_F(RanksTest, CopyEnginesDoLargeCollectives) {
  for (const auto &[world, group] : {std::pair(2, 2), {4, 2}, {3, 3}}) {
    fake.devices = world;
    checkRanks(world, group, largePart);
    EXPECT_EQ(countCalls("all-reduce"), world * 2); // maxima
    EXPECT_EQ(countCalls("reduce-scatter"), 0);
    EXPECT_EQ(countCalls("all-gather"), 0);
    EXPECT_EQ(countCalls("launch graph"), world * 3);
    EXPECT_GT(countCalls("copy between GPUs"), 0);
    EXPECT_EQ(countCalls("gpu 0 reaches 1"), 1);
    fake.calls.clear();
  }
  EXPECT_TRUE(lines.empty()) << lines[0];
}

TEST_F(RanksTest, WithoutNvlinkAllCollectivesAreNccls) {
  fake.devices = 3;
  fake.unlinked = {{1, 2}};
  checkRanks(3, 3, largePart);
  EXPECT_EQ(countCalls("copy between GPUs"), 0);
  EXPECT_EQ(countCalls("all-gather"), 3 * 2);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0],
            "collectives take multiprocessors from the computation beside them: no NVLink joins "
            "the GPUs of ranks 1 and 2, so that no copy engine can do them");
}

TEST_F(RanksTest, AnOlderDriverHasNoFlags) {
  fake.devices = 2;
  fake.isOlder = true;
  checkRanks(2, 2, largePart);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_CONTAINS(lines[0], ": the CUDA driver is older than 11.7, so that");
}

TEST_F(RanksTest, WithoutMemoryForSumsAllCollectivesAreNccls) {
  fake.devices = 2;
  const uint64_t beside = 4 * largePart + 16; // half of x, and of x2
  fake.onCall = [&](const std::string &call) {
    return call == "alloc " + std::to_string(beside) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  };
  checkRanks(2, 2, largePart);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_CONTAINS(lines[0], ": rank 0 lacks 64 KiB of memory for what is added up, so that");
}

TEST_F(RanksTest, WaitsForEachCommand) {
  fake.devices = 2;
  options.waitForEach = true;
  checkRanks(2, 1);
  EXPECT_EQ(countCalls("launch graph"), 0);
}

TEST_F(RanksTest, OneRankExchangesNothing) {
  checkRanks(1, 1);
  EXPECT_EQ(countCalls("all-reduce"), 0);
}

TEST_F(RanksTest, RanksThatShareGpusGoThroughTheHost) {
  options.shareGpus = true;
  fake.devices = 1;
  checkRanks(4, 2);
  fake.devices = 3; // ranks 0 and 3 share one
  checkRanks(4, 4);
  EXPECT_EQ(countCalls("all-reduce"), 0);
  EXPECT_EQ(countCalls("launch graph"), 0);
  fake.devices = 4; // enough of them
  checkRanks(4, 4);
  EXPECT_GT(countCalls("all-reduce"), 0);
}

TEST_F(RanksTest, CollectivesThroughTheHostNameTheModelLine) {
  options.shareGpus = true;
  fake.devices = 1;
  plan::Plan plan = ranksPlan(2, 2);
  forRanks(plan, [&](CudaDevice &device, Communicator &ranks) {
    if (ranks.rank() == 1)
      return ranks.abort("a test's reason");
    Status status = device.run("last");
    ASSERT_FALSE(status);
    EXPECT_CONTAINS(status.error().message, "all-reduce 'sum (ranks.cpp:4)' of 8 f32 on rank 0: ");
    EXPECT_CONTAINS(status.error().message, "a test's reason");
  });
}

TEST_F(RanksTest, MeasuresWithAllStreams) {
  fake.devices = 2;
  for (bool isShared : {false, true}) {
    fake.devices = isShared ? 1 : 2;
    options.shareGpus = isShared;
    options.trace = true;
    plan::Plan plan = ranksPlan(2, 2);
    forRanks(plan, [&](CudaDevice &device, Communicator &ranks) {
      for (int run = 0; run < 3; ++run)
        checkRanksRun(device, plan, ranks.rank(), run);
      std::vector<CommandSpan> spans = device.takeSpans();
      ASSERT_EQ(spans.size(), 2 * plan.programs[0].commands.size());
      for (const CommandSpan &span : spans)
        EXPECT_GT(span.seconds, 0);
      EXPECT_EQ(spans[3].command->label, "sums");
      EXPECT_EQ(device.times().size(), plan.programs[0].commands.size());
    });
    // A mark on the collectives' own stream, where they are recorded.
    bool isOverlapped = false;
    for (const std::string &call : fake.calls)
      isOverlapped |=
          call.rfind("mark event", 0) == 0 && call.find("stream 0") == std::string::npos;
    EXPECT_EQ(isOverlapped, !isShared);
    fake.calls.clear();
  }
}

TEST_F(RanksTest, RefusesFewerGpusThanRanks) {
  fake.devices = 2;
  std::vector<Status> outcomes =
      forRanks(ranksPlan(4, 4), [](CudaDevice &, Communicator &) { FAIL() << "made"; });
  for (const Status &outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().exitStatus(), 2);
    EXPECT_EQ(outcome.error().message,
              "--gpus 4: ranks 0 and 2 would share a GPU, since they see 2; use fewer ranks or "
              "more machines, or try the ranks on the GPUs at hand with --share-gpus, slowly");
  }
}

TEST_F(RanksTest, RefusesAnOldNccl) {
  fake.devices = 2;
  fake.ncclVersions = {{0, 21805}, {1, 21805}};
  std::vector<Status> outcomes =
      forRanks(ranksPlan(2, 2), [](CudaDevice &, Communicator &) { FAIL() << "made"; });
  EXPECT_EQ(outcomes[0].error().exitStatus(), 2);
  EXPECT_CONTAINS(outcomes[0].error().message + outcomes[1].error().message,
                  "NCCL 2.18.5 of this machine is not from 2.19.3 to 2.99");
  EXPECT_EQ(fake.allocations, 0);
}

TEST_F(RanksTest, RefusesDifferentNcclVersions) {
  fake.devices = 2;
  fake.ncclVersions = {{1, 22703}};
  std::vector<Status> outcomes =
      forRanks(ranksPlan(2, 2), [](CudaDevice &, Communicator &) { FAIL() << "made"; });
  EXPECT_EQ(outcomes[0].error().message,
            "rank 0 has NCCL 2.28.9, rank 1 has 2.27.3; install one version everywhere");
  EXPECT_EQ(outcomes[0].error().exitStatus(), 2);
}

/// The error of rank 0's next run, when rank 1 makes none.
class FailingRankTest : public RanksTest {
protected:
  Error errorWithout(const std::function<void(Communicator &)> &rank1, int runsBefore,
                     int64_t part = 4) {
    fake.devices = 2;
    plan::Plan plan = ranksPlan(2, 2, part);
    Error error;
    forRanks(plan, [&](CudaDevice &device, Communicator &ranks) {
      for (int run = 0; run < runsBefore; ++run)
        checkRanksRun(device, plan, ranks.rank(), run);
      if (ranks.rank() == 1) {
        rank1(ranks);
        while (!isOver)
          std::this_thread::yield();
        return;
      }
      Status status = device.run("last");
      if (status)
        status = device.wait();
      EXPECT_FALSE(status);
      error = status ? Error() : status.error();
      // From now on every call says the same, at once.
      status = device.run("last");
      EXPECT_FALSE(status);
      EXPECT_EQ(status ? "" : status.error().message, error.message);
      isOver = true;
    });
    EXPECT_EQ(error.exitStatus(), 1);
    EXPECT_EQ(fake.allocations, 0);
    EXPECT_EQ(fake.objects, 0);
    EXPECT_GE(countCalls("abort"), 1);
    return error;
  }
  std::atomic<bool> isOver = false;
};

TEST_F(FailingRankTest, EndsAWaitInAGraph) {
  Error error = errorWithout([](Communicator &ranks) { ranks.abort("a test's reason"); }, 3);
  EXPECT_CONTAINS(error.message, "rank 0 in program 'last', command 3 'sums' (ranks.cpp:4): ");
  EXPECT_CONTAINS(error.message, "rank 1");
  EXPECT_CONTAINS(error.message, "a test's reason");
}

TEST_F(FailingRankTest, EndsAWaitForACommand) {
  Error error = errorWithout([](Communicator &ranks) { ranks.abort("a test's reason"); }, 0);
  EXPECT_CONTAINS(error.message, "program 'last', command 3 'sums' (ranks.cpp:4): rank 0: ");
  EXPECT_CONTAINS(error.message, "a test's reason");
}

TEST_F(FailingRankTest, EndsAWaitAfterTheTimeout) {
  options.rankTimeout = 200ms;
  Error error = errorWithout([](Communicator &) {}, 2);
  EXPECT_CONTAINS(error.message, "rank 0 in program 'last', command 3 'sums' (ranks.cpp:4): the "
                                 "ranks' GPUs came to no end within 0.2 s (--rank-timeout)");
}

TEST_F(FailingRankTest, EndsAWaitForACopyInAGraph) {
  Error error =
      errorWithout([](Communicator &ranks) { ranks.abort("a test's reason"); }, 2, largePart);
  EXPECT_CONTAINS(error.message, "rank 0 in program 'last', command 3 'sums' (ranks.cpp:4): ");
  EXPECT_CONTAINS(error.message, "a test's reason");
}

TEST_F(FailingRankTest, EndsAWaitForACopy) {
  Error error =
      errorWithout([](Communicator &ranks) { ranks.abort("a test's reason"); }, 0, largePart);
  EXPECT_CONTAINS(error.message, "program 'last', command 3 'sums' (ranks.cpp:4): rank 0: ");
}

TEST_F(FailingRankTest, EndsAWaitForACopyAfterTheTimeout) {
  options.rankTimeout = 200ms;
  Error error = errorWithout([](Communicator &) {}, 2, largePart);
  EXPECT_CONTAINS(error.message, "command 3 'sums' (ranks.cpp:4): the ranks' GPUs came to no end "
                                 "within 0.2 s (--rank-timeout)");
}

/// A rank whose waits were ended goes on without the others and tells them what is void.
TEST_F(RanksTest, NothingCountsOfARankThatHasGivenUp) {
  fake.devices = 2;
  plan::Plan plan = ranksPlan(2, 2, largePart);
  std::atomic<bool> isBroken = false, hasGivenUp = false;
  fake.onCall = [&](const std::string &call) {
    return isBroken && test::gpuOfThread() == 1 && call.rfind("launch graph", 0) == 0
               ? CUDA_ERROR_ILLEGAL_ADDRESS
               : CUDA_SUCCESS;
  };
  forRanks(plan, [&](CudaDevice &device, Communicator &ranks) {
    for (int run = 0; run < 2; ++run)
      checkRanksRun(device, plan, ranks.rank(), run);
    ASSERT_TRUE(ranks.barrier("a test"));
    isBroken = isBroken || ranks.rank() == 1;
    Status status = device.run("last");
    if (ranks.rank() == 1) {
      EXPECT_FALSE(status);
      hasGivenUp = true;
      return; // and its device goes
    }
    EXPECT_TRUE(status) << status.error().message;
    while (!hasGivenUp)
      std::this_thread::yield();
    status = device.wait();
    ASSERT_FALSE(status);
    EXPECT_CONTAINS(status.error().message, "rank 0 in program 'last'");
    EXPECT_CONTAINS(status.error().message, ": rank 1 has failed");
  });
}

TEST_F(FailingRankTest, SaysWhatNcclSays) {
  std::atomic<bool> isLost = false;
  fake.ncclState = [&] { return isLost ? 6 : 0; };
  Error error = errorWithout([&](Communicator &) { isLost = true; }, 2);
  EXPECT_CONTAINS(error.message, "command 3 'sums' (ranks.cpp:4): NCCL: a test's error in a "
                                 "collective (no link); NCCL_DEBUG=WARN says more");
}

/// All ranks must sum alike, so they take rank 0's choice of algorithms.
TEST_F(RanksTest, RanksTakeTheAlgorithmsOfRankZero) {
  fake.devices = 2;
  plan::Plan plan = test::productPlan({test::productCases()[0]});
  plan.worlds = {2};
  options.tuneFile = cache.path + "/p.plan.tune.json";
  options.tune = true;
  fake.candidates = 2;
  std::vector<Status> outcomes = forRanks(plan, [&](CudaDevice &device, Communicator &) {
    std::string tuned;
    for (const auto &[name, value] : device.facts())
      if (name == "products_tuned")
        tuned = value;
    EXPECT_EQ(tuned, "1");
  });
  EXPECT_TRUE(outcomes[0] && outcomes[1]);
}

/// What a rank gets when the ranks see these GPUs.
std::vector<Result<Placement>> placements(const std::vector<std::vector<std::string>> &gpus,
                                          bool share) {
  LocalGroup group(int(gpus.size()), 20s);
  std::vector<Result<Placement>> found(gpus.size(), Placement());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    threads.emplace_back(
        [&, rank] { found[rank] = placeOnGpu(group.communicator(int(rank)), gpus[rank], share); });
  for (std::thread &thread : threads)
    thread.join();
  return found;
}

TEST(PlacementTest, RanksOfAMachineTakeItsGpusInOrder) {
  std::vector<std::string> one = {"a", "b"}, other = {"c", "d"};
  auto found = placements({one, one, other, other}, false);
  for (size_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(found[rank]) << found[rank].error().message;
    EXPECT_EQ(found[rank]->ordinal, int(rank % 2));
    EXPECT_EQ(found[rank]->isFirstHere, rank % 2 == 0);
    EXPECT_FALSE(found[rank]->isShared);
  }
}

TEST(PlacementTest, ProcessesThatSeeOneGpuTakeIt) {
  for (const auto &found : placements({{"a"}, {"b"}, {"c"}}, false)) {
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->ordinal, 0);
    EXPECT_FALSE(found->isShared);
  }
  auto same = placements({{"a", "b"}, {"b"}, {"a"}}, false);
  EXPECT_CONTAINS(same[0].error().message, "ranks 0 and 2 would share a GPU, since they see 1");
}

TEST(PlacementTest, SharingStartsAgainAtTheFirst) {
  auto found = placements({{"a", "b"}, {"a", "b"}, {"a", "b"}}, true);
  EXPECT_EQ(found[2]->ordinal, 0);
  EXPECT_TRUE(found[1]->isShared); // known to all ranks
}

} // namespace
} // namespace nano::cuda
