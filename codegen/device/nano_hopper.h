// The primitives of Hopper templates on the GPU, as PTX for sm_90a: mbarriers, bulk copies, matrix
// products of a warpgroup, clusters. The emulator has a header of the same name with the same
// names.
#pragma once

#include "nano_layout.h"
#include "nano_primitives.h"

namespace nano {

// ------------------------------------------------------------------------------- Mbarriers

/// A barrier in shared memory. It counts in phases: a phase ends when `count` arrivals have come
/// and as many bytes as were expected; then the next one begins with `count` arrivals again. Phases
/// have parity 0, 1, 0, …. Nothing but these functions touches its bytes.
struct alignas(8) Mbarrier {
  uint64_t state;
};

/// Begins phase 0, by a thread. Others, and asynchronous copies, may use it after
/// fenceMbarrierInit() (or fenceProxyAsync()) by the same thread and then a block or cluster
/// barrier.
NANO_DEVICE void mbarrierInit(Mbarrier *barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(count)
               : "memory");
}
/// Ends the barrier's life: its bytes may be used for something else.
NANO_DEVICE void mbarrierInvalidate(Mbarrier *barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(sharedAddress(barrier)) : "memory");
}
/// Makes inits visible to the cluster and to asynchronous copies (fence.mbarrier_init).
NANO_DEVICE void fenceMbarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// One arrival of a thread; what the thread did before is visible to those who wait.
NANO_DEVICE void mbarrierArrive(Mbarrier *barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier))
               : "memory");
}
/// Adds `bytes` to what the phase expects, and arrives.
NANO_DEVICE void mbarrierArriveExpect(Mbarrier *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}
/// Adds `bytes` to what the phase expects.
NANO_DEVICE void mbarrierExpect(Mbarrier *barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
/// One arrival at the barrier at the same place in the shared memory of block `rank` of the
/// cluster: the thread has finished reading. What it has written is shown to other blocks by
/// clusterSync alone; here it would have to wait for all its stores to reach the whole device.
NANO_DEVICE void mbarrierArriveRemote(Mbarrier *barrier, uint32_t rank) {
  asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
               "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote]; }" ::"r"(
                   sharedAddress(barrier)),
               "r"(rank)
               : "memory");
}
/// Likewise, and those of the cluster who wait with mbarrierWaitCluster see what it has written.
NANO_DEVICE void mbarrierArriveCluster(Mbarrier *barrier, uint32_t rank) {
  asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(
                   sharedAddress(barrier)),
               "r"(rank)
               : "memory");
}
/// One arrival at the end of all copies that the thread has started with copyAsync so far; it is
/// one of the phase's `count` (cp.async.mbarrier.arrive.noinc).
NANO_DEVICE void copyAsyncArrive(Mbarrier *barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(sharedAddress(barrier))
               : "memory");
}

/// Whether the phase of that parity has ended; true for parity 1 before the first phase has ended.
/// Waits a while before it says no (mbarrier.try_wait.parity). What those who arrived did before
/// can then be seen if they are threads of this block, and what bulk copies have brought.
NANO_DEVICE bool mbarrierTryWait(Mbarrier *barrier, uint32_t parity) {
  uint32_t ended;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; "
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(ended)
               : "r"(sharedAddress(barrier)), "r"(parity)
               : "memory");
  return ended != 0;
}
/// Waits for the end of the phase of that parity, by a thread.
NANO_DEVICE void mbarrierWait(Mbarrier *barrier, uint32_t parity) {
  while (!mbarrierTryWait(barrier, parity)) {
  }
}
/// Likewise, for what threads of other blocks of the cluster show by mbarrierArriveCluster.
NANO_DEVICE void mbarrierWaitCluster(Mbarrier *barrier, uint32_t parity) {
  uint32_t ended = 0;
  while (ended == 0)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(ended)
        : "r"(sharedAddress(barrier)), "r"(parity)
        : "memory");
}

// ------------------------------------------------------------------------------ Bulk copies

