// Every access of kernel text: whether it lies where it may, is aligned, reads what was written,
// and comes after those that it conflicts with.
#include "runtime/emulator/Cluster.h"

#include <cstring>

namespace nano::emulator {

namespace {

bool isWithin(const void *address, const void *begin, const void *end) {
  return address >= begin && address < end;
}

std::string bytesText(uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

} // namespace

std::optional<Cluster::SharedPlace> Cluster::shared(const void *address, uint64_t bytes) const {
  auto *start = static_cast<const std::byte *>(address);
  if (start >= memory.get() && start < memory.get() + blockStride * blocks.size()) {
    size_t offset = size_t(start - memory.get()), rank = 0;
    if (blocks.size() > 1)
      rank = offset / blockStride, offset %= blockStride;
    if (offset + bytes <= launch->sharedBytes)
      return SharedPlace{const_cast<Block *>(&blocks[rank]), uint32_t(staticBytes + offset)};
    return std::nullopt;
  }
  if (staticShared.begin && start >= staticShared.begin &&
      start + bytes <= staticShared.begin + staticShared.bytes)
    return SharedPlace{const_cast<Block *>(&blocks[0]), uint32_t(start - staticShared.begin)};
  return std::nullopt;
}

Cluster::SharedPlace Cluster::needShared(EmulatedThread &thread, const void *address,
                                         uint64_t bytes, uint32_t alignment, const char *what,
                                         Site site) {
  auto found = shared(address, bytes);
  if (!found)
    fail(thread, std::string(what) + " (" + nameOf(site) + "): " + bytesText(bytes) + " at " +
                     nameOf(address) + " are not in shared memory");
  if (found->offset % alignment != 0)
    fail(thread, std::string(what) + " (" + nameOf(site) + "): misaligned: byte " +
                     std::to_string(found->offset) + " of shared memory is no multiple of " +
                     std::to_string(alignment));
  return *found;
}

std::byte *Cluster::sharedPointer(const Block &block, uint32_t offset) const {
  return offset < staticBytes ? staticShared.begin + offset
                              : block.dynamicShared + (offset - staticBytes);
}

std::byte *Cluster::peer(const void *address, uint32_t rank) const {
  auto place = shared(address, 1);
  return place ? sharedPointer(blocks[rank], place->offset) : nullptr;
}

/// How messages call an address.
std::string Cluster::nameOf(const void *address) const {
  if (auto place = shared(address, 1)) {
    std::string name = "byte " + std::to_string(place->offset) + " of shared memory";
    return blocks.size() > 1
               ? name + " of block " + std::to_string(place->block->rank) + " of the cluster"
               : name;
  }
  auto *byte = static_cast<const std::byte *>(address);
  if (byte >= memory.get() && byte < memory.get() + blockStride * blocks.size())
    return "byte " + std::to_string(staticBytes + size_t(byte - memory.get()) % blockStride) +
           " of shared memory, which has " + std::to_string(staticBytes + launch->sharedBytes);
  if (launch->memory)
    if (const Region *region = launch->memory->before(address)) {
      uint64_t offset = uint64_t(byte - region->begin);
      if (offset < region->bytes)
        return "byte " + std::to_string(offset) + " of buffer '" + region->name + "'";
      if (offset < region->bytes + (uint64_t(1) << 32))
        return "byte " + std::to_string(offset) + " of buffer '" + region->name + "', which has " +
               std::to_string(region->bytes);
    }
  if (isWithin(address, stacks.piece(0), stacks.piece(stacks.count())))
    return "another thread's stack";
  if (reinterpret_cast<uintptr_t>(address) < 65536)
    return "a null pointer";
  return "memory that is not the kernel's";
}

Cell *Cluster::cellsOf(const void *address, uint64_t bytes, uint64_t &count, Region **region) {
  *region = nullptr;
  if (auto place = shared(address, bytes)) {
    count = bytes;
    return &sharedCells[size_t(place->block->rank) * (staticBytes + launch->sharedBytes) +
                        place->offset];
  }
  Region *found = launch->memory->find(address);
  auto *start = static_cast<const std::byte *>(address);
  if (!found || start + bytes > found->end())
    return nullptr;
  *region = found;
  uint64_t element = uint64_t(found->elementBytes), offset = uint64_t(start - found->begin);
  count = (offset + bytes - 1) / element - offset / element + 1;
  return launch->memory->cells(*found) + offset / element;
}

void Cluster::checkOutside(EmulatedThread &thread, const void *address, uint64_t bytes, bool write,
                           Place place) {
  const KernelImage &image = *launch->kernel->image;
  auto *end = static_cast<const std::byte *>(address) + bytes;
  auto *parameters = static_cast<const std::byte *>(launch->parameters);
  if (!write && address >= parameters && end <= parameters + launch->kernel->parameterBytes)
    return;
  if (isWithin(address, image.begin(), image.end())) {
    if (!write)
      return;
    fail(thread, "writes a variable of the kernel's text that all threads share (" + nameOf(place) +
                     "): there is no such memory on a GPU");
  }
  fail(thread, std::string("out of bounds: ") + (write ? "writes " : "reads ") + bytesText(bytes) +
                   " at " + nameOf(address) + " (" + nameOf(place) + ")");
}

const char *Cluster::conflict(const EmulatedThread &thread, const Cell &cell, Use use,
                              const Region *region, std::string &relation) const {
  using Flag = Cell::Flag;
  bool current = cell.serial == (region ? launch->serial : sharedSerial);
  uint16_t flags = current ? cell.flags : 0;
  bool written = flags & Flag::Written;
  auto by = [&](const char *did, uint32_t other, Place place) {
    return did + std::string(" by ") + nameOf(*threads[other]) + " (" + nameOf(place) + ")";
  };
  if (flags & Flag::Pending) {
    relation = by("to which a copy is under way, started", cell.writer, cell.writePlace);
    return "missing wait";
  }
  if (flags & Flag::Barrier) {
    relation = "which are part of an mbarrier";
    return "misused mbarrier";
  }
  if ((isRead(use) || use == Use::Atomic || use == Use::Add || use == Use::CopyAdd) && !written &&
      !(region && region->readable)) {
    relation = region ? "which this launch only writes, and has not written yet"
                      : "which nothing has written";
    return "uninitialised";
  }
  if (!current)
    return nullptr;

  if (region)
    if (const char *kind = conflictOfClusters(thread, cell, use, relation))
      return kind;
  if (use == Use::ReadOnly ? written : !isRead(use) && (flags & Flag::Constant)) {
    relation = written ? "as if nothing wrote them in this launch, which has (" +
                             nameOf(cell.writePlace) + ")"
                       : "which this launch has read as if nothing wrote them";
    return "race";
  }
  const bool bothAtomic = use == Use::Atomic && (flags & Flag::Atomic);
  if (written && !bothAtomic && cell.writeCluster == cluster) {
    bool byAsync = flags & Flag::ByAsync;
    if (byAsync && thread.clock.async < cell.writeEpoch) {
      relation = by("to which a copy was not waited for, started", cell.writer, cell.writePlace);
      return "missing wait";
    }
    if (!byAsync && !thread.clock.knows(cell.writer, cell.writeEpoch)) {
      relation = by("written", cell.writer, cell.writePlace) + " with no barrier in between";
      return "race";
    }
    if (use == Use::AsyncRead && !byAsync &&
        !thread.clock.knowsFenced(cell.writer, cell.writeEpoch)) {
      relation = by("written", cell.writer, cell.writePlace) +
                 " with no fenceProxyAsync before this asynchronous operation";
      return "missing fence";
    }
  }
  if (isRead(use))
    return nullptr;
  for (uint32_t set = cell.cluster == cluster ? cell.reads : 0; set; set = reads[set].next) {
    const ReadSets::Read &read = reads[set];
    if (read.async ? asyncEnded[read.epoch] && thread.clock.async >= read.epoch
                   : thread.clock.knowsRead(read.thread, read.epoch))
      continue;
    if (read.async) {
      relation = by("which an operation may still read, started", read.thread, read.place);
      return "missing wait";
    }
    relation = by("read", read.thread, read.place) + " with no barrier in between";
    return "race";
  }
  return nullptr;
}

const char *Cluster::conflictOfClusters(const EmulatedThread &thread, const Cell &cell, Use use,
                                        std::string &relation) const {
  using Flag = Cell::Flag;
  const bool written = cell.flags & Flag::Written, atomic = cell.flags & Flag::Atomic,
             shared = cell.flags & Flag::Shared;
  if (use == Use::Atomic && atomic)
    return nullptr;
  if (written && (cell.writeCluster != cluster || (atomic && shared))) {
    // A thread that has waited for a count comes after what those who added to it knew.
    auto isKnown = [&](const Accounts &accounts) {
      if (!accounts || atomic)
        return false;
      for (auto each = accounts->lower_bound({cell.writeCluster, 0});
           each != accounts->end() && each->first.first == cell.writeCluster; ++each) {
        const auto &[place, account] = *each;
        if (cell.flags & Flag::ByAsync
                ? place.second == cell.writer && account.stored >= cell.writeEpoch
                : (*account.seen)[cell.writer] >= cell.writeEpoch)
          return true;
      }
      return false;
    };
    const bool isOrdered = isKnown(thread.clock.others);
    if (!isOrdered ||
        ((use == Use::CopyWrite || use == Use::CopyAdd) && !isKnown(thread.clock.othersFenced))) {
      relation =
          "which another block has written in the same launch (" + nameOf(cell.writePlace) + ")";
      if (!isOrdered)
        return "race";
      relation += " with no fenceProxyGlobal before this asynchronous operation";
      return "missing fence";
    }
  }
  if (!isRead(use) && (shared || (cell.cluster != cluster && (cell.reads || !written)))) {
    relation = "which another block has read in the same launch";
    return "race";
  }
  return nullptr;
}

inline Cell Cluster::recorded(const EmulatedThread &thread, Cell cell, Use use, Place place,
                              uint32_t number) {
  using Flag = Cell::Flag;
  if (cell.cluster != cluster) {
    cell.cluster = cluster;
    cell.reads = 0;
    cell.flags |= Flag::Shared;
  }
  switch (use) {
  case Use::ReadOnly:
    cell.flags |= Flag::Constant;
    [[fallthrough]];
  case Use::Read:
    cell.reads = reads.add(cell.reads, thread.clock, place);
    break;
  case Use::AsyncRead:
    cell.reads = reads.addAsync(cell.reads, number, uint16_t(thread.index), place);
    break;
  case Use::Write:
  case Use::Add:
  case Use::Atomic:
    cell.reads = 0;
    cell.writer = uint16_t(thread.index);
    cell.writeCluster = cluster;
    cell.writeEpoch = thread.clock.epoch;
    cell.writePlace = place;
    cell.flags =
        uint16_t(use == Use::Atomic ? (cell.flags & Flag::Shared) | Flag::Written | Flag::Atomic
                                    : Flag::Written);
    break;
  case Use::CopyWrite:
  case Use::CopyAdd:
    cell.reads = 0;
    cell.writer = uint16_t(thread.index);
    cell.writeCluster = cluster;
    cell.writePlace = place;
    cell.flags = Flag::Pending;
    break;
  }
  return cell;
}

void Cluster::check(EmulatedThread &thread, const void *address, uint64_t bytes, bool aligned,
                    Use use, Place place, uint32_t number) {
  if (!checked || bytes == 0)
    return;
  auto verb = [&] {
    return std::string(isRead(use) ? "reads " : "writes ") + bytesText(bytes) + " at ";
  };
  if (aligned && reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fail(thread, "misaligned: " + verb() + nameOf(address) + " (" + nameOf(place) +
                     "), which is no multiple of " + std::to_string(bytes));
  uint64_t count = 0;
  Region *region = nullptr;
  Cell *cells = cellsOf(address, bytes, count, &region);
  if (!cells)
    return checkOutside(thread, address, bytes, !isRead(use), place);
  if (!region && use == Use::ReadOnly)
    fail(thread, "out of bounds: " + verb() + nameOf(address) + " (" + nameOf(place) +
                     ") by a load of global memory");
  if (region && !region->operand)
    fail(thread, "out of bounds: " + verb() + nameOf(address) + " (" + nameOf(place) +
                     "), which is no operand of this launch");
  if (region && !isRead(use) && !region->writable)
    fail(thread,
         verb() + nameOf(address) + " (" + nameOf(place) + "), which this launch only reads");
  uint32_t serial = region ? launch->serial : sharedSerial;
  std::string relation;
  for (uint64_t i = 0; i < count;) {
    if (const char *kind = conflict(thread, cells[i], use, region, relation)) {
      const std::byte *at = static_cast<const std::byte *>(address) +
                            i * (region ? uint64_t(region->elementBytes) : 1);
      fail(thread, std::string(kind) + ": " + verb() + nameOf(at) + " (" + nameOf(place) + "), " +
                       relation);
    }
    const Cell before = cells[i];
    Cell current = before;
    if (current.serial != serial) {
      current = Cell();
      current.serial = serial;
      current.cluster = cluster;
    }
    const Cell after = recorded(thread, current, use, place, number);
    // Neighbours are mostly alike.
    do
      cells[i++] = after;
    while (i < count && cells[i] == before);
  }
}

void Cluster::finishCopy(EmulatedThread &thread, const void *address, uint64_t bytes,
                         uint32_t number) {
  if (!checked)
    return;
  uint64_t count = 0;
  Region *region = nullptr;
  Cell *cells = cellsOf(address, bytes, count, &region);
  for (uint64_t i = 0; cells && i < count; ++i) {
    cells[i].flags =
        uint16_t((cells[i].flags & Cell::Shared) | Cell::Written | (number ? Cell::ByAsync : 0));
    cells[i].writeEpoch = number ? number : thread.clock.epoch;
  }
}

void Cluster::markBarrier(const void *address, bool barrier) {
  if (!checked)
    return;
  uint64_t count = 0;
  Region *region = nullptr;
  Cell *cells = cellsOf(address, 8, count, &region);
  for (uint64_t i = 0; i < count; ++i)
    cells[i].flags = uint16_t(barrier ? cells[i].flags | Cell::Barrier
                                      : cells[i].flags & ~(Cell::Barrier | Cell::Written));
}

void EmulatedThread::access(const void *address, unsigned long bytes, bool write, bool aligned,
                            const void *instruction) {
  if ((reinterpret_cast<uintptr_t>(address) ^ reinterpret_cast<uintptr_t>(this)) < stackPiece)
    return;
  auto place =
      Place(static_cast<const std::byte *>(instruction) - cluster->launch->kernel->image->begin());
  cluster->check(*this, address, bytes, aligned, write ? Cluster::Use::Write : Cluster::Use::Read,
                 place);
}

namespace {

EmulatedThread &running() { return static_cast<EmulatedThread &>(thread()); }

void accessHook(const void *address, unsigned long bytes, unsigned use) {
  for (const bool write : {false, true})
    if (use & (write ? 2 : 1))
      running().access(address, bytes, write, use & 4, __builtin_return_address(0));
}

void *moveHook(void *to, const void *from, unsigned long bytes) {
  running().access(from, bytes, false, false, __builtin_return_address(0));
  running().access(to, bytes, true, false, __builtin_return_address(0));
  return std::memmove(to, from, bytes);
}

void *fillHook(void *to, int value, unsigned long bytes) {
  running().access(to, bytes, true, false, __builtin_return_address(0));
  return std::memset(to, value, bytes);
}

} // namespace

const Hooks hooks = {accessHook, moveHook, fillHook};

void EmulatedThread::access(const void *address, unsigned long bytes, bool write, Site site) {
  if (cluster->checked)
    cluster->check(*this, address, bytes, true, write ? Cluster::Use::Write : Cluster::Use::Read,
                   cluster->place(site));
}

void EmulatedThread::accessToAdd(const void *address, unsigned long bytes, Site site) {
  if (cluster->checked)
    cluster->check(*this, address, bytes, true, Cluster::Use::Add, cluster->place(site));
}

void EmulatedThread::loadReadOnly(const void *address, unsigned long bytes, Site site) {
  if (cluster->checked)
    cluster->check(*this, address, bytes, true, Cluster::Use::ReadOnly, cluster->place(site));
}

void EmulatedThread::trap(Site site) {
  cluster->fail(*this, "traps (" + Cluster::nameOf(site) + ")");
}

unsigned EmulatedThread::sharedAddress(const void *shared, Site site) {
  return cluster->needShared(*this, shared, 1, 1, "sharedAddress", site).offset;
}

unsigned EmulatedThread::fetch(Atomic kind, void *address, unsigned value, Site site) {
  if (cluster->checked)
    cluster->check(*this, address, 4, true, Cluster::Use::Atomic, cluster->place(site));
  auto *word = static_cast<unsigned *>(address);
  // Other clusters may run at the same time.
  unsigned old = __atomic_load_n(word, __ATOMIC_RELAXED), next = 0;
  do {
    switch (kind) {
    case Atomic::AddInt:
    case Atomic::AddUnsigned:
      next = old + value;
      break;
    case Atomic::MaxInt:
      next = int(old) > int(value) ? old : value;
      break;
    case Atomic::MaxUnsigned:
      next = old > value ? old : value;
      break;
    case Atomic::Or:
      next = old | value;
      break;
    }
  } while (
      !__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

bool EmulatedThread::hasCount(const int *counter, int count, Site site) {
  if (cluster->checked)
    cluster->check(*this, counter, 4, true, Cluster::Use::Atomic, cluster->place(site));
  if (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < count)
    return false;
  if (cluster->checked)
    clock.others = merged(clock.others, cluster->launch->memory->counts[counter]);
  return true;
}

void EmulatedThread::waitForCount(const int *counter, int count, Site site) {
  while (!hasCount(counter, count, site)) {
    ++cluster->countWaits;
    cluster->spinning.push_back(this);
    cluster->wait(*this, "waitForCount", site);
    --cluster->countWaits;
  }
}

void EmulatedThread::addToCount(int *counter, Site site) {
  if (cluster->checked) {
    cluster->check(*this, counter, 4, true, Cluster::Use::Atomic, cluster->place(site));
    Accounts &told = cluster->launch->memory->counts[counter];
    told = merged(told, clock.account(cluster->cluster, cluster->threadCount()));
  }
  __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
  ++cluster->progress;
}

} // namespace nano::emulator
