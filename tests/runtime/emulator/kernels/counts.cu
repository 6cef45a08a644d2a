// Blocks that add to the same sums one after the other, by a ticket and a count: right, and with
// one fault planted.
#include "nano_hopper.h"
#include "test_launch.h"

enum class Fault { None, Backwards, NoWait, NoFence, ToldEarly, NothingStored, ReadEarly };

/// Operands: a ticket and a count; sums; the sums twice. Block number n adds 100·n + i to sum i
/// behind the blocks before it; the last one reads the sums.
template <Fault fault> NANO_DEVICE void chain(const TestLaunch<3> &launch) {
  __shared__ __align__(16) float tile[32];
  __shared__ int32_t ticket;
  auto *counts = launch.arg<int32_t>(0);
  auto *sums = launch.arg<float>(1);
  if (threadIdx.x == 0)
    ticket = nano::fetchAdd(counts, 1);
  nano::syncThreads();
  const int blocks = int(gridDim.x),
            number = fault == Fault::Backwards ? blocks - 1 - ticket : ticket;
  if (number + 1 == blocks) {
    if (threadIdx.x == 0 && fault != Fault::ReadEarly)
      nano::waitForCount(counts + 1, number); // @count_wait
    nano::syncWarp();
    launch.arg<float>(2)[threadIdx.x] = 2 * sums[threadIdx.x]; // @count_read
    return;
  }
  tile[threadIdx.x] = float(100 * number + int(threadIdx.x));
  nano::fenceProxyAsync();
  nano::syncThreads();
  if (threadIdx.x > 0)
    return;
  if (number > 0 || fault == Fault::NothingStored) {
    if (fault != Fault::NoWait)
      while (!nano::hasCount(counts + 1, number))
        nano::waitForCount(counts + 1, number);
    if (fault != Fault::NoFence)
      nano::fenceProxyGlobal();
    nano::bulkAdd(sums, tile, 128); // @count_add
  } else {
    nano::bulkStore(sums, tile, 128);
  }
  nano::bulkCommit();
  if (fault == Fault::ToldEarly)
    nano::addToCount(counts + 1);
  nano::bulkWait<0>();
  nano::fenceProxyGlobal();
  if (fault != Fault::ToldEarly)
    nano::addToCount(counts + 1);
}

#define CHAIN(NAME)                                                                                \
  TEST_KERNEL(chain_##NAME, 3) { chain<Fault::NAME>(launch); }
CHAIN(None)
CHAIN(Backwards)
CHAIN(NoWait)
CHAIN(NoFence)
CHAIN(ToldEarly)
CHAIN(NothingStored)
CHAIN(ReadEarly)
