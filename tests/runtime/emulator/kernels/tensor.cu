// Loads of boxes by tensor maps: what they bring, products of it, and loads with one fault planted.
#include "nano_hopper.h"
#include "test_launch.h"

#define TENSOR_KERNEL(NAME, ARGS, MAPS)                                                            \
  extern "C" __global__ void NAME(const __grid_constant__ TestLaunch<ARGS> launch,                 \
                                  const __grid_constant__ nano::TensorMaps<MAPS> maps)

/// Initialises the barrier for one arrival; all threads of the block or cluster.
NANO_DEVICE void start(nano::Mbarrier *barrier, bool fence = true) {
  if (threadIdx.x == 0) {
    nano::mbarrierInit(barrier, 1);
    if (fence)
      nano::fenceMbarrierInit();
  }
  nano::syncThreads();
}

// ------------------------------------------------------------------------------------- Boxes

/// The box of 24 rows at (column, row), which operand 1 says, to operand 2 row by row.
template <nano::Swizzle Mode, int RowBytes>
NANO_DEVICE void box(const TestLaunch<3> &launch, const nano::TensorMap &map) {
  constexpr int bytes = 24 * RowBytes;
  uint8_t *tile = nano::dynamicShared<uint8_t>();
  auto *full = reinterpret_cast<nano::Mbarrier *>(tile + bytes);
  start(full);
  const auto *place = launch.arg<const int32_t>(1);
  if (threadIdx.x == 0) {
    nano::prefetchTensorMap(map);
    nano::mbarrierArriveExpect(full, bytes);
    nano::bulkTensorLoad(tile, map, place[0], place[1], full);
  }
  nano::mbarrierWait(full, 0);
  auto *y = launch.arg<uint16_t>(2);
  for (int i = int(threadIdx.x); i < bytes / 2; i += 32)
    y[i] = *reinterpret_cast<uint16_t *>(tile + nano::swizzled<Mode>(uint32_t(2 * i)));
}
TENSOR_KERNEL(box_128, 3, 1) { box<nano::Swizzle::Bytes128, 128>(launch, maps.map[0]); }
TENSOR_KERNEL(box_64, 3, 1) { box<nano::Swizzle::Bytes64, 64>(launch, maps.map[0]); }
TENSOR_KERNEL(box_32, 3, 1) { box<nano::Swizzle::Bytes32, 32>(launch, maps.map[0]); }
TENSOR_KERNEL(box_none, 3, 1) { box<nano::Swizzle::None, 48>(launch, maps.map[0]); }

// ---------------------------------------------------------------------------------- Products

/// y ← A · B of 64 × 64 matrices, or A · Bᵀ, from tiles that maps with 128 bytes of swizzle bring.
template <nano::Major MajorB>
NANO_DEVICE void product(const TestLaunch<3> &launch, const nano::TensorMaps<2> &maps) {
  constexpr int bytes = 64 * 128;
  uint8_t *a = nano::dynamicShared<uint8_t>(), *b = a + bytes;
  auto *full = reinterpret_cast<nano::Mbarrier *>(b + bytes);
  start(full);
  float *y = launch.arg<float>(2);
  if (threadIdx.x == 0) {
    nano::mbarrierArriveExpect(full, 2 * bytes);
    nano::bulkTensorLoad(a, maps.map[0], 0, 0, full);
    nano::bulkTensorLoad(b, maps.map[1], 0, 0, full);
  }
  nano::mbarrierWait(full, 0);
  float sum[32];
  nano::warpgroupFence();
  for (int step = 0; step < 4; ++step) {
    const uint8_t *right = MajorB == nano::Major::K ? b + 32 * step : b + 16 * 128 * step;
    nano::warpgroupMultiply<nano::bf16, nano::bf16, nano::Major::K, MajorB>(
        sum, nano::matrixDescriptor(a + 32 * step, 16, 1024, nano::Swizzle::Bytes128),
        nano::matrixDescriptor(right, 16, 1024, nano::Swizzle::Bytes128), step > 0);
  }
  nano::warpgroupCommit();
  nano::warpgroupWait<0>();
  nano::warpgroupRegisters(sum);
  int warp = nano::warpIndex(), group = nano::laneIndex() / 4, pair = nano::laneIndex() % 4;
  for (int i = 0; i < 32; ++i)
    y[(16 * warp + group + (i % 4 / 2) * 8) * 64 + i / 4 * 8 + 2 * pair + i % 2] = sum[i];
}
TENSOR_KERNEL(product_along_k, 3, 2) { product<nano::Major::K>(launch, maps); }
TENSOR_KERNEL(product_along_n, 3, 2) { product<nano::Major::MN>(launch, maps); }

