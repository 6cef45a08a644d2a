// Threads of a cluster in turns: a seeded random one of those that can go on, until all have ended.
#include "runtime/emulator/Cluster.h"
#include "runtime/plan/Limits.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace nano::emulator {

std::optional<std::string> Cluster::run(const Launch &next, uint32_t firstBlock) {
  launch = &next;
  fault.reset();
  if (prepare(firstBlock))
    schedule();
  if (!fault)
    checkEnd();
  return std::move(fault);
}

/// Finds the memory of the kernel's __shared__ variables.
void Cluster::findStaticShared() {
  const KernelImage *image = launch->kernel->image;
  if (staticImage != image || staticThread != std::this_thread::get_id()) {
    staticImage = image;
    staticThread = std::this_thread::get_id();
    foundShared = image->staticShared();
  }
  // One byte of it is the emulator's own, in every kernel.
  staticShared = foundShared.bytes > 1 ? foundShared : StaticShared();
}

bool Cluster::prepare(uint32_t firstBlock) {
  const Kernel &kernel = *launch->kernel;
  uint32_t count = uint32_t(kernel.clusterBlocks);
  cluster = firstBlock / count;
  checked = launch->memory != nullptr;
  random = Random(launch->seed * 1000003 + cluster);

  findStaticShared();
  bool usesStatic = staticShared.bytes > 0;
  staticBytes = uint32_t((staticShared.bytes + 1023) / 1024 * 1024);
  if (usesStatic && count > 1) {
    setFault(nullptr, "a kernel with a cluster keeps its shared memory in dynamicShared here, not "
                      "in __shared__ variables");
    return false;
  }
  if (staticShared.bytes + launch->sharedBytes > plan::maxSharedBytes) {
    setFault(nullptr, "a block needs " + std::to_string(staticShared.bytes + launch->sharedBytes) +
                          " bytes of shared memory and has " +
                          std::to_string(plan::maxSharedBytes));
    return false;
  }
  if (launch->blocks % count != 0) {
    setFault(nullptr, "the grid of " + std::to_string(launch->blocks) +
                          " blocks is no multiple of the cluster's " + std::to_string(count));
    return false;
  }

  // Between the blocks' parts lies memory that belongs to none.
  blockStride = (launch->sharedBytes + 1023) / 1024 * 1024 + 1024;
  if (memoryBytes < blockStride * count) {
    memoryBytes = blockStride * count;
    memory.reset(static_cast<std::byte *>(std::aligned_alloc(1024, memoryBytes)));
  }
  uint32_t threadsInAll = count * launch->threads;
  if (!memory || !stacks.reserve(threadsInAll)) {
    memoryBytes = 0;
    setFault(nullptr, "out of memory for the threads of a block");
    return false;
  }
  std::memset(memory.get(), 0xff, blockStride * count);
  if (usesStatic)
    std::memset(staticShared.begin, 0xff, staticShared.bytes);
  if (checked) {
    sharedCells.resize(size_t(count) * (staticBytes + launch->sharedBytes));
    ++sharedSerial;
    reads.clear();
    sites.clear();
    siteNumbers.clear();
  }
  mbarriers.clear();
  effects.clear();
  asyncNumber = 0;
  asyncEnded.assign(1, true);
  clusterArrived = clusterPhase = 0;
  clusterRelease.clear();
  clusterReleased.clear();
  clusterWaiting.clear();
  runnableWarps.clear();
  currentWarp = nullptr;
  spinning.clear();
  countWaits = 0;
  threads.clear();
  progress = 0;

  blocks.clear();
  blocks.resize(count);
  live = threadsInAll;
  for (uint32_t b = 0; b < count; ++b) {
    Block &block = blocks[b];
    block.rank = b;
    block.dynamicShared = memory.get() + b * blockStride;
    block.warps.resize(launch->threads / 32);
    block.warpgroups.resize(launch->threads / 128);
    block.live = launch->threads;
    for (uint32_t t = 0; t < launch->threads; ++t) {
      uint32_t index = b * launch->threads + t;
      static_assert(sizeof(EmulatedThread) <= headBytes - 63 * headStride);
      // Its lists live on only as empty ones: a piece that was used before is written over.
      auto *thread = new (stacks.owner(index)) EmulatedThread;
      thread->threadIdx = {t, 0, 0};
      thread->blockIdx = {firstBlock + b, 0, 0};
      thread->blockDim = {launch->threads, 1, 1};
      thread->gridDim = {launch->blocks, 1, 1};
      thread->dynamicShared = reinterpret_cast<unsigned char *>(block.dynamicShared);
      thread->cluster = this;
      thread->block = &block;
      thread->warp = &block.warps[t / 32];
      thread->index = index;
      thread->inBlock = t;
      thread->lane = t % 32;
      thread->warp->lanes[t % 32] = thread;
      thread->clock.thread = index;
      thread->stackPointer = startFiber(stacks.owner(index), &Cluster::fiberMain);
      threads.push_back(thread);
      wake(*thread);
    }
  }
  return true;
}

