// One cluster of blocks while it runs: its threads as fibers, its shared memory, its barriers and
// copies, and the checks of everything that they do. A block without cluster is one of a single
// block.
#pragma once

#include "runtime/emulator/EmulatedThread.h"
#include "runtime/emulator/KernelImage.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace nano::emulator {

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
  const TensorMap *maps = nullptr;  ///< as many as the kernel takes
  uint32_t blocks = 0;              ///< of the grid; a multiple of the kernel's clusterBlocks
  uint32_t threads = 0;             ///< of a block, a multiple of 32
  uint32_t sharedBytes = 0;         ///< dynamic, of a block
  uint64_t seed = 0;                ///< of the schedule
  bool exactSums = false;           ///< Options::exactSums
  GlobalMemory *memory = nullptr;   ///< for checks; null: no checks of memory
  uint32_t serial = 0;              ///< of `memory`
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
  enum class Use { Read, ReadOnly, Write, Add, Atomic, AsyncRead, CopyWrite, CopyAdd };
  static bool isRead(Use use) {
    return use == Use::Read || use == Use::ReadOnly || use == Use::AsyncRead;
  }

  // Cluster.cpp
  bool prepare(uint32_t firstBlock);
  void findStaticShared();
  void schedule();
  void enter(EmulatedThread &thread);
  static void fiberMain();
  void end(EmulatedThread &thread);
  void wait(EmulatedThread &thread, const char *what, Site site);
  void wake(EmulatedThread &thread);
  void wakeLanes(Warp &warp, uint32_t lanes);
  /// Takes a thread that can go on, null when there is none: mostly one of the same warp as the
  /// last one, whose data are in the cache.
  EmulatedThread *next();
  uint32_t threadCount() const { return uint32_t(threads.size()); }

  // Reports.cpp
  /// What must be over when all threads have ended.
  void checkEnd();
  void reportDeadlock();
  /// Ends the run with a fault; `thread` is the one that runs.
  [[noreturn]] void fail(const EmulatedThread &thread, const std::string &what);
  void setFault(const EmulatedThread *thread, const std::string &what);
  std::string nameOf(const EmulatedThread &thread) const;
  static std::string nameOf(Site site);
  std::string nameOf(Place place) const;
  Place place(Site site);

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
  /// Likewise, of what other clusters have done with a cell of global memory.
  const char *conflictOfClusters(const EmulatedThread &thread, const Cell &cell, Use use,
                                 std::string &relation) const;
  /// The cell after this use of it.
  Cell recorded(const EmulatedThread &thread, Cell cell, Use use, Place place, uint32_t number);
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
  /// `hidesWrites`: from another block, whose threads learn what the thread has read, but not what
  /// it has written: see mbarrierArriveRemote of the GPU's header.
  void arriveAt(Mbarrier &barrier, EmulatedThread &thread, uint32_t expected, bool arrive,
                bool hidesWrites, Site site);
  void turn(Mbarrier &barrier);
  void completeClusterBarrier();

  // Copies.cpp
  /// Puts a bulk load, whose source has been checked, under way; `what`: the primitive's name.
  void startBulkLoad(Effect effect, const char *what);
  bool finishEffect();
  void finishBulkLoad(const Effect &effect);

  // Boxes.cpp
  /// The one of the launch's maps that `map` is; a fault when it is none of them.
  const TensorMap &findMap(EmulatedThread &thread, const TensorMap &map, const char *what,
                           Site site);

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
  std::vector<EmulatedThread *> spinning; ///< in a loop around mbarrierTryWait, or for a count
  uint32_t countWaits = 0;                ///< threads that wait for a count
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
