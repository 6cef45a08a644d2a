// A thread of a block while it runs: a fiber with a clock, and what it has under way.
#pragma once

#include "runtime/emulator/Block.h"
#include "runtime/emulator/Fiber.h"

#include <cstdint>
#include <vector>

namespace nano::emulator {

class Cluster;

/// A thread of a block as a fiber; see Thread for its functions.
class EmulatedThread final : public Thread {
public:
  enum class State { Runnable, Waiting, Ended };

  /// A plain access at `instruction`; `aligned`: the type promises a multiple of its size.
  void access(const void *address, unsigned long bytes, bool write, bool aligned,
              const void *instruction);
  void access(const void *address, unsigned long bytes, bool write, Site site) override;
  void accessToAdd(const void *address, unsigned long bytes, Site site) override;
  void loadReadOnly(const void *address, unsigned long bytes, Site site) override;
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
  bool hasCount(const int *counter, int count, Site site) override;
  void waitForCount(const int *counter, int count, Site site) override;
  void addToCount(int *counter, Site site) override;
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
                      bool showsWrites, Site site) override;
  void copyAsyncArrive(void *barrier, Site site) override;
  bool mbarrierTryWait(void *barrier, unsigned parity, Site site) override;
  void mbarrierWait(void *barrier, unsigned parity, Site site) override;
  void fenceProxyAsync() override;
  void fenceProxyGlobal() override { clock.othersFenced = clock.others; }
  void bulkLoad(void *shared, const void *global, unsigned bytes, void *barrier, unsigned blocks,
                Site site) override;
  void bulkTensorLoad(void *shared, const TensorMap &map, int column, int row, void *barrier,
                      unsigned blocks, Site site) override;
  void prefetchTensorMap(const TensorMap &map, Site site) override;
  void bulkStore(void *global, const void *shared, unsigned bytes, Site site) override;
  void bulkAdd(float *global, const float *shared, unsigned bytes, Site site) override;
  void bulkCommit() override;
  void bulkWait(int pending, bool read, Site site) override;
  unsigned clusterRank() override;
  unsigned clusterSize() override;
  void clusterArrive(Site site) override;
  void clusterWait(Site site) override;
  void *clusterShared(const void *shared, unsigned rank, Site site) override;
  void storeAsyncRemote(void *shared, unsigned long value, void *barrier, unsigned rank,
                        Site site) override;
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
  void startStore(void *global, const void *shared, unsigned bytes, bool adds, Site site);
  void readStores(uint32_t groups);
  friend class Cluster;
};

/// Those of the running thread.
extern const Hooks hooks;

} // namespace nano::emulator
