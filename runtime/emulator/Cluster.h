// One cluster of blocks while it runs: its threads as fibers, its shared memory, its barriers and
// copies, and the checks of everything that they do. A block without cluster is one of a single
// block.
#pragma once

#include "runtime/emulator/Fiber.h"
#include "runtime/emulator/KernelImage.h"
#include "runtime/emulator/Knowledge.h"
#include "runtime/emulator/Shadow.h"
#include "runtime/emulator/device/nano_machine.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace nano::emulator {

class Cluster;
class EmulatedThread;

/// Whether two places of kernel text are the same line.
inline bool isSame(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

/// The same numbers for the same seed.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {}
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  /// Below `count`, which is at least 1.
  size_t below(size_t count) { return size_t((next() >> 33) % count); }

private:
  uint64_t state;
};

/// A launch, as far as its clusters need it.
struct Launch {
  const Kernel *kernel = nullptr;
  const void *parameters = nullptr; ///< the kernel's Launch structure
  uint32_t blocks = 0;              ///< of the grid; a multiple of the kernel's clusterBlocks
  uint32_t threads = 0;             ///< of a block, a multiple of 32
  uint32_t sharedBytes = 0;         ///< dynamic, of a block
  uint64_t seed = 0;                ///< of the schedule
  GlobalMemory *memory = nullptr;   ///< for checks; null: no checks of memory
  uint32_t serial = 0;              ///< of `memory`
  bool mustAwait = false;           ///< threads call awaitPredecessor, before they use `memory`
};

/// A copy that a thread started with copyAsync.
struct AsyncCopy {
  std::byte *to = nullptr;
  const std::byte *from = nullptr;
  uint32_t bytes = 0, valid = 0, group = 0;
  Place place = 0;
};

/// A bulk store of a thread.
struct BulkStore {
  std::byte *to = nullptr;
  const std::byte *from = nullptr;
  uint32_t group = 0, number = 0;
  std::vector<std::byte> data; ///< the source, once it has been read
  bool read = false;
  uint32_t bytes = 0;
  Place place = 0;
  Site site;
};

/// Something asynchronous that ends when the program cannot go on without it.
struct Effect {
  enum class Kind { BulkLoad, CopyArrival } kind = Kind::BulkLoad;
  EmulatedThread *thread = nullptr;
  Site site;
  // BulkLoad: to each block of the cluster whose bit is set, at the same place of its shared
  // memory.
  std::byte *to = nullptr;
  const std::byte *from = nullptr;
  uint32_t bytes = 0, blocks = 0, number = 0;
  std::byte *barrier = nullptr; ///< of the thread's own block
  Place place = 0;
  // CopyArrival: after the thread's first `copies` copies.
  uint64_t copies = 0;
};

/// Lanes of a warp that have called a primitive which all lanes of `mask` call together.
struct Gathering {
  uint32_t mask = 0, arrived = 0;
  const char *what = nullptr;
  Site site;
};

struct Warp {
  std::array<EmulatedThread *, 32> lanes = {};
  std::array<void *, 32> arguments = {}; ///< of the lanes that have arrived
  std::vector<Gathering> gatherings;     ///< with disjoint masks
  uint32_t ended = 0;                    ///< lanes
  uint32_t runnable = 0;                 ///< lanes
  bool listed = false;                   ///< in Cluster::runnableWarps
};

/// A product that a warpgroup has started.
struct StartedProduct {
  WarpgroupProduct product; ///< of the first thread; its pointers are void
  std::array<float *, 128> sums = {};
  std::vector<std::array<uint32_t, 4>> fragments; ///< of the threads, when A is in registers
  std::vector<float> before;                      ///< the threads' sums; empty: those of the
                                                  ///< product before it that has the same ones
  uint32_t group = 0, number = 0;
  Site site;
};

