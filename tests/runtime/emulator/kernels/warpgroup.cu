// Products of a warpgroup: 64 × K by K × 64, K = 64 in bf16 and 128 in f8, in every layout.
#include "nano_hopper.h"
#include "test_launch.h"

/// Stores `rows` rows of 128 bytes in a swizzled tile, 8 rows of the width side by side in a block.
template <nano::Swizzle Mode, int Width>
NANO_DEVICE void fill(uint8_t *tile, const uint8_t *from, int rows) {
  for (int i = int(threadIdx.x); i < rows * 128; i += 128) {
    int row = i / 128, byte = i % 128;
    // Along a row, one block of 8 · Width bytes for all rows after the other.
    uint32_t at = uint32_t(byte / Width * rows * Width + row * Width + byte % Width);
    tile[nano::swizzled<Mode>(at)] = from[i];
  }
}

/// The sums of a thread to y, 64 × 64 row by row.
NANO_DEVICE void store(float *y, const float (&sum)[32]) {
  int warp = nano::warpIndex(), group = nano::laneIndex() / 4, pair = nano::laneIndex() % 4;
  for (int i = 0; i < 32; ++i)
    y[(16 * warp + group + (i % 4 / 2) * 8) * 64 + i / 4 * 8 + 2 * pair + i % 2] = sum[i];
}

/// A and B along K, rows of 128 bytes: y ← A · Bᵀ.
template <typename A, typename B, nano::Swizzle Mode, int Width>
NANO_DEVICE void along_k(const TestLaunch<3> &launch) {
  uint8_t *a = nano::dynamicShared<uint8_t>(), *b = a + 64 * 128;
  fill<Mode, Width>(a, launch.arg<const uint8_t>(0), 64);
  fill<Mode, Width>(b, launch.arg<const uint8_t>(1), 64);
  nano::fenceProxyAsync();
  nano::syncThreads();
  float sum[32];
  nano::warpgroupFence();
  for (int step = 0; step < 4; ++step) {
    // 32 bytes along K: within a width, or in the next block of rows.
    int byte = 32 * step, at = byte / Width * 64 * Width + byte % Width;
    nano::warpgroupMultiply<A, B>(sum, nano::matrixDescriptor(a + at, 64 * Width, 8 * Width, Mode),
                                  nano::matrixDescriptor(b + at, 64 * Width, 8 * Width, Mode),
                                  step > 0);
  }
  nano::warpgroupCommit();
  nano::warpgroupWait<0>();
  nano::warpgroupRegisters(sum);
  store(launch.arg<float>(2), sum);
}
TEST_KERNEL(k_128, 3) { along_k<nano::bf16, nano::bf16, nano::Swizzle::Bytes128, 128>(launch); }
TEST_KERNEL(k_64, 3) { along_k<nano::bf16, nano::bf16, nano::Swizzle::Bytes64, 64>(launch); }
TEST_KERNEL(k_32, 3) { along_k<nano::bf16, nano::bf16, nano::Swizzle::Bytes32, 32>(launch); }
TEST_KERNEL(k_none, 3) { along_k<nano::bf16, nano::bf16, nano::Swizzle::None, 16>(launch); }
TEST_KERNEL(k_f8, 3) { along_k<nano::f8e4m3, nano::f8e5m2, nano::Swizzle::Bytes128, 128>(launch); }

/// A from registers along K, B along N: y ← A · B.
template <bool Broken> NANO_DEVICE void along_n(const TestLaunch<3> &launch) {
  const auto *a = launch.arg<const uint32_t>(0); // 64 rows of 32 words
  uint8_t *b = nano::dynamicShared<uint8_t>();
  fill<nano::Swizzle::Bytes128, 128>(b, launch.arg<const uint8_t>(1), 64);
  nano::fenceProxyAsync();
  nano::syncThreads();
  int row = 16 * nano::warpIndex() + nano::laneIndex() / 4, pair = nano::laneIndex() % 4;
  float sum[32];
  if (!Broken)
    nano::warpgroupFence();
  for (int step = 0; step < 4; ++step) {
    const uint32_t *at = a + row * 32 + step * 8 + pair;
    uint32_t fragment[4] = {at[0], at[8 * 32], at[4], at[8 * 32 + 4]};
    // 16 rows of K are two blocks of 8 rows, 1024 bytes apart.
    nano::warpgroupMultiply<nano::bf16, nano::bf16, nano::Major::MN>(
        sum, fragment, nano::matrixDescriptor(b + 2048 * step, 8192, 1024, nano::Swizzle::Bytes128),
        step > 0);
  }
  nano::warpgroupCommit();
  nano::warpgroupWait<0>();
  store(launch.arg<float>(2), sum);
}
TEST_PAIR(along_n, 3)

