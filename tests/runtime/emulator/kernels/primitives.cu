// Kernels that show what each primitive does; their tests know what must come out.
#include "nano_functions.h"
#include "test_launch.h"

/// Every shuffle: out[row][lane].
TEST_KERNEL(shuffles, 1) {
  uint32_t *out = launch.arg<uint32_t>(0) + threadIdx.x;
  uint32_t mine = 100 + threadIdx.x;
  out[0] = nano::shuffle(mine, 5);
  out[32] = nano::shuffle(mine, int(threadIdx.x + 1));
  out[64] = nano::shuffleXor(mine, 4);
  out[96] = nano::shuffleDown(mine, 3);
  out[128] = nano::shuffleUp(mine, 2);
  int64_t wide = nano::shuffleXor((int64_t(mine) << 32) | 7, 1);
  out[160] = uint32_t(wide >> 32) + uint32_t(wide & 15);
  out[192] = nano::bitCast<uint32_t>(nano::shuffle(float(mine), 31));
  if (threadIdx.x % 2)
    out[224] = nano::shuffleXor(mine, 2, 0xaaaaaaaau);
  else
    out[224] = nano::shuffleXor(mine, 4, 0x55555555u);
}

/// Votes, sums and maxima of a warp: out[row][lane].
TEST_KERNEL(votes, 2) {
  const float *x = launch.arg<const float>(0);
  uint32_t *out = launch.arg<uint32_t>(1) + threadIdx.x;
  int lane = nano::laneIndex();
  float value = x[lane];
  out[0] = nano::ballot(value > 0);
  out[32] = nano::anyLane(value > 1000) + 2 * nano::anyLane(lane == 3);
  out[64] = nano::allLanes(value < 1000) + 2 * nano::allLanes(lane != 3);
  out[96] = nano::bitCast<uint32_t>(nano::warpSum(value));
  out[128] = nano::bitCast<uint32_t>(nano::warpMax(value));
  out[160] = uint32_t(nano::warpSum(lane - 40));
  out[192] = uint32_t(nano::warpMax(lane - 40));
  out[224] = nano::warpMax(uint32_t(lane) * 0x10000000u);
  out[256] = nano::electLane() ? 1 : 0;
}

/// Conversions of f32: bf16, e4m3, e5m2 and their packed forms.
TEST_KERNEL(encode, 6) {
  const float *x = launch.arg<const float>(0);
  int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  launch.arg<nano::bf16>(1)[i] = nano::bf16(x[i]);
  launch.arg<nano::f8e4m3>(2)[i] = nano::f8e4m3(x[i]);
  launch.arg<nano::f8e5m2>(3)[i] = nano::f8e5m2(x[i]);
  launch.arg<uint32_t>(4)[i] = nano::packBf16(x[i], -x[i]);
  launch.arg<uint32_t>(5)[i] = nano::packE4m3(x[i], -x[i]) | uint32_t(nano::packE5m2(x[i], -x[i]))
                                                                 << 16;
}

/// Bytes of two words, by every selector of two different digits.
TEST_KERNEL(select_bytes, 1) {
  uint32_t selector = threadIdx.x % 8 * 0x1010u | threadIdx.x / 8 * 0x0101u;
  launch.arg<uint32_t>(0)[threadIdx.x] = nano::selectBytes(0x44332211u, 0x88776655u, selector);
}

/// Their values: all codes of bf16, and of both f8.
TEST_KERNEL(decode, 4) {
  int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  nano::bf16 wide;
  wide.bits = uint16_t(i);
  launch.arg<float>(0)[i] = wide;
  if (i < 256) {
    nano::f8e4m3 first;
    nano::f8e5m2 second;
    first.bits = second.bits = uint8_t(i);
    launch.arg<float>(1)[i] = first;
    launch.arg<float>(2)[i] = second;
    float low = 0, high = 0;
    nano::unpackE4m3(uint16_t(i << 8 | 0x38), low, high);
    float sum = low == 1.0f ? high : -1.0f;
    nano::unpackE5m2(uint16_t(i | 0x3c00), low, high);
    bool isSame = nano::bitCast<uint32_t>(sum) == nano::bitCast<uint32_t>(float(first)) &&
                  nano::bitCast<uint32_t>(low) == nano::bitCast<uint32_t>(float(second));
    launch.arg<float>(3)[i] = isSame && high == 1.0f && nano::lowBf16(0x40003f80) == 1.0f &&
                                      nano::highBf16(0x40003f80) == 2.0f
                                  ? 1.0f
                                  : 0.0f;
  }
}

