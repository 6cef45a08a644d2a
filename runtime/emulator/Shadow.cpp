// Sets of reads and the cells of global memory.
#include "runtime/emulator/Shadow.h"

#include <algorithm>
#include <sys/mman.h>

namespace nano::emulator {

void ReadSets::clear() {
  nodes.resize(1);
  std::fill(made.begin(), made.end(), Made());
}

uint32_t ReadSets::add(uint32_t set, const Clock &reader, Place place) {
  const Read head = nodes[set];
  if (set && !head.async && head.thread == reader.thread && head.epoch == reader.epoch)
    return set;
  uint32_t hash =
      (set * 0x9e3779b1u) ^ (reader.epoch * 0x85ebca6bu) ^ (reader.thread * 0xc2b2ae35u);
  Made &known = made[(hash >> 16 ^ hash) % made.size()];
  if (known.result && known.set == set && known.epoch == reader.epoch &&
      known.thread == reader.thread)
    return known.result;

  known = {set, reader.epoch, reader.thread, set};
  for (uint32_t i = set; i; i = nodes[i].next)
    if (!nodes[i].async && nodes[i].thread == reader.thread && nodes[i].epoch == reader.epoch)
      return set;
  // Reads of one time between barriers only add up; the first one after it drops those before.
  uint32_t rest = set;
  if (set && !head.async && reader.knows(head.thread, head.epoch)) {
    rest = 0;
    for (uint32_t i = set; i; i = nodes[i].next) {
      Read read = nodes[i];
      if (!read.async && reader.knows(read.thread, read.epoch))
        continue;
      read.next = rest;
      nodes.push_back(read);
      rest = uint32_t(nodes.size() - 1);
    }
  }
  nodes.push_back({rest, reader.epoch, place, uint16_t(reader.thread), false});
  known.result = uint32_t(nodes.size() - 1);
  return known.result;
}

uint32_t ReadSets::addAsync(uint32_t set, uint32_t number, uint16_t thread, Place place) {
  const Read &head = nodes[set];
  if (set && head.async && head.epoch == number)
    return set;
  nodes.push_back({set, number, place, thread, true});
  return uint32_t(nodes.size() - 1);
}

GlobalMemory::~GlobalMemory() {
  if (memory)
    munmap(memory, memoryBytes);
}

bool GlobalMemory::set(std::vector<Region> ascending) {
  regions = std::move(ascending);
  uint64_t cells = 0;
  for (const Region &region : regions) {
    firstCell.push_back(cells);
    cells += region.bytes / uint64_t(region.elementBytes) + 1;
  }
  // Pages of zeros: void cells, serial numbers start at 1.
  memoryBytes = (cells + 1) * sizeof(Cell);
  void *mapped = mmap(nullptr, memoryBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return false;
  memory = static_cast<Cell *>(mapped);
  return true;
}

const Region *GlobalMemory::before(const void *address) const {
  auto after = std::upper_bound(
      regions.begin(), regions.end(), address,
      [](const void *value, const Region &region) { return value < region.begin; });
  return after == regions.begin() ? nullptr : &*(after - 1);
}

Region *GlobalMemory::find(const void *address) {
  if (last && address >= last->begin && address < last->end())
    return last;
  const Region *region = before(address);
  if (!region || address >= region->end())
    return nullptr;
  return last = &regions[size_t(region - regions.data())];
}

Cell *GlobalMemory::cells(const Region &region) const {
  return memory + firstCell[size_t(&region - regions.data())];
}

} // namespace nano::emulator
