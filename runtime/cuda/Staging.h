// Copies between the host and the GPU's arena that do not make the host wait for programs.
#pragma once

#include "runtime/cuda/Gpu.h"

#include <array>
#include <vector>

namespace nano::cuda {

/// Writes go through a ring of slots, each a piece of pinned memory and one of the GPU's: the
/// caller's data are copied into the pinned piece at once; a stream of its own brings them to the
/// GPU while programs run; and the compute stream, when it is that far, moves them to their place.
/// So the next batch is on the GPU before the current step ends, and the order of writes and
/// programs is that of the calls.
class Staging {
public:
  static constexpr uint64_t slotBytes = uint64_t(1) << 20;
  static constexpr size_t slotCount = 8;
  /// What it takes of the GPU's memory.
  static constexpr uint64_t deviceBytes = slotBytes * slotCount;

  Staging(Gpu &gpu, CUstream compute);

  void write(CUdeviceptr to, const void *data, uint64_t bytes);
  /// Waits for the compute stream.
  void read(CUdeviceptr from, void *data, uint64_t bytes);
  /// `data` is filled by the next `wait`, or by a read that comes first.
  void readLater(CUdeviceptr from, void *data, uint64_t bytes);
  /// Waits for the compute stream and fills what `readLater` promised.
  void wait();

private:
  struct Slot {
    std::byte *host = nullptr;
    CUdeviceptr device = 0;
    CUevent filled = nullptr, moved = nullptr;
    bool used = false;
  };
  struct Promise {
    void *data;
    uint64_t at, bytes; ///< in the mailbox
  };
  static constexpr uint64_t mailboxBytes = uint64_t(1) << 16;

  Gpu &gpu;
  CUstream compute, copies;
  std::array<Slot, slotCount> slots;
  size_t next = 0;
  std::byte *bounce, *mailbox; ///< pinned
  uint64_t mailboxUsed = 0;
  std::vector<Promise> promises;
};

} // namespace nano::cuda