struct Warpgroup {
  std::array<const void *, 128> arguments = {}; ///< of the threads that have arrived
  uint32_t arrived = 0;
  const char *what = nullptr; ///< that they have called
  Site site;
  uint32_t groups = 0; ///< closed
  bool fenced = false;
  std::vector<StartedProduct> products; ///< not waited for
};

/// A named barrier of a block; number 0 is that of syncThreads.
struct NamedBarrier {
  uint32_t expected = 0, arrived = 0;
  Site site;
  Vote vote = Vote::None;
  bool any = false, all = true, result = false;
  std::vector<EmulatedThread *> waiting;
  std::array<uint32_t, 32> lanes = {}; ///< by warp: lanes that have arrived
  Release release;
};

struct Mbarrier {
  uint32_t count = 0, pending = 0, phase = 0;
  int64_t bytes = 0; ///< expected and not come yet
  uint32_t initThread = 0, initEpoch = 0;
  Site site;
  Release current, completed;
  std::vector<EmulatedThread *> waiting;
};

struct Block {
  uint32_t rank = 0;
  std::byte *dynamicShared = nullptr;
  std::array<NamedBarrier, 16> barriers;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  uint32_t live = 0; ///< threads that have not ended
};

/// A thread of a block as a fiber; see Thread for its functions.
class EmulatedThread final : public Thread {
public:
  enum class State { Runnable, Waiting, Ended };

  void access(const void *address, unsigned long bytes, bool write, bool aligned,
              const void *instruction) override;
  void access(const void *address, unsigned long bytes, bool write, Site site) override;
  [[noreturn]] void trap(Site site) override;
  unsigned sharedAddress(const void *shared, Site site) override;
  unsigned long shuffle(Shuffle kind, unsigned long value, int operand, unsigned mask,
                        Site site) override;
  unsigned ballot(bool value, unsigned mask, Site site) override;
  unsigned reduce(Reduction kind, unsigned value, Site site) override;
  float sum(float value, Site site) override;
  float max(float value, Site site) override;
  bool elect(Site site) override;
  void syncWarp(unsigned mask, Site site) override;
  unsigned fetch(Atomic kind, void *address, unsigned value, Site site) override;
  bool syncThreads(Vote vote, bool value, Site site) override;
  void barrier(int id, int threads, bool wait, Site site) override;
  void threadFence() override {}
  void copyAsync(void *shared, const void *global, int bytes, int valid, Site site) override;
  void copyAsyncCommit() override;
  void copyAsyncWait(int pending, Site site) override;
  void loadMatrix(unsigned *fragment, int matrices, bool transposed, const void *row,
                  Site site) override;
  void storeMatrix(void *row, const unsigned *fragment, int matrices, bool transposed,
                   Site site) override;
  void multiply(Element aType, Element bType, float *sum, const unsigned *a, const unsigned *b,
                Site site) override;
  void mbarrierInit(void *barrier, unsigned count, Site site) override;
  void mbarrierInvalidate(void *barrier, Site site) override;
  void fenceMbarrierInit() override;
  void mbarrierArrive(void *barrier, bool arrive, unsigned expected, unsigned rank,
                      Site site) override;
  void copyAsyncArrive(void *barrier, Site site) override;
  bool mbarrierTryWait(void *barrier, unsigned parity, Site site) override;
  void mbarrierWait(void *barrier, unsigned parity, Site site) override;
  void fenceProxyAsync() override;
  void bulkLoad(void *shared, const void *global, unsigned bytes, void *barrier, unsigned blocks,
                Site site) override;
  void bulkStore(void *global, const void *shared, unsigned bytes, Site site) override;
  void bulkCommit() override;
  void bulkWait(int pending, bool read, Site site) override;
  unsigned clusterRank() override;
  unsigned clusterSize() override;
  void clusterArrive(Site site) override;
  void clusterWait(Site site) override;
  void *clusterShared(const void *shared, unsigned rank, Site site) override;
  void setRegisters(int registers, Site site) override;
  void warpgroupFence(Site site) override;
  void warpgroupMultiply(const WarpgroupProduct &product, Site site) override;
  void warpgroupCommit(Site site) override;
  void warpgroupWait(int pending, Site site) override;