/// Loads and stores of every size, with every hint.
TEST_KERNEL(moves, 2) {
  const uint8_t *x = launch.arg<const uint8_t>(0);
  uint8_t *y = launch.arg<uint8_t>(1);
  struct alignas(16) Sixteen {
    uint32_t x[4];
  };
  int t = int(threadIdx.x);
  auto from = [&](int part) { return x + 1024 * part; };
  auto to = [&](int part) { return y + 1024 * part; };
  nano::storeStreaming(reinterpret_cast<Sixteen *>(to(0)) + t,
                       nano::loadReadOnly(reinterpret_cast<const Sixteen *>(from(0)) + t));
  nano::storeStreaming(reinterpret_cast<int64_t *>(to(1)) + t,
                       nano::loadOnce(reinterpret_cast<const int64_t *>(from(1)) + t));
  nano::storeStreaming(reinterpret_cast<float *>(to(2)) + t,
                       nano::loadReadOnly(reinterpret_cast<const float *>(from(2)) + t));
  nano::storeStreaming(reinterpret_cast<nano::bf16 *>(to(3)) + t,
                       nano::loadOnce(reinterpret_cast<const nano::bf16 *>(from(3)) + t));
  nano::storeStreaming(reinterpret_cast<nano::f8e4m3 *>(to(4)) + t,
                       nano::loadReadOnly(reinterpret_cast<const nano::f8e4m3 *>(from(4)) + t));
}

/// Numbers added to those of another order in memory.
TEST_KERNEL(adds_in_memory, 2) {
  struct alignas(16) Four {
    float x[4];
  };
  int t = int(threadIdx.x);
  float *y = launch.arg<float>(1);
  const Four four = launch.arg<const Four>(0)[t];
  reinterpret_cast<Four *>(y)[t] = four;
  nano::syncThreads();
  nano::addInMemory(y + 4 * (31 - t), four.x);
}

/// Stores of 16 and 8 bytes by one access each, to shared memory, and from there to global memory.
TEST_KERNEL(whole_stores, 2) {
  struct alignas(16) Sixteen {
    uint32_t x[4];
  };
  __shared__ Sixteen sixteen[32];
  __shared__ uint64_t eight[32];
  int t = int(threadIdx.x);
  nano::storeWhole(sixteen + t, launch.arg<const Sixteen>(0)[t]);
  nano::storeWhole(eight + t, launch.arg<const uint64_t>(0)[64 + t]);
  nano::syncThreads();
  nano::storeWhole(launch.arg<Sixteen>(1) + t, sixteen[31 - t]);
  nano::storeWhole(launch.arg<uint64_t>(1) + 64 + t, eight[31 - t]);
}

/// ldmatrix of 1, 2 and 4 matrices, and transposed: fragments as they are.
TEST_KERNEL(load_matrix, 2) {
  __shared__ __align__(16) uint16_t tile[4 * 64];
  const uint16_t *x = launch.arg<const uint16_t>(0);
  for (int i = int(threadIdx.x); i < 256; i += 32)
    tile[i] = x[i];
  nano::syncThreads();
  uint32_t *out = launch.arg<uint32_t>(1) + threadIdx.x;
  const uint16_t *row = tile + 8 * threadIdx.x;
  uint32_t one[1], two[2], four[4];
  nano::loadMatrix(one, row);
  out[0] = one[0];
  nano::loadMatrixTransposed(one, row);
  out[32] = one[0];
  nano::loadMatrix(two, row);
  nano::loadMatrix(four, row);
  for (int i = 0; i < 2; ++i)
    out[64 + 32 * i] = two[i];
  for (int i = 0; i < 4; ++i)
    out[128 + 32 * i] = four[i];
  nano::loadMatrixTransposed(two, row);
  nano::loadMatrixTransposed(four, row);
  for (int i = 0; i < 2; ++i)
    out[256 + 32 * i] = two[i];
  for (int i = 0; i < 4; ++i)
    out[320 + 32 * i] = four[i];
}

