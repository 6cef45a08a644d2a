// The primitives of Hopper templates in the emulator: the names of the GPU's header, which
// documents them.
#pragma once

#include "nano_layout.h"
#include "nano_primitives.h"

namespace nano {

// ------------------------------------------------------------------------------- Mbarriers

struct alignas(8) Mbarrier {
  uint64_t state;
};

namespace emulator {
/// The rank of the calling block, for mbarrierArrive.
constexpr uint32_t ownBlock = 0xffffffffu;
} // namespace emulator

NANO_PRIMITIVE void mbarrierInit(Mbarrier *barrier, uint32_t count, NANO_SITE) {
  thread().mbarrierInit(barrier, count, site);
}
NANO_PRIMITIVE void mbarrierInvalidate(Mbarrier *barrier, NANO_SITE) {
  thread().mbarrierInvalidate(barrier, site);
}
NANO_PRIMITIVE void fenceMbarrierInit() { thread().fenceMbarrierInit(); }
NANO_PRIMITIVE void mbarrierArrive(Mbarrier *barrier, NANO_SITE) {
  thread().mbarrierArrive(barrier, true, 0, emulator::ownBlock, true, site);
}
NANO_PRIMITIVE void mbarrierArriveExpect(Mbarrier *barrier, uint32_t bytes, NANO_SITE) {
  thread().mbarrierArrive(barrier, true, bytes, emulator::ownBlock, true, site);
}
NANO_PRIMITIVE void mbarrierExpect(Mbarrier *barrier, uint32_t bytes, NANO_SITE) {
  thread().mbarrierArrive(barrier, false, bytes, emulator::ownBlock, true, site);
}
NANO_PRIMITIVE void mbarrierArriveRemote(Mbarrier *barrier, uint32_t rank, NANO_SITE) {
  thread().mbarrierArrive(barrier, true, 0, rank, false, site);
}
NANO_PRIMITIVE void mbarrierArriveCluster(Mbarrier *barrier, uint32_t rank, NANO_SITE) {
  thread().mbarrierArrive(barrier, true, 0, rank, true, site);
}
NANO_PRIMITIVE void copyAsyncArrive(Mbarrier *barrier, NANO_SITE) {
  thread().copyAsyncArrive(barrier, site);
}
NANO_PRIMITIVE bool mbarrierTryWait(Mbarrier *barrier, uint32_t parity, NANO_SITE) {
  return thread().mbarrierTryWait(barrier, parity, site);
}
NANO_PRIMITIVE void mbarrierWait(Mbarrier *barrier, uint32_t parity, NANO_SITE) {
  thread().mbarrierWait(barrier, parity, site);
}
NANO_PRIMITIVE void mbarrierWaitCluster(Mbarrier *barrier, uint32_t parity, NANO_SITE) {
  thread().mbarrierWait(barrier, parity, site);
}

// ------------------------------------------------------------------------------ Bulk copies

NANO_PRIMITIVE void fenceProxyAsync() { thread().fenceProxyAsync(); }
NANO_PRIMITIVE void fenceProxyGlobal() { thread().fenceProxyGlobal(); }
NANO_PRIMITIVE void bulkLoad(void *shared, const void *global, uint32_t bytes, Mbarrier *barrier,
                             NANO_SITE) {
  thread().bulkLoad(shared, global, bytes, barrier, 1u << thread().clusterRank(), site);
}
NANO_PRIMITIVE void bulkLoadMulticast(void *shared, const void *global, uint32_t bytes,
                                      Mbarrier *barrier, uint16_t blocks, NANO_SITE) {
  thread().bulkLoad(shared, global, bytes, barrier, blocks, site);
}
using TensorMap = emulator::TensorMap;
template <int N> struct TensorMaps {
  TensorMap map[N];
};
NANO_PRIMITIVE void prefetchTensorMap(const TensorMap &map, NANO_SITE) {
  thread().prefetchTensorMap(map, site);
}
template <bool isKept = false> struct CachePolicy {};
template <bool isKept = false>
NANO_PRIMITIVE void bulkTensorLoad(void *shared, const TensorMap &map, int column, int row,
                                   Mbarrier *barrier, CachePolicy<isKept> = {}, NANO_SITE) {
  thread().bulkTensorLoad(shared, map, column, row, barrier, 1u << thread().clusterRank(), site);
}
template <bool isKept = false>
NANO_PRIMITIVE void bulkTensorLoadMulticast(void *shared, const TensorMap &map, int column, int row,
                                            Mbarrier *barrier, uint16_t blocks,
                                            CachePolicy<isKept> = {}, NANO_SITE) {
  thread().bulkTensorLoad(shared, map, column, row, barrier, blocks, site);
}
NANO_PRIMITIVE void bulkStore(void *global, const void *shared, uint32_t bytes, NANO_SITE) {
  thread().bulkStore(global, shared, bytes, site);
}
NANO_PRIMITIVE void bulkAdd(float *global, const float *shared, uint32_t bytes, NANO_SITE) {
  thread().bulkAdd(global, shared, bytes, site);
}
NANO_PRIMITIVE void bulkCommit() { thread().bulkCommit(); }
template <int Pending> NANO_PRIMITIVE void bulkWait(NANO_SITE) {
  thread().bulkWait(Pending, false, site);
}
template <int Pending> NANO_PRIMITIVE void bulkWaitRead(NANO_SITE) {
  thread().bulkWait(Pending, true, site);
}

// --------------------------------------------------------------------------------- Clusters

NANO_PRIMITIVE uint32_t clusterRank() { return thread().clusterRank(); }
NANO_PRIMITIVE uint32_t clusterSize() { return thread().clusterSize(); }
NANO_PRIMITIVE void clusterArrive(NANO_SITE) { thread().clusterArrive(site); }
NANO_PRIMITIVE void clusterWait(NANO_SITE) { thread().clusterWait(site); }
NANO_PRIMITIVE void clusterSync(NANO_SITE) {
  thread().clusterArrive(site);
  thread().clusterWait(site);
}
template <typename T> NANO_PRIMITIVE T *clusterShared(T *shared, uint32_t rank, NANO_SITE) {
  return static_cast<T *>(thread().clusterShared(shared, rank, site));
}
template <typename T>
NANO_PRIMITIVE void storeAsyncRemote(T *shared, const T &value, Mbarrier *barrier, uint32_t rank,
                                     NANO_SITE) {
  static_assert(sizeof(T) == 8 && alignof(T) == 8);
  thread().storeAsyncRemote(shared, bitCast<uint64_t>(value), barrier, rank, site);
}

template <int Registers> NANO_PRIMITIVE void increaseRegisters(NANO_SITE) {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
  thread().setRegisters(Registers, site);
}
template <int Registers> NANO_PRIMITIVE void decreaseRegisters(NANO_SITE) {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
  thread().setRegisters(Registers, site);
}

// ------------------------------------------------------------------- Products of a warpgroup

inline uint64_t matrixDescriptor(const void *tile, uint32_t leadingBytes, uint32_t strideBytes,
                                 Swizzle swizzle, NANO_SITE) {
  return descriptorAt(sharedAddress(tile, site), leadingBytes, strideBytes, swizzle);
}

NANO_PRIMITIVE void warpgroupFence(NANO_SITE) { thread().warpgroupFence(site); }
NANO_PRIMITIVE void warpgroupCommit(NANO_SITE) { thread().warpgroupCommit(site); }
template <int Pending> NANO_PRIMITIVE void warpgroupWait(NANO_SITE) {
  thread().warpgroupWait(Pending, site);
}
template <int N> inline void warpgroupRegisters(float (&values)[N]) {
  asm volatile("" ::"r"(values) : "memory");
}

enum class Major : int { K = 0, MN = 1 };

template <typename A, typename B, Major MajorA = Major::K, Major MajorB = Major::K, int Sums>
NANO_PRIMITIVE void warpgroupMultiply(float (&sum)[Sums], uint64_t a, uint64_t b, bool accumulate,
                                      NANO_SITE) {
  static_assert((Sums == 16 && sizeof(A) == 2) || Sums == 32 || Sums == 64 || Sums == 96 ||
                Sums == 128);
  static_assert(sizeof(A) == sizeof(B) && sizeof(A) <= 2, "two bf16 or two f8 types");
  static_assert(sizeof(A) == 2 || (MajorA == Major::K && MajorB == Major::K));
  thread().warpgroupMultiply({emulator::element<A>(), emulator::element<B>(), MajorA == Major::MN,
                              MajorB == Major::MN, nullptr, a, b, sum, Sums, accumulate},
                             site);
}
template <typename A, typename B, Major MajorB = Major::K, int Sums>
NANO_PRIMITIVE void warpgroupMultiply(float (&sum)[Sums], const uint32_t (&a)[4], uint64_t b,
                                      bool accumulate, NANO_SITE) {
  static_assert(((Sums == 8 || Sums == 16 || Sums == 24 || Sums == 48) && sizeof(A) == 2) ||
                Sums == 32 || Sums == 64 || Sums == 96 || Sums == 128);
  static_assert(sizeof(A) == sizeof(B) && sizeof(A) <= 2, "two bf16 or two f8 types");
  static_assert(sizeof(A) == 2 || MajorB == Major::K);
  thread().warpgroupMultiply({emulator::element<A>(), emulator::element<B>(), false,
                              MajorB == Major::MN, a, 0, b, sum, Sums, accumulate},
                             site);
}

} // namespace nano
