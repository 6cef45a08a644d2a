// Kernels of mbarriers, bulk copies, clusters and warpgroup products: each right, and many with one
// fault planted.
#include "nano_hopper.h"
#include "test_launch.h"

/// Initialises barriers for the block; thread 0 does it, all go on when they are ready.
NANO_DEVICE void start(nano::Mbarrier *barriers, int count, uint32_t arrivals, bool fence = true) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i)
      nano::mbarrierInit(barriers + i, arrivals);
    if (fence)
      nano::fenceMbarrierInit();
  }
  nano::syncThreads();
}

/// A warp brings tiles by bulk copies, three stages deep; a warpgroup adds them up.
template <bool Broken> NANO_DEVICE void pipeline(const TestLaunch<2> &launch) {
  constexpr int stages = 3, tiles = 10, size = 128;
  __shared__ __align__(16) float tile[stages][size];
  __shared__ nano::Mbarrier full[stages], empty[stages];
  start(full, stages, 1);
  start(empty, stages, 128);
  const float *x = launch.arg<const float>(0);
  if (threadIdx.x >= 128) {
    for (int i = 0; threadIdx.x == 128 && i < tiles; ++i) {
      int stage = i % stages;
      nano::mbarrierWait(empty + stage, uint32_t(i / stages + 1) & 1);
      nano::mbarrierArriveExpect(full + stage, size * 4);
      nano::bulkLoad(tile[stage], x + size * i, size * 2, full + stage);
      nano::bulkLoad(tile[stage] + size / 2, x + size * i + size / 2, size * 2, full + stage);
    }
    return;
  }
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    int stage = i % stages;
    if (!Broken || threadIdx.x != 77 || i != 4)
      nano::mbarrierWait(full + stage, uint32_t(i / stages) & 1);
    sum += tile[stage][127 - threadIdx.x]; // @pipeline
    nano::mbarrierArrive(empty + stage);
  }
  launch.arg<float>(1)[threadIdx.x] = sum;
}
TEST_PAIR(pipeline, 2)

/// As above with a loop around mbarrierTryWait.
template <bool Broken> NANO_DEVICE void try_wait(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[32];
  __shared__ nano::Mbarrier full;
  start(&full, 1, 1);
  if (threadIdx.x == 0) {
    nano::mbarrierArriveExpect(&full, Broken ? 256 : 128);
    nano::bulkLoad(tile, launch.arg<const float>(0), 128, &full);
  }
  while (!nano::mbarrierTryWait(&full, 0)) { // @try_wait
  }
  launch.arg<float>(1)[threadIdx.x] = tile[31 - threadIdx.x];
}
TEST_PAIR(try_wait, 2)

/// Consumers overwrite a tile that a bulk store still reads.
template <bool Broken> NANO_DEVICE void store_reuse(const TestLaunch<1> &launch) {
  __shared__ __align__(16) float tile[32];
  float *y = launch.arg<float>(0);
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = float(32 * i + threadIdx.x); // @store_reuse
    nano::fenceProxyAsync();
    nano::syncThreads();
    if (threadIdx.x == 0) {
      nano::bulkStore(y + 32 * i, tile, 128);
      nano::bulkCommit();
      if (!Broken)
        nano::bulkWaitRead<0>();
    }
    nano::syncThreads();
  }
  if (threadIdx.x == 0)
    nano::bulkWait<0>();
}
TEST_PAIR(store_reuse, 1)

/// A bulk store of what was written with no proxy fence.
template <bool Broken> NANO_DEVICE void store_fence(const TestLaunch<1> &launch) {
  __shared__ __align__(16) float tile[32];
  tile[threadIdx.x] = float(threadIdx.x); // @store_fence_write
  if (!Broken)
    nano::fenceProxyAsync();
  nano::syncThreads();
  if (threadIdx.x == 0) {
    nano::bulkStore(launch.arg<float>(0), tile, 128); // @store_fence
    nano::bulkCommit();
    nano::bulkWait<0>();
  }
}
TEST_PAIR(store_fence, 1)

/// A block ends before its bulk store has read.
template <bool Broken> NANO_DEVICE void store_end(const TestLaunch<1> &launch) {
  __shared__ __align__(16) float tile[32];
  tile[threadIdx.x] = float(threadIdx.x);
  nano::fenceProxyAsync();
  nano::syncThreads();
  if (threadIdx.x == 0) {
    nano::bulkStore(launch.arg<float>(0), tile, 128); // @store_end
    nano::bulkCommit();
    if (!Broken)
      nano::bulkWaitRead<0>();
  }
}
TEST_PAIR(store_end, 1)