/// stmatrix after ldmatrix: a copy, and a transpose.
TEST_KERNEL(store_matrix, 3) {
  __shared__ __align__(16) uint16_t tile[4 * 64], copy[4 * 64], turned[4 * 64];
  const uint16_t *x = launch.arg<const uint16_t>(0);
  for (int i = int(threadIdx.x); i < 256; i += 32)
    tile[i] = x[i];
  nano::syncThreads();
  uint32_t fragment[4];
  nano::loadMatrix(fragment, tile + 8 * threadIdx.x);
  nano::storeMatrix(copy + 8 * threadIdx.x, fragment);
  nano::storeMatrixTransposed(turned + 8 * threadIdx.x, fragment);
  nano::syncThreads();
  for (int i = int(threadIdx.x); i < 256; i += 32) {
    launch.arg<uint16_t>(1)[i] = copy[i];
    launch.arg<uint16_t>(2)[i] = turned[i];
  }
}

/// One product of a warp; A is 16 × K row by row, B is K × 8 column by column, in 16-bit words.
template <typename A, typename B> NANO_DEVICE void product(const TestLaunch<3> &launch) {
  __shared__ __align__(16) uint16_t a[16 * 16], b[8 * 16];
  int t = int(threadIdx.x);
  for (int i = t; i < 256; i += 32)
    a[i] = launch.arg<const uint16_t>(0)[i];
  for (int i = t; i < 128; i += 32)
    b[i] = launch.arg<const uint16_t>(1)[i];
  nano::syncThreads();
  uint32_t left[4], right[2];
  nano::loadMatrix(left, a + t % 16 * 16 + t / 16 * 8);
  nano::loadMatrix(right, b + t % 8 * 16 + t / 8 % 2 * 8);
  float sum[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  nano::matrixMultiply<A, B>(sum, left, right);
  float *out = launch.arg<float>(2);
  for (int i = 0; i < 4; ++i)
    out[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = sum[i];
}
TEST_KERNEL(product_bf16, 3) { product<nano::bf16, nano::bf16>(launch); }
TEST_KERNEL(product_e4m3, 3) { product<nano::f8e4m3, nano::f8e4m3>(launch); }
TEST_KERNEL(product_e5m2, 3) { product<nano::f8e5m2, nano::f8e5m2>(launch); }
TEST_KERNEL(product_mixed, 3) { product<nano::f8e4m3, nano::f8e5m2>(launch); }
TEST_KERNEL(product_mixed_too, 3) { product<nano::f8e5m2, nano::f8e4m3>(launch); }

/// Copies of 4, 8 and 16 bytes, whole and with zeros behind them.
TEST_KERNEL(copies, 2) {
  __shared__ __align__(16) uint8_t tile[6 * 512];
  const uint8_t *x = launch.arg<const uint8_t>(0);
  int t = int(threadIdx.x);
  nano::copyAsync<16>(tile + 16 * t, x + 16 * t);
  nano::copyAsync<8>(tile + 512 + 8 * t, x + 512 + 8 * t);
  nano::copyAsync<4>(tile + 1024 + 4 * t, x + 1024 + 4 * t);
  nano::copyAsyncCommit();
  nano::copyAsync<16>(tile + 1536 + 16 * t, x + 1536 + 16 * t, t % 17);
  nano::copyAsync<8>(tile + 2048 + 8 * t, x + 2048 + 8 * t, t % 9);
  nano::copyAsync<4>(tile + 2560 + 4 * t, x + 2560 + 4 * t, t % 5);
  nano::copyAsyncCommit();
  nano::copyAsyncWait<1>();
  uint8_t *y = launch.arg<uint8_t>(1);
  for (int i = 0; i < 16; ++i)
    y[16 * t + i] = tile[16 * t + i];
  nano::copyAsyncWait<0>();
  nano::syncThreads();
  for (int part = 1; part < 6; ++part)
    for (int i = t; i < (part % 3 == 0 ? 512 : part % 3 == 1 ? 256 : 128); i += 32)
      y[512 * part + i] = tile[512 * part + i];
}

/// What the destination holds before the wait, and after it. Not for checked runs.
TEST_KERNEL(copy_is_late, 2) {
  __shared__ __align__(16) uint32_t tile[32];
  uint32_t *out = launch.arg<uint32_t>(1) + threadIdx.x;
  out[0] = tile[threadIdx.x];
  nano::copyAsync<4>(tile + threadIdx.x, launch.arg<const uint32_t>(0) + threadIdx.x);
  nano::copyAsyncCommit();
  nano::syncThreads();
  out[32] = tile[threadIdx.x];
  nano::copyAsyncWait<0>();
  out[64] = tile[threadIdx.x];
}

/// Sums over a block by a tree in shared memory, votes of the block.
TEST_KERNEL(block_sum, 2) {
  __shared__ float values[128];
  float *out = launch.arg<float>(1) + 3 * blockIdx.x;
  int t = int(threadIdx.x);
  float mine = launch.arg<const float>(0)[128 * blockIdx.x + t];
  values[t] = mine;
  for (int width = 64; width > 0; width /= 2) {
    nano::syncThreads();
    if (t < width)
      values[t] += values[t + width];
  }
  bool any = nano::syncThreadsAny(mine == 77.0f), all = nano::syncThreadsAll(mine < 300.0f);
  if (t == 0) {
    out[0] = values[0];
    out[1] = any ? 1.0f : 0.0f;
    out[2] = all ? 1.0f : 0.0f;
  }
}

/// One warp hands tiles to the other one through two named barriers.
TEST_KERNEL(producer_consumer, 2) {
  __shared__ float tile[2][32];
  int lane = nano::laneIndex();
  const float *x = launch.arg<const float>(0);
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    int slot = i % 2;
    if (nano::warpIndex() == 0) {
      if (i >= 2)
        nano::barrierSync(3 + slot, 64);
      tile[slot][lane] = x[32 * i + lane];
      nano::barrierArrive(1 + slot, 64);
    } else {
      nano::barrierSync(1 + slot, 64);
      sum += tile[slot][31 - lane];
      if (i < 6)
        nano::barrierArrive(3 + slot, 64);
    }
  }
  if (nano::warpIndex() == 1)
    launch.arg<float>(1)[lane] = sum;
}

/// Atomic operations of many blocks.
TEST_KERNEL(atomics, 1) {
  uint32_t *words = launch.arg<uint32_t>(0);
  auto *numbers = reinterpret_cast<int32_t *>(words);
  uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  nano::fetchAdd(words, index);
  nano::fetchMax(words + 1, index);
  nano::fetchAdd(numbers + 2, -1);
  nano::fetchMax(numbers + 3, -int32_t(index) - 5);
  nano::fetchOr(words + 4, 1u << (index % 32));
}

/// The order in which threads come, which the schedule decides.
TEST_KERNEL(order, 2) {
  uint32_t place = nano::fetchAdd(launch.arg<uint32_t>(0), 1u);
  launch.arg<uint32_t>(1)[place] = threadIdx.x;
}

/// Mathematical functions of the library against the emulator's own: that they are there.
TEST_KERNEL(functions, 2) {
  float x = launch.arg<const float>(0)[threadIdx.x];
  float *y = launch.arg<float>(1) + threadIdx.x;
  int row = 0;
  auto put = [&](float value) { y[32 * row++] = value; };
  put(nano::exp(x));
  put(nano::exp2(x));
  put(nano::expm1(x));
  put(nano::log(x));
  put(nano::log2(x));
  put(nano::log1p(x));
  put(nano::pow(x, 1.5f));
  put(nano::sin(x));
  put(nano::cos(x));
  put(nano::tanh(x));
  put(nano::erf(x));
  put(nano::sqrt(x));
  put(nano::fma(x, x, 1.0f));
  put(nano::floor(x));
  put(nano::ceil(x));
  put(nano::roundEven(x));
  put(nano::abs(-x));
  put(nano::copySign(x, -1.0f));
  put(nano::max(x, 1.0f));
  put(nano::min(x, 1.0f));
  put(nano::maximum(x, 1.0f));
  put(nano::minimum(x, 1.0f));
  put(nano::approximateExp2(x));
  put(nano::approximateLog2(x));
  put(nano::approximateSqrt(x));
  put(nano::approximateRsqrt(x));
  put(nano::approximateReciprocal(x));
  put(nano::approximateSine(x / 3)); // up to π
  put(nano::approximateCosine(x / 3));
  put(nano::approximateTanh(x));
}