/// Operands written with no proxy fence.
template <bool Broken> NANO_DEVICE void operand_fence(const TestLaunch<3> &launch) {
  uint8_t *a = nano::dynamicShared<uint8_t>(), *b = a + 64 * 128;
  fill<nano::Swizzle::Bytes128, 128>(a, launch.arg<const uint8_t>(0), 64);
  fill<nano::Swizzle::Bytes128, 128>(b, launch.arg<const uint8_t>(1), 64);
  if (!Broken)
    nano::fenceProxyAsync();
  nano::syncThreads();
  float sum[32];
  uint64_t left = nano::matrixDescriptor(a, 0, 1024, nano::Swizzle::Bytes128);
  uint64_t right = nano::matrixDescriptor(b, 0, 1024, nano::Swizzle::Bytes128);
  nano::warpgroupFence();
  nano::warpgroupMultiply<nano::bf16, nano::bf16>(sum, left, right, false); // @operand_fence
  nano::warpgroupCommit();
  nano::warpgroupWait<0>();
  store(launch.arg<float>(2), sum);
}
TEST_PAIR(operand_fence, 3)

/// An operand is overwritten while a product may still read it.
template <bool Broken> NANO_DEVICE void operand_reuse(const TestLaunch<3> &launch) {
  uint8_t *a = nano::dynamicShared<uint8_t>(), *b = a + 64 * 128;
  fill<nano::Swizzle::Bytes128, 128>(a, launch.arg<const uint8_t>(0), 64);
  fill<nano::Swizzle::Bytes128, 128>(b, launch.arg<const uint8_t>(1), 64);
  nano::fenceProxyAsync();
  nano::syncThreads();
  float sum[32];
  uint64_t left = nano::matrixDescriptor(a, 0, 1024, nano::Swizzle::Bytes128);
  uint64_t right = nano::matrixDescriptor(b, 0, 1024, nano::Swizzle::Bytes128);
  nano::warpgroupFence();
  nano::warpgroupMultiply<nano::bf16, nano::bf16>(sum, left, right, false);
  nano::warpgroupCommit();
  if (!Broken)
    nano::warpgroupWait<0>();
  nano::syncThreads();
  a[threadIdx.x] = 0; // @operand_reuse
  nano::warpgroupWait<0>();
  store(launch.arg<float>(2), sum);
}
TEST_PAIR(operand_reuse, 3)

/// Sums that are used before the wait hold nothing; the wait is missing altogether.
template <bool Broken> NANO_DEVICE void sums_wait(const TestLaunch<3> &launch) {
  uint8_t *a = nano::dynamicShared<uint8_t>(), *b = a + 64 * 128;
  fill<nano::Swizzle::Bytes128, 128>(a, launch.arg<const uint8_t>(0), 64);
  fill<nano::Swizzle::Bytes128, 128>(b, launch.arg<const uint8_t>(1), 64);
  nano::fenceProxyAsync();
  nano::syncThreads();
  float sum[32];
  nano::warpgroupFence();
  nano::warpgroupMultiply<nano::bf16, nano::bf16>(
      sum, nano::matrixDescriptor(a, 0, 1024, nano::Swizzle::Bytes128),
      nano::matrixDescriptor(b, 0, 1024, nano::Swizzle::Bytes128), false);
  nano::warpgroupCommit();
  if (!Broken)
    nano::warpgroupWait<0>();
  store(launch.arg<float>(2), sum);
}
TEST_PAIR(sums_wait, 3)
