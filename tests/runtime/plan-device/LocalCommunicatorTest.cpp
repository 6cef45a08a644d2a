// In-process collectives: exact sums in rank order, and errors instead of hangs when ranks fail,
// differ or stay away.
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/NumberFormats.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace nano {
namespace {

using namespace std::chrono_literals;
using plan::DType;

/// Runs `rank(communicator)` on a thread for each rank of the group.
template <typename Fn> void onEachRank(LocalGroup &group, Fn rank) {
  std::vector<std::thread> threads;
  for (int r = 0; r < group.world(); ++r)
    threads.emplace_back([&, r] { rank(group.communicator(r)); });
  for (std::thread &thread : threads)
    thread.join();
}

/// Numbers whose f32 sums depend on the order of addition.
float element(int rank, int64_t i) {
  return (rank % 2 ? -1.0f : 1.0f) * float(1 + (i * 7919 + rank * 104729) % 1000003) * 1.1f;
}

TEST(LocalCommunicator, AddsInRankOrder) {
  for (int world : {1, 2, 3, 4, 8})
    for (int64_t count : {0, 1, 2047, 2048, 2049, 100003}) {
      LocalGroup group(world);
      onEachRank(group, [&](Communicator &communicator) {
        EXPECT_EQ(communicator.world(), world);
        for (int repeat = 0; repeat < 3; ++repeat) {
          std::vector<float> data(size_t(count) + 1, 77);
          for (int64_t i = 0; i < count; ++i)
            data[size_t(i)] = element(communicator.rank(), i + repeat);
          ASSERT_TRUE(communicator.allReduce(data.data(), count, DType::F32, "sums"));
          EXPECT_EQ(data[size_t(count)], 77) << "written past the end";
          for (int64_t i = 0; i < count; ++i) {
            float sum = element(0, i + repeat);
            for (int rank = 1; rank < world; ++rank)
              sum += element(rank, i + repeat);
            ASSERT_EQ(data[size_t(i)], sum) << world << " ranks, element " << i;
          }
        }
      });
    }
}

TEST(LocalCommunicator, RoundsBf16Once) {
  constexpr int64_t count = 5001;
  LocalGroup group(3);
  onEachRank(group, [&](Communicator &communicator) {
    std::vector<uint16_t> data(count);
    for (int64_t i = 0; i < count; ++i)
      data[size_t(i)] = toBf16(element(communicator.rank(), i));
    ASSERT_TRUE(communicator.allReduce(data.data(), count, DType::BF16, "sums"));
    for (int64_t i = 0; i < count; ++i) {
      float sum = fromBf16(toBf16(element(0, i)));
      sum += fromBf16(toBf16(element(1, i)));
      sum += fromBf16(toBf16(element(2, i)));
      ASSERT_EQ(data[size_t(i)], toBf16(sum)) << i;
    }
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
    Status status = communicator.allReduce(&value, 1, DType::F32, "loss");
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
        return communicator.allReduce(data.data(), 4 + communicator.rank(), DType::F32, "x");
      },
      "rank 1 calls all-reduce 'x' of 5 f32 where rank 0 calls all-reduce 'x' of 4 f32");
  expectDifference(
      [](Communicator &communicator) {
        float value = 0;
        return communicator.rank() ? communicator.barrier("b")
                                   : communicator.allReduce(&value, 1, DType::F32, "x");
      },
      "rank 1 calls barrier 'b' where rank 0 calls all-reduce 'x' of 1 f32");
  expectDifference(
      [](Communicator &communicator) {
        int32_t value = 0;
        return communicator.allReduce(&value, 1, DType::I32, "x");
      },
      "cannot add up elements of type i32");
}

TEST(LocalCommunicator, TimeoutNamesTheAbsentRank) {
  LocalGroup group(3, 50ms);
  onEachRank(group, [&](Communicator &communicator) {
    ASSERT_TRUE(communicator.barrier("start"));
    if (communicator.rank() == 2)
      return;
    Status status = communicator.barrier("end");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message,
              "barrier 'end' on rank " + std::to_string(communicator.rank()) +
                  ": rank 2 (last seen in barrier 'start') did not come within 0.05 s");
  });
}

} // namespace
} // namespace nano
