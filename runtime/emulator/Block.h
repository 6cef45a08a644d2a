// What a block consists of while it runs, beside its threads: warps, warpgroups, barriers, and the
// copies and products that are under way.
#pragma once

#include "codegen/device/emulator/nano_machine.h"
#include "runtime/emulator/Knowledge.h"
#include "runtime/emulator/Shadow.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace nano::emulator {

class EmulatedThread;

/// Whether two places of kernel text are the same line.
inline bool isSame(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

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
  std::vector<std::byte> data;     ///< the source, once it has been read
  bool read = false, adds = false; ///< adds: f32 to those that are there
  uint32_t bytes = 0;
  Place place = 0;
  Site site;
  /// What was read goes to memory.
  void write() const;
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
  const TensorMap *map = nullptr; ///< of a load of a box, whose first element is at (column, row);
                                  ///< `from` is null then
  std::optional<uint64_t> value;  ///< of a store to another block, in place of both
  Release told;                   ///< what it tells those who wait for it
  int column = 0, row = 0;
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

} // namespace nano::emulator