  Cluster *cluster = nullptr;
  Block *block = nullptr;
  Warp *warp = nullptr;
  uint32_t index = 0;   ///< in the cluster
  uint32_t inBlock = 0; ///< in the block
  uint32_t lane = 0;
  void *stackPointer = nullptr;
  State state = State::Runnable;
  const char *waitsFor = nullptr;
  Site waitsAt;
  Clock clock;

  std::vector<AsyncCopy> copies; ///< started and not waited for
  uint64_t copiesEnded = 0;      ///< before them
  uint32_t copyGroups = 0;       ///< closed
  std::vector<BulkStore> stores; ///< started and not waited for
  uint32_t storeGroups = 0;      ///< closed
  uint32_t initFence = 0;        ///< mbarrier inits in epochs below are visible to copies
  bool arrivedAtCluster = false;
  uint32_t clusterPhase = 0; ///< that it arrived in

private:
  /// Waits until the lanes of `mask` have called `what`, then runs `complete` on the lanes'
  /// arguments once. `aligned`: they must do so in the same line.
  void together(const char *what, uint32_t mask, void *arguments, bool aligned, Site site,
                void (*complete)(Warp &warp, uint32_t mask));
  /// Likewise for the 128 threads of the warpgroup; `last` is the one that came last.
  void allOfWarpgroup(const char *what, const void *arguments, Site site,
                      void (*complete)(Cluster &cluster, Warpgroup &group, EmulatedThread &last,
                                       Site site));
  void finishCopies(size_t count);
  void readStores(uint32_t groups);
  friend class Cluster;
};

/// Runs clusters of one launch after the other. Reusable; not for several threads at once.
class Cluster {
public:
  Cluster() = default;
  Cluster(const Cluster &) = delete;
  Cluster &operator=(const Cluster &) = delete;

  /// Runs the blocks from `firstBlock` on. The fault that ended it, one line with kernel, block,
  /// thread and source line, or nothing.
  std::optional<std::string> run(const Launch &launch, uint32_t firstBlock);

private:
  friend class EmulatedThread;

  /// A place of shared memory.
  struct SharedPlace {
    Block *block = nullptr;
    uint32_t offset = 0; ///< sharedAddress
  };
  enum class Use { Read, Write, Atomic, AsyncRead, CopyWrite };

  // Cluster.cpp
  bool prepare(uint32_t firstBlock);
  void findStaticShared();
  void schedule();
  void enter(EmulatedThread &thread);
  static void fiberMain();
  void end(EmulatedThread &thread);
  void checkEnd();
  void wait(EmulatedThread &thread, const char *what, Site site);
  void wake(EmulatedThread &thread);
  void wakeLanes(Warp &warp, uint32_t lanes);
  /// Takes a thread that can go on, null when there is none: mostly one of the same warp as the
  /// last one, whose data are in the cache.
  EmulatedThread *next();
  void reportDeadlock();
  [[noreturn]] void fail(const EmulatedThread &thread, const std::string &what);
  void setFault(const EmulatedThread *thread, const std::string &what);
  std::string nameOf(const EmulatedThread &thread) const;
  static std::string nameOf(Site site);
  std::string nameOf(Place place) const;
  Place place(Site site);
  uint32_t threadCount() const { return uint32_t(threads.size()); }

