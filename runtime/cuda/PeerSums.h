// A kernel of the runtime's own: sums of what several ranks have.
#pragma once

#include "runtime/cuda/Gpu.h"
#include "runtime/files/BuildCache.h"
#include "runtime/plan/Plan.h"

#include <cstdint>

namespace nano::cuda {

/// Adds up the members' parts of a collective in the order of their places, f32 as it is, bf16 in
/// f32 and rounded once.
class PeerSums {
public:
  static constexpr const char *text = "runtime/cuda/nano_sums.cu"; ///< of ownTexts
  /// One member's sum, what the kernels take. Addresses, and numbers of elements and bytes.
  struct Parts {
    uint64_t own, others; ///< this member's part; those of the others, by place
    uint64_t to;          ///< may be `own`
    uint64_t count;       ///< elements of a part
    uint64_t stride;      ///< bytes from one of `others` to the next
    uint64_t place, members;
  };

  /// Compiles the kernels, or takes them from the cache. Throws Failure.
  PeerSums(Gpu &gpu, const NvrtcApi &nvrtc, BuildCache &cache);
  void enqueue(const Parts &parts, plan::DType type, CUstream stream) const;

private:
  Gpu &gpu;
  CUfunction f32 = nullptr, bf16 = nullptr;
};

} // namespace nano::cuda
