// The functions of the CUDA driver, NVRTC, cuBLASLt, NCCL and NVML that this room uses, as tables:
// filled from the machine's libraries at run time, so that nothing here links them, or by a test
// with its own.
#pragma once

#include "base/Status.h"
#include "runtime/cuda/Nccl.h"
#include "runtime/cuda/Nvml.h"

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#include <string>
#include <vector>

namespace nano::cuda {

// Every function once: `X(cuMemAlloc)` is the function's name in the headers, whose macros give it
// the version that the headers describe.
#define NANO_DRIVER_FUNCTIONS(X)                                                                   \
  X(cuInit)                                                                                        \
  X(cuDriverGetVersion)                                                                            \
  X(cuGetErrorName)                                                                                \
  X(cuGetErrorString)                                                                              \
  X(cuDeviceGetCount)                                                                              \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetName)                                                                               \
  X(cuDeviceGetUuid)                                                                               \
  X(cuDeviceGetAttribute)                                                                          \
  X(cuDeviceGetP2PAttribute)                                                                       \
  X(cuDevicePrimaryCtxRetain)                                                                      \
  X(cuDevicePrimaryCtxRelease)                                                                     \
  X(cuCtxSetCurrent)                                                                               \
  X(cuCtxEnablePeerAccess)                                                                         \
  X(cuCtxGetStreamPriorityRange)                                                                   \
  X(cuMemGetInfo)                                                                                  \
  X(cuMemAlloc)                                                                                    \
  X(cuMemFree)                                                                                     \
  X(cuMemHostAlloc)                                                                                \
  X(cuMemFreeHost)                                                                                 \
  X(cuMemcpyHtoDAsync)                                                                             \
  X(cuMemcpyDtoHAsync)                                                                             \
  X(cuMemcpyDtoDAsync)                                                                             \
  X(cuMemcpyAsync)                                                                                 \
  X(cuMemsetD8Async)                                                                               \
  X(cuMemsetD32Async)                                                                              \
  X(cuModuleLoadData)                                                                              \
  X(cuModuleUnload)                                                                                \
  X(cuModuleGetFunction)                                                                           \
  X(cuFuncGetAttribute)                                                                            \
  X(cuFuncSetAttribute)                                                                            \
  X(cuFuncGetParamInfo)                                                                            \
  X(cuLaunchKernel)                                                                                \
  X(cuStreamCreateWithPriority)                                                                    \
  X(cuStreamDestroy)                                                                               \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamQuery)                                                                                 \
  X(cuStreamWaitEvent)                                                                             \
  X(cuStreamBeginCapture)                                                                          \
  X(cuStreamEndCapture)                                                                            \
  X(cuEventCreate)                                                                                 \
  X(cuEventDestroy)                                                                                \
  X(cuEventRecord)                                                                                 \
  X(cuEventRecordWithFlags)                                                                        \
  X(cuEventSynchronize)                                                                            \
  X(cuEventQuery)                                                                                  \
  X(cuEventElapsedTime)                                                                            \
  X(cuGraphInstantiate)                                                                            \
  X(cuGraphUpload)                                                                                 \
  X(cuGraphLaunch)                                                                                 \
  X(cuGraphDestroy)                                                                                \
  X(cuGraphExecDestroy)

// Those that older drivers may lack: null there.
#define NANO_NEWER_DRIVER_FUNCTIONS(X)                                                             \
  X(cuTensorMapEncodeTiled)                                                                        \
  X(cuStreamBatchMemOp)

#define NANO_NVRTC_FUNCTIONS(X)                                                                    \
  X(nvrtcVersion)                                                                                  \
  X(nvrtcGetErrorString)                                                                           \
  X(nvrtcCreateProgram)                                                                            \
  X(nvrtcDestroyProgram)                                                                           \
  X(nvrtcCompileProgram)                                                                           \
  X(nvrtcGetProgramLogSize)                                                                        \
  X(nvrtcGetProgramLog)                                                                            \
  X(nvrtcGetCUBINSize)                                                                             \
  X(nvrtcGetCUBIN)

