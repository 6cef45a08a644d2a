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
/// Each block writes into the other one's memory, and tells it.
template <bool Broken> NANO_DEVICE void told(const TestLaunch<1> &launch) {
  auto *shared = nano::dynamicShared<ClusterShared>();
  uint32_t other = (nano::clusterRank() + 1) % 2;
  if (threadIdx.x == 0) {
    nano::mbarrierInit(&shared->told, 32);
    nano::fenceMbarrierInit();
  }
  nano::clusterSync();
  nano::clusterShared(shared->tile, other)[threadIdx.x] = float(blockIdx.x); // @told_write
  nano::mbarrierArriveRemote(&shared->told, other);
  nano::mbarrierWait(&shared->told, 0);
  if (!Broken)
    nano::clusterSync();
  launch.arg<float>(0)[32 * blockIdx.x + threadIdx.x] = shared->tile[31 - threadIdx.x]; // @told
  nano::clusterSync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    told_good(const __grid_constant__ TestLaunch<1> launch) {
  told<false>(launch);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    told_bad(const __grid_constant__ TestLaunch<1> launch) {
  told<true>(launch);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    cluster_good(const __grid_constant__ TestLaunch<2> launch) {
  cluster<false>(launch);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    cluster_bad(const __grid_constant__ TestLaunch<2> launch) {
  cluster<true>(launch);
}
