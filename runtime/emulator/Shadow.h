// What the emulator remembers of every byte of shared memory and every element of global memory:
// who wrote it last, who has read it since, whether a copy is under way to it.
#pragma once

#include "runtime/emulator/Knowledge.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace nano::emulator {

/// Where kernel text did something, by number; see Cluster::place.
using Place = uint32_t;

/// The memory of one element. All is void unless `serial` is that of the launch (global memory) or
/// of the cluster's run (shared memory).
struct Cell {
  enum Flag : uint16_t {
    Written = 1,
    Atomic = 2,    ///< the last write was atomic
    Pending = 4,   ///< a copy to it has started and not ended
    ByAsync = 8,   ///< the last write was an asynchronous operation's; writeEpoch is its number
    Shared = 16,   ///< accessed by several clusters of the grid
    Barrier = 32,  ///< part of an mbarrier
    Constant = 64, ///< a load of this launch has it that nothing writes it
  };
  uint32_t serial = 0;
  uint32_t cluster = 0; ///< of the grid, that accessed it last
  uint32_t writeCluster = 0, writeEpoch = 0;
  Place writePlace = 0;
  uint32_t reads = 0; ///< a set of ReadSets, void when `cluster` is another one
  uint16_t writer = 0;
  uint16_t flags = 0;
  bool operator==(const Cell &) const = default;
};

/// Sets of reads since the last write, shared between the cells that were read alike. Set 0 is
/// empty. A set lives until `clear`.
class ReadSets {
public:
  /// One read: by a thread of the cluster in an epoch, or by asynchronous operation `epoch`.
  struct Read {
    uint32_t next, epoch;
    Place place;
    uint16_t thread;
    bool async;
  };

  void clear();
  const Read &operator[](uint32_t set) const { return nodes[set]; }
  /// `set` and a read of `reader` now, without those reads that come before it.
  uint32_t add(uint32_t set, const Clock &reader, Place place);
  uint32_t addAsync(uint32_t set, uint32_t number, uint16_t thread, Place place);

private:
  struct Made {
    uint32_t set = 0, epoch = 0, thread = 0, result = 0;
  };
  std::vector<Read> nodes = std::vector<Read>(1);
  std::vector<Made> made = std::vector<Made>(4096); ///< what `add` gave lately
};

/// A buffer of global memory.
struct Region {
  std::byte *begin = nullptr;
  uint64_t bytes = 0;
  std::string name;
  int elementBytes = 1;  ///< 1, 2 or 4
  bool operand = false;  ///< of the launch that runs
  bool readable = false; ///< by it
  bool writable = false; ///< by it
  std::byte *end() const { return begin + bytes; }
};

/// All global memory that kernels may know of, with the cells of its elements.
class GlobalMemory {
public:
  GlobalMemory() = default;
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory &) = delete;
  GlobalMemory &operator=(const GlobalMemory &) = delete;

  /// Takes the regions in ascending order of their addresses. Cells take memory when touched. False
  /// when the system refuses.
  bool set(std::vector<Region> ascending);
  size_t size() const { return regions.size(); }
  Region &operator[](size_t index) { return regions[index]; }
  /// The region that holds the byte, or null.
  Region *find(const void *address);
  /// The region that starts last before the address, or null: for messages.
  const Region *before(const void *address) const;
  Cell *cells(const Region &region) const;
  /// A new launch: what the cells remember is void. Returns its serial number.
  uint32_t begin() {
    counts.clear();
    return ++serial;
  }
  /// What was told at the counts of the launch, by their addresses.
  std::unordered_map<const void *, Accounts> counts;

private:
  std::vector<Region> regions;
  std::vector<uint64_t> firstCell; ///< by region
  Region *last = nullptr;
  Cell *memory = nullptr;
  uint64_t memoryBytes = 0;
  uint32_t serial = 0;
};

} // namespace nano::emulator
