// Small kernels, each with one fault that the emulator must find, and without it.
#include "test_launch.h"

/// 64 threads hand a value to their neighbour through shared memory.
template <bool Broken> NANO_DEVICE void race_shared(const TestLaunch<1> &launch) {
  __shared__ float values[64];
  values[threadIdx.x] = 0.0f;
  nano::syncThreads();
  values[threadIdx.x] = float(threadIdx.x); // @race_shared_write
  if (!Broken)
    nano::syncThreads();
  launch.arg<float>(0)[threadIdx.x] = values[63 - threadIdx.x]; // @race_shared_read
}
TEST_PAIR(race_shared, 1)

/// A value is overwritten that others may still read.
template <bool Broken> NANO_DEVICE void race_reuse(const TestLaunch<1> &launch) {
  __shared__ float values[64];
  values[threadIdx.x] = float(threadIdx.x);
  nano::syncThreads();
  float sum = values[63 - threadIdx.x]; // @race_reuse_read
  if (!Broken)
    nano::syncThreads();
  values[threadIdx.x] = 2.0f; // @race_reuse_write
  nano::syncThreads();
  launch.arg<float>(0)[threadIdx.x] = sum + values[63 - threadIdx.x];
}
TEST_PAIR(race_reuse, 1)

/// Lanes of one warp share memory; a shuffle orders nothing.
template <bool Broken> NANO_DEVICE void race_warp(const TestLaunch<1> &launch) {
  __shared__ float values[32];
  values[threadIdx.x] = float(threadIdx.x);
  float sum = nano::shuffle(1.0f, 0); // after which all have written
  if (!Broken)
    nano::syncWarp();
  launch.arg<float>(0)[threadIdx.x] = sum + values[31 - threadIdx.x]; // @race_warp
}
TEST_PAIR(race_warp, 1)

/// Threads of a block write one element of global memory.
template <bool Broken> NANO_DEVICE void race_global(const TestLaunch<1> &launch) {
  launch.arg<float>(0)[Broken ? threadIdx.x / 2 : threadIdx.x] = 1.0f; // @race_global
}
TEST_PAIR(race_global, 1)

/// Blocks of a launch write one element of global memory.
template <bool Broken> NANO_DEVICE void race_blocks(const TestLaunch<1> &launch) {
  if (threadIdx.x == 0)
    launch.arg<float>(0)[Broken ? 0 : blockIdx.x] = 1.0f; // @race_blocks
}
TEST_PAIR(race_blocks, 1)

/// A block reads what another one writes.
template <bool Broken> NANO_DEVICE void race_blocks_read(const TestLaunch<1> &launch) {
  float *x = launch.arg<float>(0);
  if (threadIdx.x == 0)
    x[2 * blockIdx.x] = Broken ? x[2 * ((blockIdx.x + 1) % gridDim.x)] : x[2 * blockIdx.x + 1];
}
TEST_PAIR(race_blocks_read, 1)

/// An atomic maximum of many blocks beside a plain store.
template <bool Broken> NANO_DEVICE void race_atomic(const TestLaunch<1> &launch) {
  uint32_t *most = launch.arg<uint32_t>(0);
  if (Broken && threadIdx.x == 3)
    *most = 5; // @race_atomic
  nano::fetchMax(most, blockIdx.x * 32 + threadIdx.x);
}
TEST_PAIR(race_atomic, 1)

/// Threads that add to the same numbers in memory, in no order.
template <bool Broken> NANO_DEVICE void race_add(const TestLaunch<1> &launch) {
  const float x = float(threadIdx.x), summands[4] = {x, x, x, x};
  float *to = launch.arg<float>(0) + 4 * (threadIdx.x / (Broken ? 2 : 1));
  nano::addInMemory(to, summands); // @race_add
}
TEST_PAIR(race_add, 1)

