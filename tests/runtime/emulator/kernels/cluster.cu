// Clusters of two blocks.
#include "nano_hopper.h"
#include "test_launch.h"

struct ClusterShared {
  float tile[64];
  nano::Mbarrier full, told;
  float mine;
};

/// Two blocks: one loads for both, they read each other's memory, and tell each other.
template <bool Broken> NANO_DEVICE void cluster(const TestLaunch<2> &launch) {
  auto *shared = nano::dynamicShared<ClusterShared>();
  uint32_t rank = nano::clusterRank(), other = (rank + 1) % nano::clusterSize();
  if (threadIdx.x == 0) {
    nano::mbarrierInit(&shared->full, 1);
    nano::mbarrierInit(&shared->told, 32);
    nano::fenceMbarrierInit();
    shared->mine = float(100 + blockIdx.x);
    nano::mbarrierArriveExpect(&shared->full, 256);
  }
  nano::clusterSync();
  const float *x = launch.arg<const float>(0);
  if (threadIdx.x == 0) {
    // Each brings one half, for both.
    nano::bulkLoadMulticast(shared->tile + 32 * rank, x + 32 * rank, 128, &shared->full, 3);
  }
  nano::mbarrierWait(&shared->full, 0);
  float sum = shared->tile[threadIdx.x] + shared->tile[63 - threadIdx.x];
  sum += 1000 * *nano::clusterShared(&shared->mine, Broken ? other + 2 : other); // @cluster
  nano::mbarrierArriveRemote(&shared->told, other);
  nano::mbarrierWait(&shared->told, 0); // the other one has read
  launch.arg<float>(1)[32 * blockIdx.x + threadIdx.x] = sum;
  nano::clusterArrive();
  nano::clusterWait();
}
/// Each block writes into the other one's memory, and tells it: `Shown`, what it has written too.
template <bool Broken, bool Shown = false> NANO_DEVICE void told(const TestLaunch<1> &launch) {
  auto *shared = nano::dynamicShared<ClusterShared>();
  uint32_t other = (nano::clusterRank() + 1) % 2;
  if (threadIdx.x == 0) {
    nano::mbarrierInit(&shared->told, 32);
    nano::fenceMbarrierInit();
  }
  nano::clusterSync();
  nano::clusterShared(shared->tile, other)[threadIdx.x] = float(blockIdx.x); // @told_write
  if constexpr (Shown) {
    nano::mbarrierArriveCluster(&shared->told, other);
    nano::mbarrierWaitCluster(&shared->told, 0);
  } else {
    nano::mbarrierArriveRemote(&shared->told, other);
    nano::mbarrierWait(&shared->told, 0);
    if (!Broken)
      nano::clusterSync();
  }
  launch.arg<float>(0)[32 * blockIdx.x + threadIdx.x] = shared->tile[31 - threadIdx.x]; // @told
  nano::clusterSync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    told_good(const __grid_constant__ TestLaunch<1> launch) {
  told<false>(launch);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    told_shown(const __grid_constant__ TestLaunch<1> launch) {
  told<false, true>(launch);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    told_bad(const __grid_constant__ TestLaunch<1> launch) {
  told<true>(launch);
}

/// Each thread gives the other block two numbers in each of three turns, at two places in turns:
/// the third time after the other one has told, by its second, that it has read the first. Broken:
/// reads what it has not waited for.
template <bool Broken> NANO_DEVICE void given(const TestLaunch<1> &launch) {
  struct alignas(8) Pair {
    float first, second;
  };
  struct Given {
    Pair got[2][32];
    nano::Mbarrier arrived[2];
  };
  auto *shared = nano::dynamicShared<Given>();
  const uint32_t other = (nano::clusterRank() + 1) % 2;
  if (threadIdx.x == 0) {
    for (nano::Mbarrier &barrier : shared->arrived)
      nano::mbarrierInit(&barrier, 1);
    nano::fenceMbarrierInit();
    for (nano::Mbarrier &barrier : shared->arrived)
      nano::mbarrierArriveExpect(&barrier, sizeof shared->got[0]);
  }
  nano::clusterSync();
  const unsigned i = threadIdx.x;
  float sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    nano::Mbarrier *const arrived = shared->arrived + turn % 2;
    nano::storeAsyncRemote(shared->got[turn % 2] + i, Pair{float(i), float(blockIdx.x + 10 * turn)},
                           arrived, other);
    if (!Broken)
      nano::mbarrierWait(arrived, uint32_t(turn / 2));
    if (i == 0 && turn == 0)
      nano::mbarrierArriveExpect(arrived, sizeof shared->got[0]);
    const Pair pair = shared->got[turn % 2][31 - i]; // @given
    sum += pair.first + 100 * pair.second;
    nano::syncThreads();
  }
  launch.arg<float>(0)[32 * blockIdx.x + i] = sum;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    given_good(const __grid_constant__ TestLaunch<1> launch) {
  given<false>(launch);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    given_bad(const __grid_constant__ TestLaunch<1> launch) {
  given<true>(launch);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    cluster_good(const __grid_constant__ TestLaunch<2> launch) {
  cluster<false>(launch);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    cluster_bad(const __grid_constant__ TestLaunch<2> launch) {
  cluster<true>(launch);
}
