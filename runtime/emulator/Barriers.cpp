// Barriers of blocks and clusters, and mbarriers.
#include "runtime/emulator/Cluster.h"

#include <algorithm>
#include <cstring>

namespace nano::emulator {

// ------------------------------------------------------------------------- Blocks, by name

bool EmulatedThread::syncThreads(Vote vote, bool value, Site site) {
  NamedBarrier &all = block->barriers[0];
  if (all.arrived && (!isSame(all.site, site) || all.vote != vote))
    cluster->fail(*this, "divergent syncThreads: waits in " + Cluster::nameOf(site) +
                             ", other threads of the block in " + Cluster::nameOf(all.site));
  if (!all.arrived) {
    all.site = site;
    all.vote = vote;
    all.any = false;
    all.all = true;
  }
  all.any |= value;
  all.all &= value;
  ++all.arrived;
  ++cluster->progress;
  if (cluster->checked)
    all.release.add(clock, cluster->threadCount());
  if (all.arrived == block->live) {
    cluster->complete(*block, all, 0, this);
  } else {
    all.waiting.push_back(this);
    cluster->wait(*this, "syncThreads", site);
  }
  return all.result;
}

void EmulatedThread::barrier(int id, int threads, bool wait, Site site) {
  const char *what = wait ? "barrierSync" : "barrierArrive";
  auto misuse = [&](const std::string &why) {
    cluster->fail(*this, std::string("misused barrier: ") + what + " (" + Cluster::nameOf(site) +
                             "): " + why);
  };
  if (id < 1 || id > 15)
    misuse("barrier " + std::to_string(id) + " does not exist; they are 1 to 15");
  if (threads < 32 || threads % 32 != 0 || uint32_t(threads) > blockDim.x)
    misuse(std::to_string(threads) + " threads are not whole warps of the block");
  NamedBarrier &named = block->barriers[size_t(id)];
  if (named.arrived && named.expected != uint32_t(threads))
    misuse("barrier " + std::to_string(id) + " is for " + std::to_string(threads) +
           " threads here and for " + std::to_string(named.expected) + " in " +
           Cluster::nameOf(named.site));
  uint32_t &lanes = named.lanes[inBlock / 32];
  if (lanes >> lane & 1)
    misuse("the thread arrives twice at barrier " + std::to_string(id));
  if (!named.arrived) {
    named.expected = uint32_t(threads);
    named.site = site;
  }
  ++named.arrived;
  ++cluster->progress;
  lanes |= 1u << lane;
  if (cluster->checked)
    named.release.add(clock, cluster->threadCount());
  if (Cluster::arrivalsAt(*block, named) >= named.expected) {
    cluster->complete(*block, named, id, wait ? this : nullptr);
  } else if (wait) {
    named.waiting.push_back(this);
    cluster->wait(*this, what, site);
  }
}

/// Threads that have arrived; of the warps that take part, those that have ended count too.
uint32_t Cluster::arrivalsAt(const Block &block, const NamedBarrier &barrier) {
  uint32_t count = 0;
  for (size_t w = 0; w < block.warps.size(); ++w)
    if (barrier.lanes[w])
      count += uint32_t(__builtin_popcount(barrier.lanes[w] | block.warps[w].ended));
  return count;
}

/// Lets those go on that wait; `last` is the thread that does so, when it waits itself.
void Cluster::complete(Block &block, NamedBarrier &barrier, int id, EmulatedThread *last) {
  // Warps arrive as a whole.
  for (size_t w = 0; id > 0 && w < block.warps.size(); ++w)
    if (barrier.lanes[w] && (barrier.lanes[w] | block.warps[w].ended) != 0xffffffffu)
      fail(*current, "misused barrier: of the warp of thread " + std::to_string(32 * w) + " only " +
                         std::to_string(__builtin_popcount(barrier.lanes[w])) +
                         " lanes take part in barrier " + std::to_string(id) + " (" +
                         nameOf(barrier.site) + ")");
  barrier.result = barrier.vote == Vote::Any ? barrier.any : barrier.all;
  for (EmulatedThread *thread : barrier.waiting) {
    if (checked)
      barrier.release.acquire(thread->clock);
    wake(*thread);
  }
  if (last && checked)
    barrier.release.acquire(last->clock);
  barrier.waiting.clear();
  barrier.lanes = {};
  barrier.arrived = 0;
  barrier.release.clear();
}

// ------------------------------------------------------------------------------- Clusters

unsigned EmulatedThread::clusterRank() { return block->rank; }
unsigned EmulatedThread::clusterSize() { return unsigned(cluster->blocks.size()); }

void EmulatedThread::clusterArrive(Site site) {
  if (arrivedAtCluster)
    cluster->fail(*this, "misused barrier: clusterArrive (" + Cluster::nameOf(site) +
                             ") twice without clusterWait");
  arrivedAtCluster = true;
  clusterPhase = cluster->clusterPhase;
  ++cluster->clusterArrived;
  ++cluster->progress;
  if (cluster->checked)
    cluster->clusterRelease.add(clock, cluster->threadCount());
  if (cluster->clusterArrived == cluster->live)
    cluster->completeClusterBarrier();
}

void EmulatedThread::clusterWait(Site site) {
  if (!arrivedAtCluster)
    cluster->fail(*this, "misused barrier: clusterWait (" + Cluster::nameOf(site) +
                             ") without clusterArrive");
  arrivedAtCluster = false;
  if (clusterPhase == cluster->clusterPhase) {
    cluster->clusterWaiting.push_back(this);
    cluster->wait(*this, "clusterWait", site);
  }
  if (cluster->checked)
    cluster->clusterReleased.acquire(clock);
}

void Cluster::completeClusterBarrier() {
  ++clusterPhase;
  clusterArrived = 0;
  clusterReleased = std::move(clusterRelease);
  clusterRelease.clear();
  for (EmulatedThread *thread : clusterWaiting)
    wake(*thread);
  clusterWaiting.clear();
}

void *EmulatedThread::clusterShared(const void *shared, unsigned rank, Site site) {
  cluster->needShared(*this, shared, 1, 1, "clusterShared", site);
  if (rank >= cluster->blocks.size())
    cluster->fail(*this, "clusterShared (" + Cluster::nameOf(site) + "): block " +
                             std::to_string(rank) + " is not in the cluster of " +
                             std::to_string(cluster->blocks.size()));
  return cluster->peer(shared, rank);
}

void EmulatedThread::setRegisters(int registers, Site site) {
  // Nothing to do but that whole warps call it.
  together("setmaxnreg", 0xffffffffu, &registers, true, site, [](Warp &, uint32_t) {});
}

// ------------------------------------------------------------------------------ Mbarriers

void EmulatedThread::mbarrierInit(void *barrier, unsigned count, Site site) {
  cluster->needShared(*this, barrier, 8, 8, "mbarrierInit", site);
  if (cluster->mbarriers.count(barrier))
    cluster->fail(*this, "misused mbarrier: mbarrierInit (" + Cluster::nameOf(site) +
                             ") of one that lives, from " +
                             Cluster::nameOf(cluster->mbarriers[barrier].site));
  if (count < 1 || count >= 1u << 20)
    cluster->fail(*this, "misused mbarrier: mbarrierInit (" + Cluster::nameOf(site) + ") with " +
                             std::to_string(count) + " arrivals");
  if (cluster->checked)
    cluster->check(*this, barrier, 8, true, Cluster::Use::Write, cluster->place(site));
  cluster->markBarrier(barrier, true);
  Mbarrier &made = cluster->mbarriers[barrier];
  made.count = made.pending = count;
  made.initThread = index;
  made.initEpoch = clock.epoch;
  made.site = site;
}

void EmulatedThread::mbarrierInvalidate(void *barrier, Site site) {
  Mbarrier &found = cluster->findMbarrier(*this, barrier, "mbarrierInvalidate", site);
  if (!found.waiting.empty())
    cluster->fail(*this, "misused mbarrier: mbarrierInvalidate (" + Cluster::nameOf(site) +
                             ") while threads wait");
  cluster->mbarriers.erase(barrier);
  cluster->markBarrier(barrier, false);
}

void EmulatedThread::fenceMbarrierInit() { initFence = ++clock.epoch; }

/// The mbarrier at this address, which the thread must know to have been initialised.
Mbarrier &Cluster::findMbarrier(EmulatedThread &thread, const void *address, const char *what,
                                Site site) {
  needShared(thread, address, 8, 8, what, site);
  auto found = mbarriers.find(address);
  if (found == mbarriers.end())
    fail(thread, std::string("misused mbarrier: ") + what + " (" + nameOf(site) + ") of " +
                     nameOf(address) + ", where none was initialised");
  Mbarrier &barrier = found->second;
  if (checked && !thread.clock.knows(barrier.initThread, barrier.initEpoch))
    fail(thread, std::string("race: ") + what + " (" + nameOf(site) + ") of an mbarrier that " +
                     nameOf(*threads[barrier.initThread]) + " initialised (" +
                     nameOf(barrier.site) + ") with no barrier in between");
  return barrier;
}

void EmulatedThread::mbarrierArrive(void *barrier, bool arrive, unsigned expected, unsigned rank,
                                    bool showsWrites, Site site) {
  void *target = barrier;
  if (rank != 0xffffffffu) {
    cluster->needShared(*this, barrier, 8, 8, "mbarrierArriveRemote", site);
    if (rank >= cluster->blocks.size())
      cluster->fail(*this, "mbarrierArriveRemote (" + Cluster::nameOf(site) + "): block " +
                               std::to_string(rank) + " is not in the cluster of " +
                               std::to_string(cluster->blocks.size()));
    target = cluster->peer(barrier, rank);
  }
  Mbarrier &found = cluster->findMbarrier(*this, target, "mbarrierArrive", site);
  const bool isRemote = cluster->shared(target, 8)->block != block;
  cluster->arriveAt(found, *this, expected, arrive, isRemote && !showsWrites, site);
}

void Cluster::arriveAt(Mbarrier &barrier, EmulatedThread &thread, uint32_t expected, bool arrive,
                       bool hidesWrites, Site site) {
  constexpr int64_t most = (1 << 20) - 1;
  barrier.bytes += expected;
  if (barrier.bytes > most)
    fail(thread, "misused mbarrier: more than " + std::to_string(most) + " bytes are expected (" +
                     nameOf(site) + ")");
  if (!arrive)
    return;
  if (barrier.pending == 0)
    fail(thread, "misused mbarrier: arrival (" + nameOf(site) + ") beyond the " +
                     std::to_string(barrier.count) + " of the phase (" + nameOf(barrier.site) +
                     ")");
  --barrier.pending;
  ++progress;
  if (checked && hidesWrites)
    barrier.current.addReads(thread.clock, threadCount());
  else if (checked)
    barrier.current.add(thread.clock, threadCount());
  turn(barrier);
}

/// Begins the next phase when this one is complete.
void Cluster::turn(Mbarrier &barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0)
    return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.completed.add(barrier.current);
  barrier.current.clear();
  for (EmulatedThread *thread : barrier.waiting)
    wake(*thread);
  barrier.waiting.clear();
}