/// One element behind the end of shared memory.
template <bool Broken> NANO_DEVICE void bounds_shared(const TestLaunch<1> &launch) {
  float *values = nano::dynamicShared<float>();
  values[threadIdx.x + (Broken ? 1 : 0)] = 1.0f; // @bounds_shared
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(bounds_shared, 1)

/// One element behind the end of a buffer.
template <bool Broken> NANO_DEVICE void bounds_global(const TestLaunch<2> &launch) {
  float x = launch.arg<const float>(0)[threadIdx.x + (Broken ? 1 : 0)]; // @bounds_global
  launch.arg<float>(1)[threadIdx.x] = x;
}
TEST_PAIR(bounds_global, 2)

/// Likewise with a wide load.
template <bool Broken> NANO_DEVICE void bounds_wide(const TestLaunch<2> &launch) {
  struct alignas(16) Four {
    float x[4];
  };
  const Four *x = launch.arg<const Four>(0);
  Four four = nano::loadReadOnly(x + threadIdx.x + (Broken ? 1 : 0)); // @bounds_wide
  nano::storeStreaming(launch.arg<Four>(1) + threadIdx.x, four);
}
TEST_PAIR(bounds_wide, 2)

/// A store to an operand that is only read.
template <bool Broken> NANO_DEVICE void write_input(const TestLaunch<2> &launch) {
  launch.arg<float>(Broken ? 0 : 1)[threadIdx.x] = 1.0f; // @write_input
}
TEST_PAIR(write_input, 2)

/// A load from an output before anything has been stored there.
template <bool Broken> NANO_DEVICE void read_output(const TestLaunch<1> &launch) {
  float *y = launch.arg<float>(0);
  if (!Broken)
    y[threadIdx.x] = 0.0f;
  y[threadIdx.x] += 1.0f; // @read_output
}
TEST_PAIR(read_output, 1)

/// A 16-byte load from a multiple of 8.
template <bool Broken> NANO_DEVICE void misaligned(const TestLaunch<2> &launch) {
  struct alignas(16) Four {
    float x[4];
  };
  const float *x = launch.arg<const float>(0) + (Broken ? 2 : 4);
  launch.arg<Four>(1)[threadIdx.x] = reinterpret_cast<const Four *>(x)[threadIdx.x]; // @misaligned
}
TEST_PAIR(misaligned, 2)

/// Shared memory that nobody has written.
template <bool Broken> NANO_DEVICE void uninitialised(const TestLaunch<1> &launch) {
  __shared__ float values[32];
  if (!Broken || threadIdx.x != 7)
    values[threadIdx.x] = 1.0f;
  nano::syncThreads();
  launch.arg<float>(0)[threadIdx.x] = values[31 - threadIdx.x]; // @uninitialised
}
TEST_PAIR(uninitialised, 1)

/// A cp.async whose wait is missing.
template <bool Broken> NANO_DEVICE void copy_wait(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[128];
  const float *x = launch.arg<const float>(0) + 4 * threadIdx.x;
  nano::copyAsync<16>(tile + 4 * threadIdx.x, x); // @copy_start
  nano::copyAsyncCommit();
  if (!Broken)
    nano::copyAsyncWait<0>();
  nano::syncThreads();
  launch.arg<float>(1)[threadIdx.x] = tile[127 - 4 * threadIdx.x]; // @copy_wait
}
TEST_PAIR(copy_wait, 2)

/// Two groups of copies, of which the wait leaves the one that is read unfinished.
template <bool Broken> NANO_DEVICE void copy_groups(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[2][128];
  const float *x = launch.arg<const float>(0);
  for (int i = 0; i < 2; ++i) {
    nano::copyAsync<16>(tile[i] + 4 * threadIdx.x, x + 128 * i + 4 * threadIdx.x);
    nano::copyAsyncCommit();
  }
  nano::copyAsyncWait<1>();
  nano::syncThreads();
  launch.arg<float>(1)[threadIdx.x] = tile[Broken ? 1 : 0][127 - 4 * threadIdx.x]; // @copy_groups
}
TEST_PAIR(copy_groups, 2)

/// The thread itself has waited, the others have not been told.
template <bool Broken> NANO_DEVICE void copy_barrier(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[128];
  nano::copyAsync<16>(tile + 4 * threadIdx.x, launch.arg<const float>(0) + 4 * threadIdx.x);
  nano::copyAsyncCommit();
  nano::copyAsyncWait<0>();
  if (!Broken)
    nano::syncThreads();
  launch.arg<float>(1)[threadIdx.x] = tile[127 - 4 * threadIdx.x];
}
TEST_PAIR(copy_barrier, 2)

/// A 16-byte copy to a multiple of 8.
template <bool Broken> NANO_DEVICE void copy_misaligned(const TestLaunch<2> &launch) {
  __shared__ __align__(16) float tile[136];
  const float *x = launch.arg<const float>(0) + 4 * threadIdx.x;
  nano::copyAsync<16>(tile + 4 * threadIdx.x + (Broken ? 2 : 4), x); // @copy_misaligned
  nano::copyAsyncCommit();
  nano::copyAsyncWait<0>();
  nano::syncThreads();
  launch.arg<float>(1)[threadIdx.x] = tile[4 + threadIdx.x];
}
TEST_PAIR(copy_misaligned, 2)

/// Half of the block waits in another line.
template <bool Broken> NANO_DEVICE void divergent_sync(const TestLaunch<1> &launch) {
  float value = 0;
  if (Broken && threadIdx.x >= 32) {
    value = 1;
    nano::syncThreads(); // @divergent_sync_one
  } else {
    nano::syncThreads(); // @divergent_sync_other
  }
  launch.arg<float>(0)[threadIdx.x] = value;
}
TEST_PAIR(divergent_sync, 1)

/// A shuffle whose mask names lanes that do not come.
template <bool Broken> NANO_DEVICE void divergent_shuffle(const TestLaunch<1> &launch) {
  float value = float(threadIdx.x);
  if (threadIdx.x < 16)
    value = nano::shuffleXor(value, 1, Broken ? 0xffffffffu : 0xffffu); // @divergent_shuffle
  launch.arg<float>(0)[threadIdx.x] = value;
}
TEST_PAIR(divergent_shuffle, 1)

/// Lanes of one warp in different primitives.
template <bool Broken> NANO_DEVICE void divergent_warp(const TestLaunch<1> &launch) {
  float value = float(threadIdx.x);
  if (Broken && threadIdx.x < 16)
    value = nano::warpMax(value); // @divergent_warp
  else
    value = nano::warpSum(value);
  launch.arg<float>(0)[threadIdx.x] = value;
}
TEST_PAIR(divergent_warp, 1)

/// A producer and a consumer warp with different ideas of the barrier's size.
template <bool Broken> NANO_DEVICE void named_count(const TestLaunch<1> &launch) {
  __shared__ float value;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      value = 3.0f;
    nano::barrierArrive(1, 64);
  } else if (threadIdx.x < 64) {
    nano::barrierSync(1, Broken ? 96 : 64);
    launch.arg<float>(0)[threadIdx.x - 32] = value;
  }
}
TEST_PAIR(named_count, 1)