void Cluster::fiberMain() {
  auto &thread = static_cast<EmulatedThread &>(emulator::thread());
  thread.cluster->enter(thread);
  __builtin_unreachable();
}

void Cluster::enter(EmulatedThread &thread) {
  launch->kernel->enter(launch->parameters, launch->maps);
  end(thread);
}

void Cluster::schedule() {
  uint64_t lastProgress = 0;
  int idleRounds = 0;
  std::chrono::steady_clock::time_point idleSince;
  while (live > 0 && !fault) {
    if ((current = next())) {
      changeFiber(&schedulerStack, current->stackPointer, current);
      continue;
    }
    bool changed = finishEffect();
    idleRounds = progress == lastProgress ? idleRounds + 1 : 0;
    lastProgress = progress;
    // Threads in a loop around mbarrierTryWait see a change, if there is one; those that wait for a
    // count, what other clusters do at the same time.
    constexpr int enough = 1000;
    constexpr std::chrono::seconds patience(60);
    if (idleRounds <= enough)
      idleSince = std::chrono::steady_clock::now();
    const bool isForOthers =
        !checked && countWaits > 0 && std::chrono::steady_clock::now() - idleSince < patience;
    if (isForOthers)
      std::this_thread::yield();
    if (idleRounds < enough || isForOthers)
      for (EmulatedThread *thread : std::exchange(spinning, {}))
        wake(*thread);
    if (!changed && runnableWarps.empty()) {
      reportDeadlock();
      break;
    }
  }
  for (EmulatedThread *thread : threads)
    thread->~EmulatedThread();
}

void Cluster::wait(EmulatedThread &thread, const char *what, Site site) {
  thread.state = EmulatedThread::State::Waiting;
  thread.waitsFor = what;
  thread.waitsAt = site;
  current = next();
  changeFiber(&thread.stackPointer, current ? current->stackPointer : schedulerStack, current);
}

void Cluster::wake(EmulatedThread &thread) { wakeLanes(*thread.warp, 1u << thread.lane); }

void Cluster::wakeLanes(Warp &warp, uint32_t lanes) {
  warp.runnable |= lanes;
  if (!warp.listed)
    runnableWarps.push_back(&warp);
  warp.listed = true;
}

EmulatedThread *Cluster::next() {
  uint64_t bits = random.next();
  bool isOther = (bits >> 40 & 7) == 0;
  if (!currentWarp || !currentWarp->runnable || isOther) {
    currentWarp = nullptr;
    while (!currentWarp && !runnableWarps.empty()) {
      size_t chosen = random.below(runnableWarps.size());
      Warp *warp = runnableWarps[chosen];
      if (warp->runnable) {
        currentWarp = warp;
        break;
      }
      warp->listed = false;
      runnableWarps[chosen] = runnableWarps.back();
      runnableWarps.pop_back();
    }
    if (!currentWarp)
      return nullptr;
  }
  uint32_t turn = bits >> 48 & 31, lanes = currentWarp->runnable;
  uint32_t turned = lanes >> turn | lanes << ((32 - turn) & 31);
  uint32_t lane = (uint32_t(__builtin_ctz(turned)) + turn) & 31;
  currentWarp->runnable &= ~(1u << lane);
  EmulatedThread *thread = currentWarp->lanes[lane];
  thread->state = EmulatedThread::State::Runnable;
  return thread;
}

void Cluster::end(EmulatedThread &thread) {
  thread.state = EmulatedThread::State::Ended;
  for (const BulkStore &store : thread.stores)
    if (!store.read)
      fail(thread, "ends before its bulk store (" + nameOf(store.site) +
                       ") has read shared memory: bulkWaitRead or bulkWait is missing");
  for (const BulkStore &store : thread.stores)
    store.write();
  for (const Gathering &each : thread.warp->gatherings)
    if (each.mask >> thread.lane & 1)
      fail(thread, std::string("divergent warp: ends while lane ") +
                       std::to_string(__builtin_ctz(each.arrived)) + " waits for it in " +
                       each.what + " (" + nameOf(each.site) + ")");
  thread.warp->ended |= 1u << thread.lane;
  ++progress;
  --live;
  Block &block = *thread.block;
  --block.live;
  for (int id = 1; id < 16; ++id) {
    NamedBarrier &named = block.barriers[size_t(id)];
    if (named.lanes[thread.inBlock / 32] && arrivalsAt(block, named) >= named.expected)
      complete(block, named, id, nullptr);
  }
  NamedBarrier &all = block.barriers[0];
  if (block.live > 0 && all.arrived == block.live)
    complete(block, all, 0, nullptr);
  if (live > 0 && clusterArrived == live)
    completeClusterBarrier();
  current = next();
  changeFiber(&thread.stackPointer, current ? current->stackPointer : schedulerStack, current);
  __builtin_unreachable();
}

} // namespace nano::emulator