// ---------------------------------------------------------------------------------- Clusters

/// Two blocks, each of which brings 32 rows of 64 floats for both and writes all of them.
template <bool Broken>
NANO_DEVICE void multicast(const TestLaunch<2> &launch, const nano::TensorMaps<1> &maps) {
  constexpr int half = 32 * 256;
  uint8_t *tile = nano::dynamicShared<uint8_t>();
  auto *full = reinterpret_cast<nano::Mbarrier *>(tile + 2 * half);
  start(full);
  if (threadIdx.x == 0)
    nano::mbarrierArriveExpect(full, 2 * half);
  nano::clusterSync();
  float *y = launch.arg<float>(1) + blockIdx.x * 64 * 64;
  uint32_t rank = nano::clusterRank();
  if (threadIdx.x == 0)
    nano::bulkTensorLoadMulticast(tile + rank * half, maps.map[0], 0, 32 * int(rank), full,
                                  Broken ? 5 : 3); // @multicast
  nano::mbarrierWait(full, 0);
  for (int i = int(threadIdx.x); i < 64 * 64; i += 32)
    y[i] = reinterpret_cast<float *>(tile)[i];
  nano::clusterSync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    multicast_good(const __grid_constant__ TestLaunch<2> launch,
                   const __grid_constant__ nano::TensorMaps<1> maps) {
  multicast<false>(launch, maps);
}
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    multicast_bad(const __grid_constant__ TestLaunch<2> launch,
                  const __grid_constant__ nano::TensorMaps<1> maps) {
  multicast<true>(launch, maps);
}

// ------------------------------------------------------------------------------------ Faults

/// What is wrong with a load.
enum class Fault { None, Wait, Bytes, Misaligned, Column, Map, Reuse, End, InitFence };

/// The first 32 values of a box of 8 rows of 64 bf16, and of the box below it.
template <Fault Planted>
NANO_DEVICE void load(const TestLaunch<2> &launch, const nano::TensorMaps<1> &maps) {
  constexpr uint32_t bytes = 8 * 128;
  constexpr auto has = [](Fault fault) { return Planted == fault; };
  uint8_t *tile = nano::dynamicShared<uint8_t>() + (has(Fault::Misaligned) ? 512 : 0);
  auto *full = nano::dynamicShared<nano::Mbarrier>(2 * bytes);
  start(full, !has(Fault::InitFence));
  nano::TensorMap own = maps.map[0];
  reinterpret_cast<uint8_t *>(&own)[0] ^= 16;
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) {
      nano::mbarrierArriveExpect(full, has(Fault::Bytes) ? 2 * bytes : bytes);
      const nano::TensorMap &map = has(Fault::Map) ? own : maps.map[0];
      nano::bulkTensorLoad(tile, map, has(Fault::Column) ? 5 : 0, 8 * i, full); // @load
    }
    if (has(Fault::End) && i == 1)
      break;
    nano::syncThreads();
    if (!has(Fault::Wait) || threadIdx.x != 17 || i == 0)
      nano::mbarrierWait(full, uint32_t(i));                                  // @load_wait
    sum += nano::decodeBf16(reinterpret_cast<uint16_t *>(tile)[threadIdx.x]); // @load_use
    if (!has(Fault::Reuse))
      nano::syncThreads();
  }
  launch.arg<float>(1)[threadIdx.x] = sum;
}
TENSOR_KERNEL(load_good, 2, 1) { load<Fault::None>(launch, maps); }
TENSOR_KERNEL(load_wait, 2, 1) { load<Fault::Wait>(launch, maps); }
TENSOR_KERNEL(load_bytes, 2, 1) { load<Fault::Bytes>(launch, maps); }
TENSOR_KERNEL(load_misaligned, 2, 1) { load<Fault::Misaligned>(launch, maps); }
TENSOR_KERNEL(load_column, 2, 1) { load<Fault::Column>(launch, maps); }
TENSOR_KERNEL(load_map, 2, 1) { load<Fault::Map>(launch, maps); }
TENSOR_KERNEL(load_reuse, 2, 1) { load<Fault::Reuse>(launch, maps); }
TENSOR_KERNEL(load_end, 2, 1) { load<Fault::End>(launch, maps); }
TENSOR_KERNEL(load_init_fence, 2, 1) { load<Fault::InitFence>(launch, maps); }