#define NANO_CUBLASLT_FUNCTIONS(X)                                                                 \
  X(cublasLtGetVersion)                                                                            \
  X(cublasLtGetStatusString)                                                                       \
  X(cublasLtCreate)                                                                                \
  X(cublasLtDestroy)                                                                               \
  X(cublasLtMatmulDescCreate)                                                                      \
  X(cublasLtMatmulDescDestroy)                                                                     \
  X(cublasLtMatmulDescSetAttribute)                                                                \
  X(cublasLtMatrixLayoutCreate)                                                                    \
  X(cublasLtMatrixLayoutDestroy)                                                                   \
  X(cublasLtMatrixLayoutSetAttribute)                                                              \
  X(cublasLtMatmulPreferenceCreate)                                                                \
  X(cublasLtMatmulPreferenceDestroy)                                                               \
  X(cublasLtMatmulPreferenceSetAttribute)                                                          \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                \
  X(cublasLtMatmulAlgoCheck)                                                                       \
  X(cublasLtMatmulAlgoConfigGetAttribute)                                                          \
  X(cublasLtMatmulAlgoConfigSetAttribute)                                                          \
  X(cublasLtMatmul)

// NOLINTNEXTLINE(bugprone-macro-parentheses): around a declarator g++ warns of them
#define NANO_FUNCTION_POINTER(name) decltype(&::name) name = nullptr;

struct DriverApi {
  NANO_DRIVER_FUNCTIONS(NANO_FUNCTION_POINTER)
  NANO_NEWER_DRIVER_FUNCTIONS(NANO_FUNCTION_POINTER)
};
struct NvrtcApi {
  NANO_NVRTC_FUNCTIONS(NANO_FUNCTION_POINTER)
};
struct CublasLtApi {
  NANO_CUBLASLT_FUNCTIONS(NANO_FUNCTION_POINTER)
};

/// The libraries that a device uses. `nvrtc` may be null where a plan has no kernels; `cublasLt`,
/// `nccl` and `nvml` may be: those of the machine are loaded when a plan needs them.
struct Apis {
  const DriverApi *driver = nullptr;
  const NvrtcApi *nvrtc = nullptr;
  const CublasLtApi *cublasLt = nullptr;
  const NcclApi *nccl = nullptr;
  const NvmlApi *nvml = nullptr;
};

/// The machine's libraries, opened on first use and kept for the life of the process. BadInput: a
/// library is not found, or is too old to have a function; the message names it, the places that
/// were searched and what to do.
Result<const DriverApi *> loadDriver();
Result<const NvrtcApi *> loadNvrtc();
Result<const CublasLtApi *> loadCublasLt();
Result<const NcclApi *> loadNccl();
Result<const NvmlApi *> loadNvml();

/// A library under the names that it may have, the newest first, and how messages speak of it.
struct Library {
  std::string title;
  std::vector<std::string> sonames;
  std::string advice;
};
/// NCCL's functions in that library; errors as those of loadNccl.
Result<NcclApi> readNccl(const Library &library);

/// Where a library is looked for beside the loader's own places (LD_LIBRARY_PATH, ld.so.cache):
/// CUDA_HOME, CUDA_PATH, the usual folders, and the NVIDIA wheels of the Python on PATH and of
/// VIRTUAL_ENV. Existing folders only, each once.
std::vector<std::string> libraryFolders();

/// "13.0" of 13000.
std::string cudaVersionText(int version);

/// "CUDA: out of memory (CUDA_ERROR_OUT_OF_MEMORY) in <what>".
Error driverError(const DriverApi &api, CUresult result, const std::string &what);
/// The same for cuBLASLt.
Error cublasLtError(const CublasLtApi &api, cublasStatus_t status, const std::string &what);

} // namespace nano::cuda
