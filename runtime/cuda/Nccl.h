// NCCL as far as this room uses it. Its header does not come with the CUDA toolkit; what stands
// here is the binary interface that NCCL has kept since version 2.14.
#pragma once

#include <cuda.h>

#include <climits>
#include <cstddef>

namespace nano::cuda {

namespace nccl {

using Comm = struct OpaqueComm *; ///< ncclComm_t
struct UniqueId {                 ///< ncclUniqueId
  char bytes[128];
};
enum Outcome : int { ///< ncclResult_t
  success = 0,
  internalError = 3,
  inProgress = 7,
};
enum DataType : int { uint8 = 1, float32 = 7, bfloat16 = 9 };
enum Reduction : int { sum = 0, maximum = 2 };
/// ncclConfig_t of version 2.14; later versions take it as one that sets nothing else.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = INT_MIN;
  int unused = INT_MIN;
};

} // namespace nccl

#define NANO_NCCL_FUNCTIONS(X)                                                                     \
  X(ncclGetVersion)                                                                                \
  X(ncclGetErrorString)                                                                            \
  X(ncclGetLastError)                                                                              \
  X(ncclGetUniqueId)                                                                               \
  X(ncclCommInitRankConfig)                                                                        \
  X(ncclCommFinalize)                                                                              \
  X(ncclCommDestroy)                                                                               \
  X(ncclCommAbort)                                                                                 \
  X(ncclCommGetAsyncError)                                                                         \
  X(ncclAllReduce)                                                                                 \
  X(ncclReduceScatter)                                                                             \
  X(ncclAllGather)                                                                                 \
  X(ncclGroupStart)                                                                                \
  X(ncclGroupEnd)

/// NCCL's functions, as a table like those of Api.h.
struct NcclApi {
  using Outcome = nccl::Outcome;
  using Comm = nccl::Comm;
  Outcome (*ncclGetVersion)(int *version) = nullptr;
  const char *(*ncclGetErrorString)(Outcome outcome) = nullptr;
  const char *(*ncclGetLastError)(Comm comm) = nullptr;
  Outcome (*ncclGetUniqueId)(nccl::UniqueId *id) = nullptr;
  Outcome (*ncclCommInitRankConfig)(Comm *comm, int ranks, nccl::UniqueId id, int rank,
                                    nccl::Config *config) = nullptr;
  Outcome (*ncclCommFinalize)(Comm comm) = nullptr;
  Outcome (*ncclCommDestroy)(Comm comm) = nullptr;
  Outcome (*ncclCommAbort)(Comm comm) = nullptr;
  Outcome (*ncclCommGetAsyncError)(Comm comm, Outcome *error) = nullptr;
  Outcome (*ncclAllReduce)(const void *from, void *to, size_t count, nccl::DataType type,
                           nccl::Reduction how, Comm comm, CUstream stream) = nullptr;
  Outcome (*ncclReduceScatter)(const void *from, void *to, size_t countOfPart, nccl::DataType type,
                               nccl::Reduction how, Comm comm, CUstream stream) = nullptr;
  Outcome (*ncclAllGather)(const void *from, void *to, size_t countOfPart, nccl::DataType type,
                           Comm comm, CUstream stream) = nullptr;
  Outcome (*ncclGroupStart)() = nullptr;
  Outcome (*ncclGroupEnd)() = nullptr;
};

} // namespace nano::cuda
