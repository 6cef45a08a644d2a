// Asynchronous copies. What they do happens as late as the program allows: at the wait, or when
// nobody can go on without it.
#include "runtime/emulator/Boxes.h"
#include "runtime/emulator/Cluster.h"

#include <algorithm>
#include <cstring>

namespace nano::emulator {

// ----------------------------------------------------------------- Copies of a thread's groups

void EmulatedThread::copyAsync(void *shared, const void *global, int bytes, int valid, Site site) {
  cluster->needShared(*this, shared, uint64_t(bytes), uint32_t(bytes), "copyAsync", site);
  if (valid < 0 || valid > bytes)
    cluster->fail(*this, "copyAsync (" + Cluster::nameOf(site) + "): " + std::to_string(valid) +
                             " of " + std::to_string(bytes) + " bytes are valid");
  if (reinterpret_cast<uintptr_t>(global) % uint64_t(bytes) != 0)
    cluster->fail(*this, "misaligned: copyAsync (" + Cluster::nameOf(site) + ") of " +
                             std::to_string(bytes) + " bytes from " + cluster->nameOf(global) +
                             ", which is no multiple of them");
  Place place = 0;
  if (cluster->checked) {
    place = cluster->place(site);
    cluster->check(*this, global, uint64_t(valid), false, Cluster::Use::Read, place);
    cluster->check(*this, shared, uint64_t(bytes), false, Cluster::Use::CopyWrite, place);
  }
  copies.push_back({static_cast<std::byte *>(shared), static_cast<const std::byte *>(global),
                    uint32_t(bytes), uint32_t(valid), copyGroups, place});
}

void EmulatedThread::copyAsyncCommit() { ++copyGroups; }

void EmulatedThread::copyAsyncWait(int pending, Site) {
  uint32_t finished = copyGroups - std::min(copyGroups, uint32_t(pending));
  size_t count = 0;
  while (count < copies.size() && copies[count].group < finished)
    ++count;
  finishCopies(count);
}

/// Ends the oldest copies.
void EmulatedThread::finishCopies(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const AsyncCopy &copy = copies[i];
    std::memcpy(copy.to, copy.from, copy.valid);
    std::memset(copy.to + copy.valid, 0, copy.bytes - copy.valid);
    cluster->finishCopy(*this, copy.to, copy.bytes, 0);
  }
  copies.erase(copies.begin(), copies.begin() + ptrdiff_t(count));
  copiesEnded += count;
}

void EmulatedThread::copyAsyncArrive(void *barrier, Site site) {
  cluster->findMbarrier(*this, barrier, "copyAsyncArrive", site);
  Effect effect;
  effect.kind = Effect::Kind::CopyArrival;
  effect.thread = this;
  effect.site = site;
  effect.barrier = static_cast<std::byte *>(barrier);
  effect.copies = copiesEnded + copies.size();
  cluster->effects.push_back(effect);
}

// ------------------------------------------------------------------------------ Bulk copies

void EmulatedThread::fenceProxyAsync() {
  if (cluster->checked)
    clock.fence(cluster->threadCount());
  initFence = ++clock.epoch;
}

void EmulatedThread::bulkLoad(void *shared, const void *global, unsigned bytes, void *barrier,
                              unsigned toBlocks, Site site) {
  cluster->needShared(*this, shared, bytes, 16, "bulkLoad", site);
  if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0)
    cluster->fail(*this, "misaligned: bulkLoad (" + Cluster::nameOf(site) + ") of " +
                             std::to_string(bytes) + " bytes from " + cluster->nameOf(global) +
                             ": both must be multiples of 16");
  Effect effect;
  effect.thread = this;
  effect.site = site;
  effect.to = static_cast<std::byte *>(shared);
  effect.from = static_cast<const std::byte *>(global);
  effect.bytes = bytes;
  effect.blocks = toBlocks;
  effect.barrier = static_cast<std::byte *>(barrier);
  if (cluster->checked) {
    effect.place = cluster->place(site);
    cluster->check(*this, global, bytes, false, Cluster::Use::Read, effect.place);
  }
  cluster->startBulkLoad(effect, "bulkLoad");
}