  // Accesses.cpp
  std::optional<SharedPlace> shared(const void *address, uint64_t bytes) const;
  /// As `shared`; a fault when it is not within one block's shared memory or not so aligned.
  SharedPlace needShared(EmulatedThread &thread, const void *address, uint64_t bytes,
                         uint32_t alignment, const char *what, Site site);
  std::byte *sharedPointer(const Block &block, uint32_t offset) const;
  std::byte *peer(const void *address, uint32_t rank) const;
  void check(EmulatedThread &thread, const void *address, uint64_t bytes, bool aligned, Use use,
             Place place, uint32_t number = 0);
  /// What is wrong with this use of a cell: the kind of fault, or null; `relation` says more.
  const char *conflict(const EmulatedThread &thread, const Cell &cell, Use use,
                       const Region *region, std::string &relation) const;
  void record(const EmulatedThread &thread, Cell &cell, Use use, Place place, uint32_t number);
  /// The copy to these bytes has ended: `number` of an asynchronous operation, 0: a copyAsync.
  void finishCopy(EmulatedThread &thread, const void *address, uint64_t bytes, uint32_t number);
  /// The cells of bytes that lie within one region (then `*region`) or one block's shared memory.
  Cell *cellsOf(const void *address, uint64_t bytes, uint64_t &count, Region **region);
  void checkOutside(EmulatedThread &thread, const void *address, uint64_t bytes, bool write,
                    Place place);
  std::string nameOf(const void *address) const;
  void markBarrier(const void *address, bool barrier);

  // Barriers.cpp
  static uint32_t arrivalsAt(const Block &block, const NamedBarrier &barrier);
  void complete(Block &block, NamedBarrier &barrier, int id, EmulatedThread *last);
  Mbarrier &findMbarrier(EmulatedThread &thread, const void *address, const char *what, Site site);
  void arriveAt(Mbarrier &barrier, EmulatedThread &thread, uint32_t expected, bool arrive,
                Site site);
  void turn(Mbarrier &barrier);
  void completeClusterBarrier();

  // Copies.cpp
  bool finishEffect();
  void finishBulkLoad(const Effect &effect);

  // Warpgroups.cpp
  void startProduct(Warpgroup &group, EmulatedThread &last, Site site);
  void finishProducts(Warpgroup &group, uint32_t count);
  /// Where row `row` (of A or of the transposed B) has its bytes from 16 · `chunk` on along K; or,
  /// when the operand lies along M or N, row `row` of K its bytes along that.
  std::byte *operandChunk(EmulatedThread &thread, uint64_t descriptor, bool alongK, uint32_t row,
                          uint32_t chunk, Site site);

  const Launch *launch = nullptr;
  bool checked = false;
  uint32_t cluster = 0; ///< its number in the grid
  Stacks stacks;
  std::vector<EmulatedThread *> threads;
  std::vector<Block> blocks;
  std::vector<Warp *> runnableWarps; ///< those with runnable lanes, and some that had
  Warp *currentWarp = nullptr;
  std::vector<EmulatedThread *> spinning; ///< in a loop around mbarrierTryWait
  uint32_t live = 0;                      ///< threads that have not ended
  uint64_t progress = 0;                  ///< counts arrivals and ends, for loops that wait
  EmulatedThread *current = nullptr;
  void *schedulerStack = nullptr;
  std::optional<std::string> fault;
  Random random = Random(0);

  std::unique_ptr<std::byte, void (*)(void *)> memory = {nullptr, std::free};
  size_t memoryBytes = 0, blockStride = 0;
  StaticShared staticShared;
  const KernelImage *staticImage = nullptr; ///< whose static shared memory was found last
  std::thread::id staticThread;             ///< and in which thread
  StaticShared foundShared;
  uint32_t staticBytes = 0; ///< rounded up to where dynamic shared memory starts
  std::vector<Cell> sharedCells;
  uint32_t sharedSerial = 0;
  ReadSets reads;
  std::unordered_map<const void *, Mbarrier> mbarriers;
  std::vector<Effect> effects;
  uint32_t asyncNumber = 0;
  std::vector<bool> asyncEnded; ///< by number, of reads of shared memory
  uint32_t clusterArrived = 0, clusterPhase = 0;
  Release clusterRelease, clusterReleased;
  std::vector<EmulatedThread *> clusterWaiting;
  std::vector<Site> sites;
  std::map<std::pair<const char *, int>, Place> siteNumbers;
};

} // namespace nano::emulator
