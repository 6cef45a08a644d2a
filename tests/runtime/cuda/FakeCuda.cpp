// The functions behind FakeCuda's tables.
#include "tests/runtime/cuda/FakeCuda.h"
#include "tests/runtime/cuda/Products.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

namespace nano::test {
namespace {

FakeCuda *fake = nullptr;

struct Stream {
  int number;
  struct Graph *capture = nullptr;
};
struct Event {
  int number;
  Graph *capture = nullptr; ///< where it was recorded last
};
struct Graph {
  std::vector<std::function<void()>> work;
  std::vector<Stream *> streams; ///< that are part of it
};
struct Function {
  std::string name;
};
struct Module {
  std::vector<std::unique_ptr<Function>> functions;
};

} // namespace

struct FakeCuda::State {
  int streams = 0, events = 0;
  float clock = 0;
};

namespace {

template <typename T, typename Handle> T *as(Handle handle) {
  return reinterpret_cast<T *>(handle);
}

/// Writes the call down; a test may make it fail.
CUresult call(const std::string &text) {
  fake->calls.push_back(text);
  return fake->onCall ? fake->onCall(text) : CUDA_SUCCESS;
}

std::string on(CUstream stream) { return " stream " + std::to_string(as<Stream>(stream)->number); }

/// Executes now, or when the graph that the stream is captured into is launched.
void submit(CUstream stream, std::function<void()> work) {
  if (Graph *graph = as<Stream>(stream)->capture)
    graph->work.push_back(std::move(work));
  else
    work();
}

void *host(CUdeviceptr address) { return std::bit_cast<void *>(address); }

// The driver.

CUresult getErrorName(CUresult result, const char **text) {
  *text = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_TEST";
  return CUDA_SUCCESS;
}
CUresult getErrorString(CUresult result, const char **text) {
  *text = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access" : "a test's error";
  return CUDA_SUCCESS;
}
CUresult getAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? fake->computeCapability / 10
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
               ? fake->computeCapability % 10
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 200 * 1024
                                                                                : 132;
  return CUDA_SUCCESS;
}
CUresult memAlloc(CUdeviceptr *address, size_t bytes) {
  if (CUresult result = call("alloc " + std::to_string(bytes)); result != CUDA_SUCCESS)
    return result;
  if (bytes > fake->freeBytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  fake->freeBytes -= bytes;
  ++fake->allocations;
  // Poisoned: a program that forgets to write reads NaN.
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xFF, bytes);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult memFree(CUdeviceptr address) {
  --fake->allocations;
  std::free(host(address));
  return CUDA_SUCCESS;
}
template <typename T, typename Handle> CUresult destroy(Handle handle) {
  --fake->objects;
  delete as<T>(handle);
  return CUDA_SUCCESS;
}
CUresult copy(const char *name, void *to, const void *from, size_t bytes, CUstream stream) {
  CUresult result = call(std::string(name) + " " + std::to_string(bytes) + on(stream));
  if (result == CUDA_SUCCESS)
    submit(stream, [=] { std::memcpy(to, from, bytes); });
  return result;
}
CUresult launchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads,
                      unsigned, unsigned, unsigned shared, CUstream stream, void **parameters,
                      void **) {
  const std::string &name = as<Function>(function)->name;
  CUresult result = call("launch " + name + on(stream));
  if (result != CUDA_SUCCESS)
    return result;
  FakeCuda::Launch launch = {name, blocks, threads, shared, {}};
  const auto *words = static_cast<const uint64_t *>(parameters[0]);
  launch.parameter.assign(words, words + fake->parameterBytes.at(name) / 8);
  submit(stream, [launch] {
    fake->launches.push_back(launch);
    if (fake->onLaunch)
      fake->onLaunch(launch);
  });
  return CUDA_SUCCESS;
}
CUresult waitEvent(CUstream handle, CUevent event, unsigned) {
  Stream *stream = as<Stream>(handle);
  CUresult result = call("wait event " + std::to_string(as<Event>(event)->number) + on(handle));
  Graph *graph = as<Event>(event)->capture;
  if (graph && stream->capture != graph) { // the stream joins the capture
    if (stream->capture)
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    stream->capture = graph;
    graph->streams.push_back(stream);
  }
  return result;
}
CUresult endCapture(CUstream stream, CUgraph *result) {
  CUresult status = call("end capture" + on(stream));
  Graph *graph = as<Stream>(stream)->capture;
  if (!graph)
    return CUDA_ERROR_ILLEGAL_STATE;
  for (Stream *each : graph->streams)
    each->capture = nullptr;
  *result = reinterpret_cast<CUgraph>(graph);
  ++fake->objects;
  return status;
}

cuda::DriverApi driverTable() {
  cuda::DriverApi api;
  api.cuInit = [](unsigned) { return CUDA_SUCCESS; };
  api.cuDriverGetVersion = [](int *version) { return *version = 13000, CUDA_SUCCESS; };
  api.cuGetErrorName = getErrorName;
  api.cuGetErrorString = getErrorString;
  api.cuDeviceGetCount = [](int *count) { return *count = fake->devices, CUDA_SUCCESS; };
  api.cuDeviceGet = [](CUdevice *device, int) { return *device = 0, CUDA_SUCCESS; };
  api.cuDeviceGetName = [](char *name, int, CUdevice) {
    std::strcpy(name, "Fake GPU");
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetAttribute = getAttribute;
  api.cuDevicePrimaryCtxRetain = [](CUcontext *context, CUdevice) {
    *context = reinterpret_cast<CUcontext>(fake);
    return CUDA_SUCCESS;
  };
  api.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
  api.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.cuMemGetInfo = [](size_t *free, size_t *total) {
    *free = fake->freeBytes;
    *total = size_t(8) << 30;
    return CUDA_SUCCESS;
  };
  api.cuMemAlloc = memAlloc;
  api.cuMemFree = memFree;
  api.cuMemHostAlloc = [](void **address, size_t bytes, unsigned) {
    ++fake->objects;
    *address = std::malloc(bytes);
    return CUDA_SUCCESS;
  };
  api.cuMemFreeHost = [](void *address) {
    --fake->objects;
    std::free(address);
    return CUDA_SUCCESS;
  };
  api.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return copy("host to device", host(to), from, bytes, stream);
  };
  api.cuMemcpyDtoHAsync = [](void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy("device to host", to, host(from), bytes, stream);
  };
  api.cuMemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy("copy", host(to), host(from), bytes, stream);
  };
  api.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    CUresult result = call("set " + std::to_string(bytes) + on(stream));
    if (result == CUDA_SUCCESS)
      submit(stream, [=] { std::memset(host(to), value, bytes); });
    return result;
  };
  api.cuModuleLoadData = [](CUmodule *module, const void *) {
    ++fake->objects;
    *module = reinterpret_cast<CUmodule>(new Module);
    return CUDA_SUCCESS;
  };
  api.cuModuleUnload = destroy<Module, CUmodule>;
  api.cuModuleGetFunction = [](CUfunction *function, CUmodule module, const char *name) {
    if (std::string(name) == "absent")
      return CUDA_ERROR_NOT_FOUND;
    auto &made = as<Module>(module)->functions.emplace_back(new Function{name});
    *function = reinterpret_cast<CUfunction>(made.get());
    return CUDA_SUCCESS;
  };
  api.cuFuncGetAttribute = [](int *value, CUfunction_attribute attribute, CUfunction) {
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? fake->maxThreads : 0;
    return CUDA_SUCCESS;
  };
  api.cuFuncSetAttribute = [](CUfunction function, CUfunction_attribute, int value) {
    return call("shared memory of " + as<Function>(function)->name + " " + std::to_string(value));
  };
  api.cuFuncGetParamInfo = [](CUfunction function, size_t, size_t *offset, size_t *bytes) {
    *offset = 0;
    *bytes = fake->parameterBytes.at(as<Function>(function)->name);
    return CUDA_SUCCESS;
  };
  api.cuLaunchKernel = launchKernel;
  api.cuStreamCreate = [](CUstream *stream, unsigned) {
    ++fake->objects;
    *stream = reinterpret_cast<CUstream>(new Stream{fake->state->streams++});
    return CUDA_SUCCESS;
  };
  api.cuStreamDestroy = destroy<Stream, CUstream>;
  api.cuStreamSynchronize = [](CUstream stream) { return call("synchronize" + on(stream)); };
  api.cuStreamWaitEvent = waitEvent;
  api.cuStreamBeginCapture = [](CUstream stream, CUstreamCaptureMode) {
    auto *graph = new Graph;
    graph->streams.push_back(as<Stream>(stream));
    as<Stream>(stream)->capture = graph;
    return call("begin capture" + on(stream));
  };
  api.cuStreamEndCapture = endCapture;
  api.cuEventCreate = [](CUevent *event, unsigned) {
    ++fake->objects;
    *event = reinterpret_cast<CUevent>(new Event{fake->state->events++});
    return CUDA_SUCCESS;
  };
  api.cuEventDestroy = destroy<Event, CUevent>;
  api.cuEventRecord = [](CUevent event, CUstream stream) {
    as<Event>(event)->capture = as<Stream>(stream)->capture;
    return call("record event " + std::to_string(as<Event>(event)->number) + on(stream));
  };
  api.cuEventRecordWithFlags = [](CUevent event, CUstream stream, unsigned flags) {
    bool isNode = flags == CU_EVENT_RECORD_EXTERNAL && as<Stream>(stream)->capture;
    CUresult result = call("mark event " + std::to_string(as<Event>(event)->number) + on(stream));
    return isNode ? result : CUDA_ERROR_INVALID_VALUE;
  };
  api.cuEventSynchronize = [](CUevent event) {
    return call("synchronize event " + std::to_string(as<Event>(event)->number));
  };
  api.cuEventElapsedTime = [](float *milliseconds, CUevent, CUevent) {
    *milliseconds = fake->state->clock += 0.25F; // every measurement is longer than the last
    return CUDA_SUCCESS;
  };
  api.cuGraphInstantiate = [](CUgraphExec *executable, CUgraph graph, unsigned long long) {
    ++fake->objects;
    *executable = reinterpret_cast<CUgraphExec>(new Graph(*as<Graph>(graph)));
    return call("instantiate");
  };
  api.cuGraphUpload = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  api.cuGraphLaunch = [](CUgraphExec graph, CUstream stream) {
    CUresult result = call("launch graph" + on(stream));
    if (result == CUDA_SUCCESS)
      for (const auto &work : as<Graph>(graph)->work)
        work();
    return result;
  };
  api.cuGraphDestroy = destroy<Graph, CUgraph>;
  api.cuGraphExecDestroy = destroy<Graph, CUgraphExec>;
  return api;
}

