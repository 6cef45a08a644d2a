// Memory of the CPU device: lazily backed mappings, and how much the machine can still give.
#pragma once

#include "base/Status.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>

namespace nano::cpu {

/// A private mapping of zeros that takes memory only for the pages that are touched. Move-only.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept;
  Mapping &operator=(Mapping &&other) noexcept;
  ~Mapping();

  /// Maps `bytes` bytes at a multiple of 2 MiB and asks for huge pages; false when the system
  /// refuses.
  bool allocate(uint64_t bytes);
  std::byte *data() const { return start; }

private:
  void *mapped = nullptr;
  size_t mappedBytes = 0;
  std::byte *start = nullptr;
};

/// Bytes that this process can still take: the machine's available memory, and what its control
/// group leaves.
uint64_t availableMemory();

} // namespace nano::cpu