void EmulatedThread::storeAsyncRemote(void *shared, unsigned long value, void *barrier,
                                      unsigned rank, Site site) {
  cluster->needShared(*this, shared, 8, 8, "storeAsyncRemote", site);
  if (rank >= cluster->blocks.size())
    cluster->fail(*this, "storeAsyncRemote (" + Cluster::nameOf(site) + "): block " +
                             std::to_string(rank) + " is not in the cluster of " +
                             std::to_string(cluster->blocks.size()));
  Effect effect;
  effect.thread = this;
  effect.site = site;
  effect.to = static_cast<std::byte *>(shared);
  effect.bytes = sizeof(uint64_t);
  effect.blocks = 1u << rank;
  effect.value = value;
  effect.barrier = static_cast<std::byte *>(barrier);
  if (cluster->checked) {
    effect.place = cluster->place(site);
    effect.told.addReads(clock, cluster->threadCount());
  }
  cluster->startBulkLoad(effect, "storeAsyncRemote");
}

void Cluster::startBulkLoad(Effect effect, const char *what) {
  EmulatedThread &thread = *effect.thread;
  const std::string here = std::string(what) + " (" + nameOf(effect.site) + ")";
  if (effect.blocks == 0 || effect.blocks >> blocks.size())
    fail(thread, std::string(what) + "Multicast (" + nameOf(effect.site) + ") to blocks " +
                     std::to_string(effect.blocks) + ", which the cluster of " +
                     std::to_string(blocks.size()) + " does not have");
  effect.number = ++asyncNumber;
  asyncEnded.push_back(true);
  for (uint32_t rank = 0; rank < blocks.size(); ++rank) {
    if (!(effect.blocks >> rank & 1))
      continue;
    const Mbarrier &target = findMbarrier(thread, peer(effect.barrier, rank), what, effect.site);
    if (!checked)
      continue;
    if (threads[target.initThread]->initFence <= target.initEpoch &&
        !thread.clock.knowsFenced(target.initThread, target.initEpoch))
      fail(thread, "missing fence: " + here + " ends at an mbarrier initialised (" +
                       nameOf(target.site) + ") with no fenceMbarrierInit after it");
    check(thread, peer(effect.to, rank), effect.bytes, false, Use::CopyWrite, effect.place);
  }
  effects.push_back(effect);
}

/// Ends one asynchronous effect, preferably one that somebody waits for. False when there is none.
bool Cluster::finishEffect() {
  if (effects.empty())
    return false;
  auto isAwaited = [&](const Effect &effect) {
    for (uint32_t rank = 0; rank < blocks.size(); ++rank) {
      const std::byte *barrier =
          effect.kind == Effect::Kind::CopyArrival ? effect.barrier : peer(effect.barrier, rank);
      auto found = mbarriers.find(barrier);
      if (found != mbarriers.end() && !found->second.waiting.empty())
        return true;
    }
    return false;
  };
  std::vector<size_t> candidates;
  for (size_t i = 0; i < effects.size(); ++i)
    if (isAwaited(effects[i]))
      candidates.push_back(i);
  size_t chosen = candidates.empty() ? random.below(effects.size())
                                     : candidates[random.below(candidates.size())];
  Effect effect = effects[chosen];
  effects.erase(effects.begin() + ptrdiff_t(chosen));
  ++progress;
  if (effect.kind == Effect::Kind::BulkLoad) {
    finishBulkLoad(effect);
    return true;
  }
  EmulatedThread &thread = *effect.thread;
  if (effect.copies > thread.copiesEnded)
    thread.finishCopies(size_t(effect.copies - thread.copiesEnded));
  auto barrier = mbarriers.find(effect.barrier);
  if (barrier == mbarriers.end())
    setFault(&thread,
             "misused mbarrier: invalidated before an arrival (" + nameOf(effect.site) + ")");
  else if (barrier->second.pending == 0)
    setFault(&thread, "misused mbarrier: arrival (" + nameOf(effect.site) + ") beyond the " +
                          std::to_string(barrier->second.count) + " of the phase (" +
                          nameOf(barrier->second.site) + ")");
  else
    arriveAt(barrier->second, thread, 0, true, false, effect.site);
  return true;
}

