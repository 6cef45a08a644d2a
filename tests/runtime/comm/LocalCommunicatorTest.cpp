// In-process collectives: exact sums in rank order, and errors instead of hangs when ranks fail,
// differ or stay away.
#include "runtime/comm/LocalCommunicator.h"
#include "tests/runtime/comm/Collectives.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <gtest/gtest.h>
#include <thread>

namespace nano {
namespace {

using namespace std::chrono_literals;
using plan::DType;
using plan::Ranks;

/// Runs `rank(communicator)` on a thread for each rank of the group.
template <typename Fn> void onEachRank(LocalGroup &group, Fn rank) {
  std::vector<std::thread> threads;
  for (int r = 0; r < group.world(); ++r)
    threads.emplace_back([&, r] { rank(group.communicator(r)); });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(LocalCommunicator, EveryCollectiveIsExactOverEverySet) {
  for (int world = 1; world <= 8; ++world)
    for (int ranks = 1; ranks <= world; ++ranks) {
      if (world % ranks != 0)
        continue;
      LocalGroup group(world);
      onEachRank(group, [&](Communicator &communicator) {
        EXPECT_EQ(communicator.world(), world);
        EXPECT_EQ(test::checkCollectives(communicator, ranks), "") << world << " by " << ranks;
      });
    }
}

TEST(LocalCommunicator, TheLargestOfNumbersWithANanIsNan) {
  LocalGroup group(3);
  onEachRank(group, [&](Communicator &communicator) {
    for (int rank = 0; rank < 3; ++rank) {
      float value = communicator.rank() == rank ? NAN : 5;
      ASSERT_TRUE(communicator.allReduce(&value, 1, DType::F32, Combine::Max, Ranks::All, "max"));
      EXPECT_TRUE(std::isnan(value)) << rank;
    }
  });
}

TEST(LocalCommunicator, AGroupDividesTheRanks) {
  LocalGroup group(6);
  for (int ranks : {0, -2, 4, 12}) {
    Status status = group.communicator(0).setGroup(ranks);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message,
              "groups of " + std::to_string(ranks) + " ranks: 6 ranks cannot be divided so");
  }
  EXPECT_TRUE(group.communicator(0).setGroup(3));
}

TEST(LocalCommunicator, GroupsOfDifferentSizesAreAnError) {
  LocalGroup group(4);
  onEachRank(group, [&](Communicator &communicator) {
    if (communicator.rank() > 1)
      return;
    ASSERT_TRUE(communicator.setGroup(communicator.rank() == 0 ? 2 : 4));
    float value = 1;
    Status status =
        communicator.allReduce(&value, 1, DType::F32, Combine::Sum, Ranks::Group, "norm");
    ASSERT_FALSE(status);
    const std::string call =
        "all-reduce 'norm' of 1 f32 within a group on rank " + std::to_string(communicator.rank());
    // The one that comes last finds it out.
    EXPECT_TRUE(
        status.error().message == call + ": rank 0 has groups of another size, 2, than rank 1" ||
        status.error().message == call + ": rank 1 has groups of another size, 4, than rank 0")
        << status.error().message;
  });
}

TEST(LocalCommunicator, BarrierHoldsEveryRank) {
  LocalGroup group(4);
  std::atomic<int> arrived = 0;
  onEachRank(group, [&](Communicator &communicator) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      ASSERT_TRUE(communicator.barrier("round"));
      EXPECT_GE(arrived, 4 * round);
      ASSERT_TRUE(communicator.barrier("next"));
      EXPECT_EQ(arrived, 4 * round);
      ASSERT_TRUE(communicator.barrier("go"));
    }
  });
}

TEST(LocalCommunicator, AbortReachesWaitingRanks) {
  LocalGroup group(3);
  onEachRank(group, [&](Communicator &communicator) {
    ASSERT_TRUE(communicator.barrier("start"));
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(20ms);
      group.abort(1, "the disk is full");
      return;
    }
    float value = 1;
    Status status = communicator.allReduce(&value, 1, DType::F32, Combine::Sum, Ranks::All, "loss");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exitStatus(), 1);
    EXPECT_EQ(status.error().message,
              "all-reduce 'loss' of 1 f32 on rank " + std::to_string(communicator.rank()) +
                  ": rank 1 failed after barrier 'start': the disk is full");
    Status later = communicator.barrier("end");
    ASSERT_FALSE(later);
    EXPECT_NE(later.error().message.find("rank 1 failed"), std::string::npos);
  });
}

TEST(LocalCommunicator, DifferentCollectivesAreAnError) {
  auto expectDifference = [](auto call, const std::string &part) {
    LocalGroup group(2);
    onEachRank(group, [&](Communicator &communicator) {
      Status status = call(communicator);
      ASSERT_FALSE(status) << part;
      EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
    });
  };
  expectDifference(
      [](Communicator &communicator) {
        std::vector<float> data(8);
        return communicator.allReduce(data.data(), 4 + communicator.rank(), DType::F32,
                                      Combine::Sum, Ranks::All, "x");
      },
      "rank 1 calls all-reduce 'x' of 5 f32 where rank 0 calls all-reduce 'x' of 4 f32");
  expectDifference(
      [](Communicator &communicator) {
        float value = 0;
        return communicator.rank()
                   ? communicator.barrier("b")
                   : communicator.allReduce(&value, 1, DType::F32, Combine::Sum, Ranks::All, "x");
      },
      "rank 1 calls barrier 'b' where rank 0 calls all-reduce 'x' of 1 f32");
  expectDifference(
      [](Communicator &communicator) {
        int32_t value = 0;
        return communicator.allReduce(&value, 1, DType::I32, Combine::Sum, Ranks::All, "x");
      },
      "cannot combine elements of type i32");
  expectDifference(
      [](Communicator &communicator) {
        float value = 0;
        return communicator.allReduce(&value, 1, DType::F32,
                                      communicator.rank() ? Combine::Max : Combine::Sum, Ranks::All,
                                      "x");
      },
      "rank 1 calls all-reduce (max) 'x' of 1 f32 where rank 0 calls all-reduce 'x' of 1 f32");
}

