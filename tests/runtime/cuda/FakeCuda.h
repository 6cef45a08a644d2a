// A driver, NVRTC, cuBLASLt and NCCL made of a few lines of C++: memory of the GPUs is the host's,
// a stream executes as soon as nothing before it waits for another stream or rank, a graph is a
// list of what was captured, products are plain loops over column-major matrices, collectives wait
// for the other ranks as NCCL's do. What was called is written down.
#pragma once

#include "runtime/cuda/Api.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace nano::test {

/// One at a time: the tables have no place for a pointer to it. Its functions may be called from
/// several threads, one for each rank.
class FakeCuda {
public:
  FakeCuda();
  ~FakeCuda();
  FakeCuda(const FakeCuda &) = delete;
  FakeCuda &operator=(const FakeCuda &) = delete;

  /// Tables whose functions act on this object.
  cuda::Apis apis();

  /// A launch: the kernel's name, the grid and its parameters.
  struct Launch {
    std::string kernel;
    unsigned blocks, threads, sharedBytes;
    std::vector<uint64_t> parameter;
    std::vector<CUtensorMap> maps;
  };
  /// What is in a tensor map, from its first byte on.
  struct Map {
    void *address;
    CUtensorMapDataType type;
    uint64_t columns, rows, rowBytes;
    uint32_t boxColumns, boxRows;
    CUtensorMapSwizzle swizzle;
  };
  /// Executes a launch; kernels are known by the name that the module gave.
  std::function<void(const Launch &)> onLaunch;
  /// A call's name and operands as text; not 0 fails the call.
  std::function<CUresult(const std::string &call)> onCall;

  /// Everything that went to a stream or an event, e.g. "launch add stream 1", in order.
  std::vector<std::string> calls;
  std::vector<Launch> launches; ///< executed ones
  std::vector<int> priorities;  ///< of the streams, as they were made
  int allocations = 0;          ///< of GPU memory, that stand
  int objects = 0; ///< streams, events, modules, graphs, pinned memory, communicators that stand
  uint64_t freeBytes = uint64_t(8) << 30;
  int computeCapability = 90;
  int devices = 1;
  bool tellsMemory = true;                      ///< cuMemGetInfo works
  int maxThreads = 1024;                        ///< that a kernel's registers allow
  std::map<std::string, size_t> parameterBytes; ///< by kernel
  std::map<std::string, size_t> mapBytes;       ///< of a second parameter, by kernel
  std::map<std::string, int> clusterBlocks;     ///< where it is not 1, by kernel
  bool isOlder = false;                         ///< the driver lacks what older ones lack
  int compiled = 0;                             ///< sources given to NVRTC
  int candidates = 4;                           ///< algorithms that cuBLASLt proposes
  uint64_t option = 0; ///< the custom option that every algorithm has beside its own; 0: none
  float elapsed = 0;   ///< milliseconds between any two events; 0: grows
  size_t cublasLtVersion = 130002;
  int fastProducts = 0;                   ///< whose sums the tensor cores alone add up
  std::vector<int> algorithms;            ///< the one of every product that ran, in order
  cudaDataType unsupported = CUDA_C_64U;  ///< products of this type have no algorithm
  std::map<int, int> ncclVersions;        ///< by GPU, where it is not 2.28.9
  std::set<std::pair<int, int>> unlinked; ///< GPUs between which there is no NVLink, ascending
  /// What a communicator says of itself once it is joined; not 0 is an error.
  std::function<int()> ncclState;

  /// For the functions of the tables.
  struct State;
  std::unique_ptr<State> state;
};

} // namespace nano::test