/// A bulk load whose mbarrier nobody waits for.
template <bool Broken> NANO_DEVICE void load_end(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[32];
  __shared__ nano::Mbarrier full;
  start(&full, 1, 1);
  if (threadIdx.x == 0) {
    nano::mbarrierArriveExpect(&full, 128);
    nano::bulkLoad(tile, launch.arg<const float>(0), 128, &full); // @load_end
  }
  if (!Broken)
    nano::mbarrierWait(&full, 0);
  launch.arg<float>(1)[threadIdx.x] = 1.0f;
}
TEST_PAIR(load_end, 2)

/// An mbarrier that copies may not see yet.
template <bool Broken> NANO_DEVICE void init_fence(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[32];
  __shared__ nano::Mbarrier full;
  start(&full, 1, 1, !Broken);
  if (threadIdx.x == 0) {
    nano::mbarrierArriveExpect(&full, 128);
    nano::bulkLoad(tile, launch.arg<const float>(0), 128, &full); // @init_fence
  }
  nano::mbarrierWait(&full, 0);
  launch.arg<float>(1)[threadIdx.x] = tile[threadIdx.x];
}
TEST_PAIR(init_fence, 2)

/// An mbarrier that other threads may not see yet.
template <bool Broken> NANO_DEVICE void init_race(const TestLaunch<1> &launch) {
  __shared__ nano::Mbarrier barrier;
  if (threadIdx.x == 0)
    nano::mbarrierInit(&barrier, 32);
  if (!Broken)
    nano::syncThreads();
  nano::mbarrierArrive(&barrier); // @init_race
  nano::mbarrierWait(&barrier, 0);
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(init_race, 1)

/// More arrivals than the barrier is for, while bytes are missing.
template <bool Broken> NANO_DEVICE void arrivals(const TestLaunch<1> &launch) {
  __shared__ nano::Mbarrier barrier;
  start(&barrier, 1, Broken ? 31 : 32);
  if (threadIdx.x == 0)
    nano::mbarrierExpect(&barrier, Broken ? 16 : 0);
  nano::syncThreads();
  nano::mbarrierArrive(&barrier); // @arrivals
  nano::mbarrierWait(&barrier, 0);
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(arrivals, 1)

/// The wrong parity: the wait never ends.
template <bool Broken> NANO_DEVICE void parity(const TestLaunch<1> &launch) {
  __shared__ nano::Mbarrier barrier;
  start(&barrier, 1, 32);
  nano::mbarrierArrive(&barrier);
  nano::mbarrierWait(&barrier, 0);
  if (Broken)
    nano::mbarrierWait(&barrier, 0 + uint32_t(launch.segments)); // @parity
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(parity, 1)

/// The bytes of an mbarrier as data.
template <bool Broken> NANO_DEVICE void barrier_bytes(const TestLaunch<1> &launch) {
  __shared__ nano::Mbarrier barrier;
  start(&barrier, 1, 32);
  if (!Broken) {
    nano::syncThreads();
    if (threadIdx.x == 0)
      nano::mbarrierInvalidate(&barrier);
    nano::syncThreads();
  }
  if (threadIdx.x == 0)
    barrier.state = 1; // @barrier_bytes
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(barrier_bytes, 1)

/// A bulk copy to a multiple of 8.
template <bool Broken> NANO_DEVICE void bulk_misaligned(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[36];
  __shared__ nano::Mbarrier full;
  start(&full, 1, 1);
  if (threadIdx.x == 0) {
    nano::mbarrierArriveExpect(&full, 128);
    float *to = tile + (Broken ? 2 : 4);
    nano::bulkLoad(to, launch.arg<const float>(0), 128, &full); // @bulk_misaligned
  }
  nano::mbarrierWait(&full, 0);
  launch.arg<float>(1)[threadIdx.x] = tile[threadIdx.x + 4];
}
TEST_PAIR(bulk_misaligned, 2)

/// Copies of each thread that end at an mbarrier.
template <bool Broken> NANO_DEVICE void copy_arrive(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[128];
  __shared__ nano::Mbarrier full;
  start(&full, 1, 32);
  nano::copyAsync<16>(tile + 4 * threadIdx.x, launch.arg<const float>(0) + 4 * threadIdx.x);
  nano::copyAsyncArrive(&full);
  if (!Broken)
    nano::mbarrierWait(&full, 0);
  launch.arg<float>(1)[threadIdx.x] = tile[127 - threadIdx.x]; // @copy_arrive
}
TEST_PAIR(copy_arrive, 2)
