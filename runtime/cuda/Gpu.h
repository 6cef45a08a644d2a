// One GPU: its context, and everything that was made in it.
#pragma once

#include "base/Status.h"
#include "runtime/cuda/Api.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace nano::cuda {

/// What goes wrong inside this room travels as this, up to the calls of Device.
struct Failure {
  Error error;
};

/// The GPUs that the process sees, by ordinal: an identifier of each that no other GPU has. Throws
/// a BadInput Failure when there is none.
std::vector<std::string> visibleGpus(const DriverApi &api);

/// "580.159.04", where the kernel module says so; else empty.
std::string kernelModuleVersion();

/// One of the GPUs that the process sees. Streams, memory and all else that its functions return
/// live as long as it does. Functions throw Failure; the ones that use the context are called from
/// one thread.
class Gpu {
public:
  /// Finds the GPU; quick. The driver has been started, by `visibleGpus`.
  Gpu(const DriverApi &api, int ordinal);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  /// Makes the GPU's context that of this thread; takes a few tenths of a second the first time.
  void activate();
  /// Makes the context that there is that of this thread; false when there is none, or the driver
  /// refuses.
  bool tryActivate() const { return context && api.cuCtxSetCurrent(context) == CUDA_SUCCESS; }

  /// Memory of the GPU, aligned to 256 bytes. The error of a lack of memory is CUDA's.
  CUdeviceptr allocate(uint64_t bytes);
  /// Memory of the host that the GPU copies from and to at full speed, asynchronously.
  std::byte *allocatePinned(uint64_t bytes);
  /// `isUrgent`: its work goes before that of the other streams where both could run.
  CUstream makeStream(bool isUrgent = false);
  CUevent makeEvent(bool isTimed);
  CUmodule load(const std::string &cubin, const std::string &name);
  /// Makes the graph executable and gives it to the GPU; destroys the graph.
  CUgraphExec instantiate(CUgraph graph, CUstream stream);
  /// Destroys what `instantiate` has made, from any thread while no other uses the graphs.
  void destroyGraphs();
  uint64_t freeBytes() const;
  /// Of the whole GPU, by whatever program; nothing when the driver does not say.
  std::optional<uint64_t> usedBytes() const;
  /// Bytes that `allocate` has given so far.
  uint64_t allocatedBytes() const { return allocated; }
  int attribute(CUdevice_attribute attribute) const;
  CUdevice handle() const { return device; }
  /// Does `work` when the GPU goes, after what was made later has been released.
  void atRelease(std::function<void()> work) { releases.push_back(std::move(work)); }

  /// Wait for the end of what is on the stream, or before the event.
  void synchronize(CUstream stream) const;
  void synchronize(CUevent event) const;
  /// Whether what is before the event is over.
  bool isOver(CUevent event) const { return isReady(api.cuEventQuery(event), "cuEventQuery"); }
  /// Asks until `isDone` says so.
  void waitUntil(const std::function<bool()> &isDone) const;
  /// Called now and then while the host waits, with how long it has waited, the first time in a
  /// wait with 0; ends the wait by throwing. Where it is empty, the driver waits.
  std::function<void(std::chrono::nanoseconds waited)> watch;

  /// Throws when `result` is an error, with `what` in the message.
  void check(CUresult result, const char *what) const {
    if (result != CUDA_SUCCESS)
      throw Failure{driverError(api, result, what)};
  }

  const DriverApi &api;
  const int ordinal; ///< among those that the process sees
  std::string name;  ///< "NVIDIA H200"
  int major = 0, minor = 0, multiprocessors = 0;
  int driverVersion = 0; ///< newest CUDA that the driver knows: 13000 for 13.0

private:
  void destroy(CUgraphExec graph);
  bool isReady(CUresult result, const char *what) const {
    if (result != CUDA_ERROR_NOT_READY)
      check(result, what);
    return result == CUDA_SUCCESS;
  }

  CUdevice device = 0;
  CUcontext context = nullptr;
  uint64_t allocated = 0;
  std::set<CUgraphExec> graphs;
  std::vector<std::function<void()>> releases; ///< in the order of the things made
};

} // namespace nano::cuda