TEST(LocalCommunicator, TimeoutNamesTheAbsentRank) {
  LocalGroup group(3, 1s);
  onEachRank(group, [&](Communicator &communicator) {
    communicator.doing("step 3, program 'last'");
    ASSERT_TRUE(communicator.barrier("start"));
    if (communicator.rank() == 2)
      return;
    Status status = communicator.barrier("end");
    ASSERT_FALSE(status);
    EXPECT_EQ(
        status.error().message,
        "barrier 'end' on rank " + std::to_string(communicator.rank()) +
            ": rank 2 (last seen in barrier 'start', step 3, program 'last') did not come within "
            "1 s");
    EXPECT_EQ(communicator.failure()->message,
              "rank 2 (last seen in barrier 'start', step 3, program 'last') did not come within "
              "1 s");
  });
}

TEST(LocalCommunicator, ARankThatShowsLifeIsWaitedFor) {
  LocalGroup group(2, 2s);
  onEachRank(group, [&](Communicator &communicator) {
    EXPECT_FALSE(communicator.failure());
    if (communicator.rank() == 1)
      for (int i = 0; i < 25; ++i) {
        std::this_thread::sleep_for(100ms);
        communicator.doing("shard " + std::to_string(i));
      }
    EXPECT_TRUE(communicator.barrier("saved"));
  });
}

Status reduceOne(Communicator &communicator, Ranks ranks, const char *what) {
  float value = 1;
  return communicator.allReduce(&value, 1, DType::F32, Combine::Sum, ranks, what);
}

TEST(LocalCommunicator, RanksThatWaitInDifferentSetsAreNamed) {
  LocalGroup group(2, 1s);
  onEachRank(group, [&](Communicator &communicator) {
    ASSERT_TRUE(communicator.setGroup(2));
    Status status = communicator.rank() == 0 ? reduceOne(communicator, Ranks::All, "a")
                                             : reduceOne(communicator, Ranks::Group, "b");
    ASSERT_FALSE(status);
  });
  const std::string message = group.communicator(0).failure()->message;
  // The first that finds it out names the other.
  EXPECT_TRUE(
      message == "rank 0 (last seen in all-reduce 'a' of 1 f32) did not come within 1 s" ||
      message ==
          "rank 1 (last seen in all-reduce 'b' of 1 f32 within a group) did not come within 1 s")
      << message;
}

TEST(LocalCommunicator, ARankThatWaitsForOneThatShowsLifeIsWaitedFor) {
  LocalGroup group(4, 2s);
  onEachRank(group, [&](Communicator &communicator) {
    ASSERT_TRUE(communicator.setGroup(2));
    if (communicator.rank() == 3) // rank 1 waits for it, and rank 0 for rank 1
      for (int i = 0; i < 25; ++i) {
        std::this_thread::sleep_for(100ms);
        communicator.doing("shard " + std::to_string(i));
      }
    Status peers = reduceOne(communicator, Ranks::Peers, "a");
    EXPECT_TRUE(peers) << peers.error().message;
    Status own = reduceOne(communicator, Ranks::Group, "b");
    EXPECT_TRUE(own) << own.error().message;
  });
}

TEST(LocalCommunicator, AFailureElsewhereLeavesACollectivesWorkWhole) {
  constexpr int64_t count = int64_t(1) << 21;
  int hits = 0;
  for (int round = 0; round < 400 && hits < 3; ++round) {
    LocalGroup group(4);
    std::atomic<int> begun = 0;
    std::atomic<bool> cut = false;
    onEachRank(group, [&](Communicator &communicator) {
      const int rank = communicator.rank();
      ASSERT_TRUE(communicator.setGroup(2));
      if (rank == 3)
        return;
      if (rank == 2) {
        while (begun < 2)
          std::this_thread::yield();
        std::this_thread::sleep_for(200us * (round % 20));
        return communicator.abort("the disk is full");
      }
      std::vector<float> from(2 * count, float(rank + 1)), to(count, -1);
      ++begun;
      Status status = communicator.reduceScatter(from.data(), to.data(), count, DType::F32,
                                                 Ranks::Group, "grads");
      // What this rank does when it is out of the call must not reach the other's sums.
      std::fill(from.begin(), from.end(), 100);
      const bool hasBegun = to[0] != -1;
      EXPECT_TRUE(hasBegun || !status);
      EXPECT_EQ(std::count(to.begin(), to.end(), hasBegun ? 3 : -1), count);
      if (hasBegun && !status) {
        EXPECT_EQ(status.error().message,
                  "reduce-scatter 'grads' of 2097152 f32 within a group on rank " +
                      std::to_string(rank) +
                      ": rank 2 failed after no collective: the disk is full");
        cut = true;
      }
    });
    hits += cut;
  }
  EXPECT_GT(hits, 0) << "no failure fell into a collective's work";
}

} // namespace
} // namespace nano