/// Makes the thread's writes to the block's shared memory visible to bulk copies and warpgroup
/// products (the async proxy). Between the writes and the barrier after which another thread starts
/// these. For shared memory alone: a fence of all memory waits for more than it need.
NANO_DEVICE void fenceProxyAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Likewise of global memory: between what bulk copies of different threads do to it.
NANO_DEVICE void fenceProxyGlobal() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

/// Starts copying `bytes` from global to shared memory, by a thread; both addresses and `bytes` are
/// multiples of 16. At the end the barrier gets `bytes` bytes (cp.async.bulk, complete_tx).
NANO_DEVICE void bulkLoad(void *shared, const void *global, uint32_t bytes, Mbarrier *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(sharedAddress(shared)),
               "l"(global), "r"(bytes), "r"(sharedAddress(barrier))
               : "memory");
}
/// Likewise to the same place in the shared memory of every block of the cluster whose bit is set
/// in `blocks`; each one's own barrier at this place gets `bytes` bytes.
NANO_DEVICE void bulkLoadMulticast(void *shared, const void *global, uint32_t bytes,
                                   Mbarrier *barrier, uint16_t blocks) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(sharedAddress(shared)),
               "l"(global), "r"(bytes), "r"(sharedAddress(barrier)), "h"(blocks)
               : "memory");
}
/// Starts copying `bytes` from shared to global memory, by a thread, with the same alignment. What
/// was written to the source needs fenceProxyAsync().
NANO_DEVICE void bulkStore(void *global, const void *shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(sharedAddress(shared)), "r"(bytes)
               : "memory");
}
/// Starts adding `bytes` of f32 in shared memory to those in global memory, as bulkStore, which it
/// may share a group with (cp.reduce.async.bulk, .add). Who else adds to them does so before or
/// after, by waitForCount and addToCount: no order is left open.
NANO_DEVICE void bulkAdd(float *global, const float *shared, uint32_t bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
      "r"(sharedAddress(shared)), "r"(bytes)
      : "memory");
}
/// Closes the thread's group of bulk stores started since the last one.
NANO_DEVICE void bulkCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` of the thread's newest groups have not been written; `Read`: have
/// not read their sources, which may then be overwritten.
template <int Pending> NANO_DEVICE void bulkWait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}
template <int Pending> NANO_DEVICE void bulkWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

/// A matrix in global memory and the box of it that one load brings, as the driver's
/// cuTensorMapEncodeTiled writes them.
struct alignas(64) TensorMap {
  uint8_t bytes[128];
};
/// The maps of a launch, a parameter of its kernel.
template <int N> struct TensorMaps {
  TensorMap map[N];
};

/// Brings a map to where loads look for it, by a thread.
NANO_DEVICE void prefetchTensorMap(const TensorMap &map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// How long what is loaded stays in the second-level cache: like all else that is loaded or stored,
/// or longer.
template <bool isKept = false> struct CachePolicy {};
template <> struct CachePolicy<true> {
  uint64_t bits;
  NANO_DEVICE CachePolicy() {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(bits));
  }
};

/// Starts loading the box that begins at (column, row) of the map's matrix, by a thread: its rows
/// one after the other, permuted by the map's swizzle; what lies outside of the matrix is zero,
/// also before its first row or column. `column` is at a multiple of 16 bytes. `shared` is a
/// multiple of 128 bytes, of 1024 with a swizzle of 128. At the end the barrier gets the whole
/// box's bytes (cp.async.bulk.tensor, complete_tx).
template <bool isKept = false>
NANO_DEVICE void bulkTensorLoad(void *shared, const TensorMap &map, int column, int row,
                                Mbarrier *barrier, const CachePolicy<isKept> &policy = {}) {
  if constexpr (isKept)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(sharedAddress(shared)),
                 "l"(&map), "r"(column), "r"(row), "r"(sharedAddress(barrier)), "l"(policy.bits)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(sharedAddress(shared)),
                 "l"(&map), "r"(column), "r"(row), "r"(sharedAddress(barrier))
                 : "memory");
}
/// Likewise to the same place of every block of the cluster whose bit is set in `blocks`, as
/// bulkLoadMulticast.
template <bool isKept = false>
NANO_DEVICE void bulkTensorLoadMulticast(void *shared, const TensorMap &map, int column, int row,
                                         Mbarrier *barrier, uint16_t blocks,
                                         const CachePolicy<isKept> &policy = {}) {
  if constexpr (isKept)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(
                     sharedAddress(shared)),
                 "l"(&map), "r"(column), "r"(row), "r"(sharedAddress(barrier)), "h"(blocks),
                 "l"(policy.bits)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(sharedAddress(shared)),
                 "l"(&map), "r"(column), "r"(row), "r"(sharedAddress(barrier)), "h"(blocks)
                 : "memory");
}

// --------------------------------------------------------------------------------- Clusters

/// The block's rank in its cluster, and the number of blocks in it. A kernel says how many these
/// are with `__cluster_dims__(N, 1, 1)`.
NANO_DEVICE uint32_t clusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
NANO_DEVICE uint32_t clusterSize() {
  uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  return size;
}
/// Barrier of all threads of the cluster, in two halves or in one; orders their accesses.
NANO_DEVICE void clusterArrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
NANO_DEVICE void clusterWait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
NANO_DEVICE void clusterSync() {
  clusterArrive();
  clusterWait();
}
/// The same place in the shared memory of block `rank`, for ordinary loads and stores (mapa).
template <typename T> NANO_DEVICE T *clusterShared(T *shared, uint32_t rank) {
  uint64_t address;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(shared), "r"(rank));
  return reinterpret_cast<T *>(address);
}

/// Starts storing 8 bytes at the same place in the shared memory of block `rank`; at the end the
/// mbarrier at the place of `barrier` there gets 8 bytes, and who waits for it sees them
/// (st.async). Nothing else that the thread has written is shown by it.
template <typename T>
NANO_DEVICE void storeAsyncRemote(T *shared, const T &value, Mbarrier *barrier, uint32_t rank) {
  static_assert(sizeof(T) == 8 && alignof(T) == 8);
  asm volatile(
      "{ .reg .b32 to, at; mapa.shared::cluster.u32 to, %0, %3; "
      "mapa.shared::cluster.u32 at, %2, %3; "
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [to], %1, [at]; }" ::"r"(
          sharedAddress(shared)),
      "l"(bitCast<uint64_t>(value)), "r"(sharedAddress(barrier)), "r"(rank)
      : "memory");
}

/// Changes the registers of each thread of the warpgroup, a multiple of 8 from 24 to 256, by all
/// its warps (setmaxnreg).
template <int Registers> NANO_DEVICE void increaseRegisters() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> NANO_DEVICE void decreaseRegisters() {
  static_assert(Registers >= 24 && Registers <= 256 && Registers % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ------------------------------------------------------------------- Products of a warpgroup

/// The matrix descriptor of an operand in shared memory: its start (a multiple of 16 bytes), the
/// leading and the stride byte offset as the PTX manual defines them for the layout. For operands
/// that are contiguous along K with swizzle, 8 rows of one swizzle width form a block of contiguous
/// bytes, blocks are `strideBytes` apart, and `leadingBytes` is not used; a step along K within the
/// width adds its bytes to `tile`.
NANO_DEVICE uint64_t matrixDescriptor(const void *tile, uint32_t leadingBytes, uint32_t strideBytes,
                                      Swizzle swizzle) {
  return descriptorAt(sharedAddress(tile), leadingBytes, strideBytes, swizzle);
}

/// Before the first product, and after the threads changed sums or fragments of A in registers.
NANO_DEVICE void warpgroupFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes the warpgroup's group of the products started since the last one.
NANO_DEVICE void warpgroupCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `Pending` of the newest groups are unfinished. Before that, the sums and the
/// fragments of A must not be touched, nor the operands in shared memory overwritten.
template <int Pending> NANO_DEVICE void warpgroupWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// Keeps the compiler from moving the use of `values` across this point: after warpgroupWait for
/// sums, before warpgroupFence for what was changed.
template <int N> NANO_DEVICE void warpgroupRegisters(float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    asm volatile("" : "+f"(values[i])::"memory");
}

/// Whether A or B lies along M or N rather than along K in shared memory; bf16 only.
enum class Major : int { K = 0, MN = 1 };

/// sum ← A · B, plus sum when `accumulate`, by a warpgroup: A is 64 × K, B is K × 2 · Sums; K is 16
/// for bf16 and 32 for f8 types (wgmma.mma_async). Sums is 32, 64, 96 or 128, of bf16 16 too and in
/// the second form 8, 24 and 48. sum[4j + i] of a thread of warp w: row 16 · (w % 4) + group +
/// (i < 2 ? 0 : 8), column 8j + 2 · pair + i % 2. The first form takes A from shared memory, the
/// second from registers, each warp its 16 rows as in matrixMultiply.
template <typename A, typename B, Major MajorA = Major::K, Major MajorB = Major::K, int Sums>
NANO_DEVICE void warpgroupMultiply(float (&sum)[Sums], uint64_t a, uint64_t b, bool accumulate);
template <typename A, typename B, Major MajorB = Major::K, int Sums>
NANO_DEVICE void warpgroupMultiply(float (&sum)[Sums], const uint32_t (&a)[4], uint64_t b,
                                   bool accumulate);

// The operand lists of the instructions.
#define NANO_SUMS8(I)                                                                              \
  "+f"(sum[I]), "+f"(sum[I + 1]), "+f"(sum[I + 2]), "+f"(sum[I + 3]), "+f"(sum[I + 4]),            \
      "+f"(sum[I + 5]), "+f"(sum[I + 6]), "+f"(sum[I + 7])
#define NANO_SUMS32(I) NANO_SUMS8(I), NANO_SUMS8(I + 8), NANO_SUMS8(I + 16), NANO_SUMS8(I + 24)
#define NANO_LIST16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NANO_LIST0                                                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                         \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NANO_LIST1                                                                                 \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "               \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NANO_LIST2                                                                                 \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "               \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NANO_LIST3                                                                                 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "   \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define NANO_NAMES8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NANO_NAMES16 NANO_LIST16
#define NANO_NAMES24 NANO_LIST16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NANO_NAMES32 NANO_LIST0
#define NANO_NAMES48                                                                               \
  NANO_LIST0 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NANO_NAMES64 NANO_LIST0 ", " NANO_LIST1
#define NANO_NAMES96 NANO_NAMES64 ", " NANO_LIST2
#define NANO_NAMES128 NANO_NAMES96 ", " NANO_LIST3
#define NANO_OPERANDS8 NANO_SUMS8(0)
#define NANO_OPERANDS16 NANO_SUMS8(0), NANO_SUMS8(8)
#define NANO_OPERANDS24 NANO_OPERANDS16, NANO_SUMS8(16)
#define NANO_OPERANDS32 NANO_SUMS32(0)
#define NANO_OPERANDS48 NANO_SUMS32(0), NANO_SUMS8(32), NANO_SUMS8(40)
#define NANO_OPERANDS64 NANO_SUMS32(0), NANO_SUMS32(32)
#define NANO_OPERANDS96 NANO_OPERANDS64, NANO_SUMS32(64)
#define NANO_OPERANDS128 NANO_OPERANDS96, NANO_SUMS32(96)

// An instruction of SHAPE, columns, depth and types, and the numbers of its operands.
#define NANO_WGMMA_SHARED(SUMS, SHAPE, LEFT, RIGHT, PREDICATE, LAYOUT, ...)                        \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " PREDICATE ", 0; "                                 \
               "wgmma.mma_async.sync.aligned.m64n" SHAPE " {" NANO_NAMES##SUMS                     \
               "}, " LEFT ", " RIGHT ", p, 1, 1" LAYOUT "; }"                                      \
               : NANO_OPERANDS##SUMS                                                               \
               : "l"(a), "l"(b), "r"(int(accumulate))__VA_OPT__(, ) __VA_ARGS__)
#define NANO_WGMMA_REGISTERS(SUMS, SHAPE, LEFT, RIGHT, PREDICATE, LAYOUT, ...)                     \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " PREDICATE ", 0; "                                 \
               "wgmma.mma_async.sync.aligned.m64n" SHAPE " {" NANO_NAMES##SUMS                     \
               "}, {" LEFT "}, " RIGHT ", p, 1, 1" LAYOUT "; }"                                    \
               : NANO_OPERANDS##SUMS                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                               \
                 "r"(int(accumulate))__VA_OPT__(, ) __VA_ARGS__)
// Of the types of A and B; those of bf16 say in which order they lie.
#define NANO_WGMMA_SHARED_TYPES(SUMS, COLUMNS, LEFT, RIGHT, PREDICATE, LAYOUT)                     \
  if constexpr (sizeof(A) == 2)                                                                    \
    NANO_WGMMA_SHARED(SUMS, COLUMNS "k16.f32.bf16.bf16", LEFT, RIGHT, PREDICATE, LAYOUT,           \
                      "n"(int(MajorA)), "n"(int(MajorB)));                                         \
  else if constexpr (firstE4m3 && secondE4m3)                                                      \
    NANO_WGMMA_SHARED(SUMS, COLUMNS "k32.f32.e4m3.e4m3", LEFT, RIGHT, PREDICATE, "");              \
  else if constexpr (firstE4m3)                                                                    \
    NANO_WGMMA_SHARED(SUMS, COLUMNS "k32.f32.e4m3.e5m2", LEFT, RIGHT, PREDICATE, "");              \
  else if constexpr (secondE4m3)                                                                   \
    NANO_WGMMA_SHARED(SUMS, COLUMNS "k32.f32.e5m2.e4m3", LEFT, RIGHT, PREDICATE, "");              \
  else                                                                                             \
    NANO_WGMMA_SHARED(SUMS, COLUMNS "k32.f32.e5m2.e5m2", LEFT, RIGHT, PREDICATE, "")
#define NANO_WGMMA_REGISTERS_TYPES(SUMS, COLUMNS, LEFT, RIGHT, PREDICATE, LAYOUT)                  \
  if constexpr (sizeof(A) == 2)                                                                    \
    NANO_WGMMA_REGISTERS(SUMS, COLUMNS "k16.f32.bf16.bf16", LEFT, RIGHT, PREDICATE, LAYOUT,        \
                         "n"(int(MajorB)));                                                        \
  else if constexpr (firstE4m3 && secondE4m3)                                                      \
    NANO_WGMMA_REGISTERS(SUMS, COLUMNS "k32.f32.e4m3.e4m3", LEFT, RIGHT, PREDICATE, "");           \
  else if constexpr (firstE4m3)                                                                    \
    NANO_WGMMA_REGISTERS(SUMS, COLUMNS "k32.f32.e4m3.e5m2", LEFT, RIGHT, PREDICATE, "");           \
  else if constexpr (secondE4m3)                                                                   \
    NANO_WGMMA_REGISTERS(SUMS, COLUMNS "k32.f32.e5m2.e4m3", LEFT, RIGHT, PREDICATE, "");           \
  else                                                                                             \
    NANO_WGMMA_REGISTERS(SUMS, COLUMNS "k32.f32.e5m2.e5m2", LEFT, RIGHT, PREDICATE, "")

template <typename A, typename B, Major MajorA, Major MajorB, int Sums>
NANO_DEVICE void warpgroupMultiply(float (&sum)[Sums], uint64_t a, uint64_t b, bool accumulate) {
  static_assert((Sums == 16 && sizeof(A) == 2) || Sums == 32 || Sums == 64 || Sums == 96 ||
                Sums == 128);
  static_assert(sizeof(A) == sizeof(B) && sizeof(A) <= 2, "two bf16 or two f8 types");
  static_assert(sizeof(A) == 2 || (MajorA == Major::K && MajorB == Major::K));
  constexpr bool firstE4m3 = isSame<A, f8e4m3>, secondE4m3 = isSame<B, f8e4m3>;
  if constexpr (Sums == 16) {
    NANO_WGMMA_SHARED_TYPES(16, "32", "%16", "%17", "%18", ", %19, %20");
  } else if constexpr (Sums == 32) {
    NANO_WGMMA_SHARED_TYPES(32, "64", "%32", "%33", "%34", ", %35, %36");
  } else if constexpr (Sums == 64) {
    NANO_WGMMA_SHARED_TYPES(64, "128", "%64", "%65", "%66", ", %67, %68");
  } else if constexpr (Sums == 96) {
    NANO_WGMMA_SHARED_TYPES(96, "192", "%96", "%97", "%98", ", %99, %100");
  } else if constexpr (Sums == 128) {
    NANO_WGMMA_SHARED_TYPES(128, "256", "%128", "%129", "%130", ", %131, %132");
  }
}

template <typename A, typename B, Major MajorB, int Sums>
NANO_DEVICE void warpgroupMultiply(float (&sum)[Sums], const uint32_t (&a)[4], uint64_t b,
                                   bool accumulate) {
  static_assert(((Sums == 8 || Sums == 16 || Sums == 24 || Sums == 48) && sizeof(A) == 2) ||
                Sums == 32 || Sums == 64 || Sums == 96 || Sums == 128);
  static_assert(sizeof(A) == sizeof(B) && sizeof(A) <= 2, "two bf16 or two f8 types");
  static_assert(sizeof(A) == 2 || MajorB == Major::K);
  constexpr bool firstE4m3 = isSame<A, f8e4m3>, secondE4m3 = isSame<B, f8e4m3>;
  if constexpr (Sums == 8) {
    NANO_WGMMA_REGISTERS_TYPES(8, "16", "%8, %9, %10, %11", "%12", "%13", ", %14");
  } else if constexpr (Sums == 16) {
    NANO_WGMMA_REGISTERS_TYPES(16, "32", "%16, %17, %18, %19", "%20", "%21", ", %22");
  } else if constexpr (Sums == 24) {
    NANO_WGMMA_REGISTERS_TYPES(24, "48", "%24, %25, %26, %27", "%28", "%29", ", %30");
  } else if constexpr (Sums == 32) {
    NANO_WGMMA_REGISTERS_TYPES(32, "64", "%32, %33, %34, %35", "%36", "%37", ", %38");
  } else if constexpr (Sums == 48) {
    NANO_WGMMA_REGISTERS_TYPES(48, "96", "%48, %49, %50, %51", "%52", "%53", ", %54");
  } else if constexpr (Sums == 64) {
    NANO_WGMMA_REGISTERS_TYPES(64, "128", "%64, %65, %66, %67", "%68", "%69", ", %70");
  } else if constexpr (Sums == 96) {
    NANO_WGMMA_REGISTERS_TYPES(96, "192", "%96, %97, %98, %99", "%100", "%101", ", %102");
  } else if constexpr (Sums == 128) {
    NANO_WGMMA_REGISTERS_TYPES(128, "256", "%128, %129, %130, %131", "%132", "%133", ", %134");
  }
}

#undef NANO_SUMS8
#undef NANO_SUMS32
#undef NANO_LIST16
#undef NANO_LIST0
#undef NANO_LIST1
#undef NANO_LIST2
#undef NANO_LIST3
#undef NANO_NAMES8
#undef NANO_NAMES16
#undef NANO_NAMES24
#undef NANO_NAMES32
#undef NANO_NAMES48
#undef NANO_NAMES64
#undef NANO_NAMES96
#undef NANO_NAMES128
#undef NANO_OPERANDS8
#undef NANO_OPERANDS16
#undef NANO_OPERANDS24
#undef NANO_OPERANDS32
#undef NANO_OPERANDS48
#undef NANO_OPERANDS64
#undef NANO_OPERANDS96
#undef NANO_OPERANDS128
#undef NANO_WGMMA_SHARED
#undef NANO_WGMMA_SHARED_TYPES
#undef NANO_WGMMA_REGISTERS
#undef NANO_WGMMA_REGISTERS_TYPES

} // namespace nano