void EmulatedThread::mbarrierWait(void *barrier, unsigned parity, Site site) {
  Mbarrier &found = cluster->findMbarrier(*this, barrier, "mbarrierWait", site);
  if (parity > 1)
    cluster->fail(*this, "misused mbarrier: mbarrierWait (" + Cluster::nameOf(site) +
                             ") for parity " + std::to_string(parity));
  while ((found.phase & 1) == parity) {
    found.waiting.push_back(this);
    cluster->wait(*this, "mbarrierWait", site);
  }
  if (cluster->checked)
    found.completed.acquire(clock);
}

bool EmulatedThread::mbarrierTryWait(void *barrier, unsigned parity, Site site) {
  Mbarrier &found = cluster->findMbarrier(*this, barrier, "mbarrierTryWait", site);
  if (parity > 1)
    cluster->fail(*this, "misused mbarrier: mbarrierTryWait (" + Cluster::nameOf(site) +
                             ") for parity " + std::to_string(parity));
  if ((found.phase & 1) == parity) {
    // As on the GPU: waits a while, here as long as others can go on.
    cluster->spinning.push_back(this);
    cluster->wait(*this, "mbarrierTryWait", site);
  }
  Mbarrier &now = cluster->findMbarrier(*this, barrier, "mbarrierTryWait", site);
  if ((now.phase & 1) == parity)
    return false;
  if (cluster->checked)
    now.completed.acquire(clock);
  return true;
}

} // namespace nano::emulator