/// Half a warp at a named barrier.
template <bool Broken> NANO_DEVICE void named_half(const TestLaunch<1> &launch) {
  if (!Broken || threadIdx.x % 32 < 16)
    nano::barrierSync(2, Broken ? 32 : 64); // @named_half
  nano::syncThreads();
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(named_half, 1)

/// Arrivals that nobody waits for.
template <bool Broken> NANO_DEVICE void named_left(const TestLaunch<1> &launch) {
  if (threadIdx.x < 32)
    nano::barrierArrive(1, 64); // @named_left
  else if (!Broken)
    nano::barrierSync(1, 64);
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(named_left, 1)

/// Two warps wait for each other at different barriers.
template <bool Broken> NANO_DEVICE void deadlock(const TestLaunch<1> &launch) {
  if (threadIdx.x < 32)
    nano::barrierSync(1, 64); // @deadlock_one
  else
    nano::barrierSync(Broken ? 2 : 1, 64); // @deadlock_other
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
TEST_PAIR(deadlock, 1)

/// A null pointer.
template <bool Broken> NANO_DEVICE void null_pointer(const TestLaunch<1> &launch) {
  float *y = Broken ? nullptr : launch.arg<float>(0);
  y[threadIdx.x] = 1.0f; // @null_pointer
}
TEST_PAIR(null_pointer, 1)

/// A fault inside a function that the kernel calls.
NANO_DEVICE float element(const float *x, int i) {
  return x[i]; // @inlined_element
}
template <bool Broken> NANO_DEVICE void inlined(const TestLaunch<2> &launch) {
  launch.arg<float>(1)[threadIdx.x] =
      element(launch.arg<const float>(0), int(threadIdx.x) - (Broken ? 1 : 0));
}
TEST_PAIR(inlined, 2)

/// A large structure is copied from where no buffer is.
template <bool Broken> NANO_DEVICE void bounds_struct(const TestLaunch<2> &launch) {
  struct Large {
    float x[512];
  };
  if (threadIdx.x == 0)
    launch.arg<Large>(1)[0] = launch.arg<const Large>(0)[Broken ? 1 : 0]; // @bounds_struct
}
TEST_PAIR(bounds_struct, 2)

/// Memory is moved up and down over itself, or from where no buffer is.
template <bool Broken> NANO_DEVICE void bounds_move(const TestLaunch<1> &launch) {
  float *x = launch.arg<float>(0);
  if (threadIdx.x != 0)
    return;
  for (int i = 0; i < 512; ++i)
    x[i] = float(i);
  __builtin_memmove(x + 3, x, 400 * sizeof(float));
  __builtin_memmove(x + 5, x + (Broken ? 312 : 9), 400 * sizeof(float)); // @bounds_move
  for (int i = 0; i < 400; ++i)
    if (x[5 + i] != float(i < 394 ? 6 + i : 9 + i))
      nano::trap();
}
TEST_PAIR(bounds_move, 1)

/// A load that takes its memory to be read only, and a store to it after a barrier.
template <bool Broken> NANO_DEVICE void constant_written(const TestLaunch<1> &launch) {
  float *x = launch.arg<float>(0);
  const float *from = x + (threadIdx.x ^ 1);
  float value = Broken ? nano::loadReadOnly(from) : *from;
  nano::syncThreads();
  x[threadIdx.x] = value + 1.0f; // @constant_written
}
TEST_PAIR(constant_written, 1)

/// Likewise, the store first.
template <bool Broken> NANO_DEVICE void written_constant(const TestLaunch<1> &launch) {
  float *x = launch.arg<float>(0);
  x[threadIdx.x] = 1.0f; // @written_constant_store
  nano::syncThreads();
  const float *from = x + (threadIdx.x ^ 1);
  float value = Broken ? nano::loadReadOnly(from) : *from; // @written_constant
  nano::syncThreads();
  x[threadIdx.x] = value;
}
TEST_PAIR(written_constant, 1)

/// Such a load from shared memory.
template <bool Broken> NANO_DEVICE void constant_shared(const TestLaunch<1> &launch) {
  float *own = nano::dynamicShared<float>() + threadIdx.x;
  *own = 1.0f;
  launch.arg<float>(0)[threadIdx.x] = Broken ? nano::loadReadOnly(own) : *own; // @constant_shared
}
TEST_PAIR(constant_shared, 1)

TEST_KERNEL(trap, 1) {
  if (threadIdx.x == 5)
    nano::trap(); // @trap
  launch.arg<float>(0)[threadIdx.x] = 1.0f;
}
