// Kernels onto streams: behind everything before them, or, while a graph is recorded, early.
#pragma once

#include "runtime/cuda/Gpu.h"

#include <cstdint>
#include <set>
#include <vector>

namespace nano::cuda {

/// A kernel of the plan with its grid and its one parameter.
struct KernelLaunch {
  CUfunction function = nullptr;
  uint32_t blocks = 0, threads = 0, sharedBytes = 0;
  std::vector<uint64_t> parameters; ///< nano::Launch, see codegen/cuda/device/nano_kernels.h
};

/// Launches kernels, and knows what stands last on each stream of a graph that is being recorded.
///
/// An early launch (programmatic dependent launch) may start while the kernel before it still runs,
/// and waits itself for its end: awaitPredecessor in codegen/cuda/device/nano_primitives.h says why
/// nothing can go wrong between kernels that do so. Here it is seen to that nothing else does:
///   - A kernel is launched early only where all that it depends on is one kernel, the last command
///     of its stream: one of the plan's or of a product. Behind an event, a copy, a clear or an
///     exchange, and at the start of a graph, launches are ordinary. What the capture itself says
///     decides with: a product may end with something else than a kernel.
///   - Only the plan's kernels are launched early. Those of cuBLASLt and NCCL, copies, clears and
///     events do not wait themselves; they come after the end of what is before them, which has
///     waited for what was before it.
class Launcher {
public:
  explicit Launcher(const Gpu &gpu) : gpu(gpu) {}

  /// Whether GPU and driver have early launches, in graphs too: compute capability 9.0, CUDA 12.3.
  bool canLaunchEarly() const;
  /// Of what comes now, on streams that are being captured, kernels may be launched early.
  void beginEarly();
  /// From here on launches are ordinary ones.
  void endEarly() { isEarly = false; }
  /// How many kernels have been launched early, or should have been, since `beginEarly`.
  int early() const { return earlyCount; }

  /// Throws when the driver refuses.
  void launch(const KernelLaunch &kernel, CUstream stream);
  /// Tells that a product, or something else than a kernel, has been put on the stream.
  void addedProduct(CUstream stream) { endInKernels.insert(stream); }
  void addedOther(CUstream stream) { endInKernels.erase(stream); }

private:
  bool followsKernel(CUstream stream) const;

  const Gpu &gpu;
  bool isEarly = false;
  int earlyCount = 0;
  std::set<CUstream> endInKernels; ///< streams whose last command is a launch or a product
};

} // namespace nano::cuda