// NVRTC: the machine code is the text.

struct Program {
  std::string text, log;
};

cuda::NvrtcApi nvrtcTable() {
  cuda::NvrtcApi api;
  api.nvrtcVersion = [](int *major, int *minor) {
    *major = 13, *minor = 0;
    return NVRTC_SUCCESS;
  };
  api.nvrtcGetErrorString = [](nvrtcResult) { return "an error"; };
  api.nvrtcCreateProgram = [](nvrtcProgram *program, const char *text, const char *, int,
                              const char *const *, const char *const *) {
    ++fake->compiled;
    *program = reinterpret_cast<nvrtcProgram>(new Program{text, ""});
    return NVRTC_SUCCESS;
  };
  api.nvrtcDestroyProgram = [](nvrtcProgram *program) {
    delete as<Program>(*program);
    return NVRTC_SUCCESS;
  };
  api.nvrtcCompileProgram = [](nvrtcProgram, int, const char *const *) { return NVRTC_SUCCESS; };
  api.nvrtcGetProgramLogSize = [](nvrtcProgram, size_t *bytes) {
    *bytes = 0;
    return NVRTC_SUCCESS;
  };
  api.nvrtcGetProgramLog = [](nvrtcProgram, char *) { return NVRTC_SUCCESS; };
  api.nvrtcGetCUBINSize = [](nvrtcProgram program, size_t *bytes) {
    *bytes = as<Program>(program)->text.size();
    return NVRTC_SUCCESS;
  };
  api.nvrtcGetCUBIN = [](nvrtcProgram program, char *bytes) {
    const std::string &text = as<Program>(program)->text;
    std::copy(text.begin(), text.end(), bytes);
    return NVRTC_SUCCESS;
  };
  return api;
}