void Cluster::finishBulkLoad(const Effect &effect) {
  for (uint32_t rank = 0; rank < blocks.size(); ++rank) {
    if (!(effect.blocks >> rank & 1))
      continue;
    std::byte *to = peer(effect.to, rank);
    if (effect.value)
      std::memcpy(to, &*effect.value, effect.bytes);
    else if (effect.map)
      copyBox(to, *effect.map, effect.column, effect.row);
    else
      std::memcpy(to, effect.from, effect.bytes);
    finishCopy(*effect.thread, to, effect.bytes, effect.number);
    auto found = mbarriers.find(peer(effect.barrier, rank));
    if (found == mbarriers.end())
      return setFault(effect.thread, "misused mbarrier: invalidated before a bulk load to it (" +
                                         nameOf(effect.site) + ") has ended");
    Mbarrier &barrier = found->second;
    barrier.bytes -= effect.bytes;
    barrier.current.add(effect.told);
    barrier.current.addAsync(effect.number);
    constexpr int64_t most = (1 << 20) - 1;
    if (barrier.bytes < -most)
      return setFault(effect.thread, "misused mbarrier: more bytes come than are expected (" +
                                         nameOf(effect.site) + ")");
    turn(barrier);
  }
}

void EmulatedThread::bulkStore(void *global, const void *shared, unsigned bytes, Site site) {
  startStore(global, shared, bytes, /*adds=*/false, site);
}

void EmulatedThread::bulkAdd(float *global, const float *shared, unsigned bytes, Site site) {
  startStore(global, shared, bytes, /*adds=*/true, site);
}

void EmulatedThread::startStore(void *global, const void *shared, unsigned bytes, bool adds,
                                Site site) {
  const char *what = adds ? "bulkAdd" : "bulkStore";
  cluster->needShared(*this, shared, bytes, 16, what, site);
  if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0)
    cluster->fail(*this, std::string("misaligned: ") + what + " (" + Cluster::nameOf(site) +
                             ") of " + std::to_string(bytes) + " bytes to " +
                             cluster->nameOf(global) + ": both must be multiples of 16");
  uint32_t number = ++cluster->asyncNumber;
  cluster->asyncEnded.push_back(false);
  Place place = 0;
  if (cluster->checked) {
    place = cluster->place(site);
    cluster->check(*this, shared, bytes, false, Cluster::Use::AsyncRead, place, number);
    cluster->check(*this, global, bytes, false,
                   adds ? Cluster::Use::CopyAdd : Cluster::Use::CopyWrite, place);
  }
  BulkStore store;
  store.to = static_cast<std::byte *>(global);
  store.from = static_cast<const std::byte *>(shared);
  store.group = storeGroups;
  store.number = number;
  store.bytes = bytes;
  store.adds = adds;
  store.place = place;
  store.site = site;
  stores.push_back(std::move(store));
}

void BulkStore::write() const {
  if (!adds) {
    std::memcpy(to, data.data(), bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += sizeof(float)) {
    float sum = 0, summand = 0;
    std::memcpy(&sum, to + at, sizeof sum);
    std::memcpy(&summand, data.data() + at, sizeof summand);
    sum += summand;
    std::memcpy(to + at, &sum, sizeof sum);
  }
}

void EmulatedThread::bulkCommit() { ++storeGroups; }

/// The stores of groups before `groups` have read their sources.
void EmulatedThread::readStores(uint32_t groups) {
  for (BulkStore &store : stores)
    if (store.group < groups && !store.read) {
      store.data.assign(store.from, store.from + store.bytes);
      store.read = true;
      cluster->asyncEnded[store.number] = true;
      clock.async = std::max(clock.async, store.number);
    }
}

void EmulatedThread::bulkWait(int pending, bool read, Site) {
  uint32_t finished = storeGroups - std::min(storeGroups, uint32_t(pending));
  readStores(finished);
  if (read)
    return;
  size_t count = 0;
  while (count < stores.size() && stores[count].group < finished) {
    const BulkStore &store = stores[count++];
    store.write();
    cluster->finishCopy(*this, store.to, store.bytes, store.number);
    clock.stored = std::max(clock.stored, store.number);
  }
  stores.erase(stores.begin(), stores.begin() + ptrdiff_t(count));
}

} // namespace nano::emulator
