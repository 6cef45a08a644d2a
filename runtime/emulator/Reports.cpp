// What ends a run: faults, deadlocks and what is left over at the end, in words.
#include "runtime/emulator/Cluster.h"

#include <algorithm>

namespace nano::emulator {

void Cluster::checkEnd() {
  for (Block &block : blocks)
    for (size_t id = 0; id < block.barriers.size(); ++id)
      if (block.barriers[id].arrived)
        return setFault(nullptr, "ends with " + std::to_string(block.barriers[id].arrived) +
                                     " of " + std::to_string(block.barriers[id].expected) +
                                     " arrivals at barrier " + std::to_string(id) + " (" +
                                     nameOf(block.barriers[id].site) + ")");
  for (const Block &block : blocks)
    for (const Warpgroup &group : block.warpgroups)
      if (!group.products.empty())
        return setFault(nullptr, "ends before its product of a warpgroup (" +
                                     nameOf(group.products[0].site) +
                                     ") has ended: warpgroupWait is missing");
  for (const Effect &effect : effects)
    if (effect.kind == Effect::Kind::BulkLoad)
      return setFault(nullptr, "ends while its bulk load (" + nameOf(effect.site) +
                                   ") is under way: nothing waits for its mbarrier");
}

void Cluster::reportDeadlock() {
  // By what threads wait for, in the order of the threads.
  struct Group {
    std::string what;
    size_t count = 0;
    const EmulatedThread *first = nullptr;
  };
  std::vector<Group> groups;
  for (const EmulatedThread *thread : threads) {
    if (thread->state == EmulatedThread::State::Ended)
      continue;
    std::string what = std::string(thread->waitsFor) + " (" + nameOf(thread->waitsAt) + ")";
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const Group &group) { return group.what == what; });
    if (found == groups.end())
      found = groups.insert(groups.end(), {what, 0, thread});
    ++found->count;
  }
  std::string text = "deadlock: ";
  for (size_t i = 0; i < groups.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(groups[i].count) +
            (groups[i].count == 1 ? " thread waits in " : " threads wait in ") + groups[i].what;
    if (groups.size() > 1)
      text += " (thread " + std::to_string(groups[i].first->inBlock) +
              (groups[i].count > 1 ? ", …)" : ")");
  }
  if (live < threads.size())
    text += "; " + std::to_string(threads.size() - live) + " have ended";
  setFault(nullptr, text);
}

void Cluster::fail(const EmulatedThread &thread, const std::string &what) {
  setFault(&thread, what);
  void *never = nullptr;
  changeFiber(&never, schedulerStack, nullptr);
  __builtin_unreachable();
}

void Cluster::setFault(const EmulatedThread *thread, const std::string &what) {
  uint32_t first = cluster * uint32_t(launch->kernel->clusterBlocks);
  std::string text = "kernel '" + launch->kernel->name + "' (" + launch->kernel->source + "), ";
  if (thread)
    text += "block " + std::to_string(thread->blockIdx.x) + ", thread " +
            std::to_string(thread->inBlock) + ": ";
  else
    text += "block " + std::to_string(first) + ": ";
  fault = text + what;
}

std::string Cluster::nameOf(const EmulatedThread &thread) const {
  std::string name = "thread " + std::to_string(thread.inBlock);
  return blocks.size() > 1 ? name + " of block " + std::to_string(thread.blockIdx.x) : name;
}

std::string Cluster::nameOf(Site site) {
  std::string file = site.file ? site.file : "?";
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

Place Cluster::place(Site site) {
  auto [found, isNew] = siteNumbers.try_emplace({site.file, site.line}, Place(sites.size()));
  if (isNew)
    sites.push_back(site);
  return found->second | 0x80000000u;
}

std::string Cluster::nameOf(Place place) const {
  if (place & 0x80000000u)
    return nameOf(sites[place & 0x7fffffffu]);
  return launch->kernel->image->lineOf(place);
}

} // namespace nano::emulator