// cuBLASLt: column-major matrices and plain sums.

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t leading, stride = 0;
  int32_t batch = 1;
};
struct Operation {
  cublasOperation_t transposeA = CUBLAS_OP_N, transposeB = CUBLAS_OP_N;
  const float *scaleA = nullptr, *scaleB = nullptr;
};

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void *alpha,
                      const void *a, cublasLtMatrixLayout_t aLayout, const void *b,
                      cublasLtMatrixLayout_t bLayout, const void *beta, const void *c,
                      cublasLtMatrixLayout_t cLayout, void *d, cublasLtMatrixLayout_t dLayout,
                      const cublasLtMatmulAlgo_t *algorithm, void *, size_t, cudaStream_t stream) {
  const Operation op = *as<Operation>(operation);
  const Layout la = *as<Layout>(aLayout), lb = *as<Layout>(bLayout), lc = *as<Layout>(cLayout),
               ld = *as<Layout>(dLayout);
  const float factor = *static_cast<const float *>(alpha), more = *static_cast<const float *>(beta);
  auto number = int(algorithm->data[0]);
  auto *handle = reinterpret_cast<CUstream>(stream);
  if (call("product " + std::to_string(ld.rows) + "x" + std::to_string(ld.columns) + on(handle)) !=
      CUDA_SUCCESS)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  submit(handle, [=] {
    fake->algorithms.push_back(number);
    auto at = [](const Layout &layout, uint64_t row, uint64_t column, int64_t batch) {
      return int64_t(column) * layout.leading + int64_t(row) + batch * layout.stride;
    };
    uint64_t k = op.transposeA == CUBLAS_OP_N ? la.columns : la.rows;
    for (int64_t batch = 0; batch < ld.batch; ++batch)
      for (uint64_t i = 0; i < ld.rows; ++i)
        for (uint64_t j = 0; j < ld.columns; ++j) {
          float sum = 0;
          for (uint64_t x = 0; x < k; ++x)
            sum +=
                valueAt(a, la.type,
                        op.transposeA == CUBLAS_OP_N ? at(la, i, x, batch) : at(la, x, i, batch)) *
                valueAt(b, lb.type,
                        op.transposeB == CUBLAS_OP_N ? at(lb, x, j, batch) : at(lb, j, x, batch));
          sum *= factor * (op.scaleA ? *op.scaleA : 1) * (op.scaleB ? *op.scaleB : 1);
          if (more != 0)
            sum += more * valueAt(c, lc.type, at(lc, i, j, batch));
          setValue(d, ld.type, at(ld, i, j, batch), sum);
        }
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatmulPreference_t, int most,
                         cublasLtMatmulHeuristicResult_t results[], int *count) {
  *count = as<Layout>(a)->type == fake->unsupported ? 0 : std::min(most, fake->candidates);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = uint64_t(i);
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

template <typename T, typename Handle> cublasStatus_t dispose(Handle handle) {
  delete as<T>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cuda::CublasLtApi cublasLtTable() {
  cuda::CublasLtApi api;
  api.cublasLtGetVersion = []() -> size_t { return 130002; };
  api.cublasLtGetStatusString = [](cublasStatus_t) { return "a test's status"; };
  api.cublasLtCreate = [](cublasLtHandle_t *) { return CUBLAS_STATUS_SUCCESS; };
  api.cublasLtDestroy = [](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
  api.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                    cudaDataType_t scale) {
    *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation);
    bool isTrueF32 = compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F;
    return isTrueF32 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  };
  api.cublasLtMatmulDescDestroy = dispose<Operation, cublasLtMatmulDesc_t>;
  api.cublasLtMatmulDescSetAttribute = [](cublasLtMatmulDesc_t operation,
                                          cublasLtMatmulDescAttributes_t attribute,
                                          const void *value, size_t) {
    auto *op = as<Operation>(operation);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
      op->transposeA = *static_cast<const cublasOperation_t *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
      op->transposeB = *static_cast<const cublasOperation_t *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER)
      op->scaleA = *static_cast<const float *const *>(value);
    else if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)
      op->scaleB = *static_cast<const float *const *>(value);
    else
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t *layout, cudaDataType type,
                                      uint64_t rows, uint64_t columns, int64_t leading) {
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatrixLayoutDestroy = dispose<Layout, cublasLtMatrixLayout_t>;
  api.cublasLtMatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t layout,
                                            cublasLtMatrixLayoutAttribute_t attribute,
                                            const void *value, size_t) {
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
      as<Layout>(layout)->batch = *static_cast<const int32_t *>(value);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
      as<Layout>(layout)->stride = *static_cast<const int64_t *>(value);
    else
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t *preference) {
    *preference = nullptr;
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t) {
    return CUBLAS_STATUS_SUCCESS;
  };
  api.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t,
                                                cublasLtMatmulPreferenceAttributes_t, const void *,
                                                size_t) { return CUBLAS_STATUS_SUCCESS; };
  api.cublasLtMatmulAlgoGetHeuristic = heuristic;
  api.cublasLtMatmulAlgoCheck = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                   cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *algorithm,
                                   cublasLtMatmulHeuristicResult_t *result) {
    result->workspaceSize = 0;
    return algorithm->data[0] < uint64_t(fake->candidates) ? CUBLAS_STATUS_SUCCESS
                                                           : CUBLAS_STATUS_NOT_SUPPORTED;
  };
  api.cublasLtMatmul = matmul;
  return api;
}

} // namespace

FakeCuda::FakeCuda() : state(std::make_unique<State>()) { fake = this; }
FakeCuda::~FakeCuda() { fake = nullptr; }

cuda::Apis FakeCuda::apis() {
  static const cuda::DriverApi driver = driverTable();
  static const cuda::NvrtcApi nvrtc = nvrtcTable();
  static const cuda::CublasLtApi cublasLt = cublasLtTable();
  return {&driver, &nvrtc, &cublasLt};
}

} // namespace nano::test
