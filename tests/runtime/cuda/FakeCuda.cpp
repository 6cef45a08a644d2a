// The functions behind FakeCuda's tables: the driver and NVRTC.
#include "tests/runtime/cuda/FakeCuda.h"
#include "tests/runtime/cuda/FakeTables.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>

namespace nano::test {

FakeCuda *fake = nullptr;

std::recursive_mutex &fakeMutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

namespace {

struct Function {
  std::string name;
};
struct Module {
  std::vector<std::unique_ptr<Function>> functions;
};

/// The GPU whose context is this thread's.
thread_local int currentGpu = 0;

} // namespace

CUresult call(const std::string &text) {
  fake->calls.push_back(text);
  return fake->onCall ? fake->onCall(text) : CUDA_SUCCESS;
}

std::string on(CUstream stream) { return " stream " + std::to_string(as<Stream>(stream)->number); }

int gpuOfThread() { return currentGpu; }

void advance() {
  for (bool isMoving = true; isMoving;) {
    isMoving = false;
    for (Stream *stream : fake->state->open)
      while (!stream->queue.empty() && stream->queue.front()()) {
        stream->queue.pop_front();
        isMoving = true;
      }
  }
}

void submitTask(CUstream handle, std::function<Task()> make) {
  auto *stream = as<Stream>(handle);
  if (stream->capture) {
    stream->capture->work.push_back(std::move(make));
    return;
  }
  stream->queue.push_back(make());
  advance();
}

void submit(CUstream stream, std::function<void()> work) {
  submitTask(stream,
             [work = std::move(work)]() -> Task { return [work] { return work(), true; }; });
}

namespace {

/// Waits, with the lock released, for what only other threads bring about.
template <typename Condition> void waitFor(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (true) {
    {
      std::lock_guard guard(fakeMutex());
      advance();
      if (condition())
        return;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      std::fputs("the fake GPU hangs: a stream waits for a rank that does not come\n", stderr);
      std::abort();
    }
    std::this_thread::yield();
  }
}

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
/// Waits for the GPU, as the driver does.
CUresult memFree(CUdeviceptr address) {
  waitFor([] {
    return std::all_of(fake->state->open.begin(), fake->state->open.end(), [](Stream *stream) {
      return stream->gpu != currentGpu || stream->queue.empty();
    });
  });
  std::lock_guard guard(fakeMutex());
  --fake->allocations;
  std::free(host(address));
  return CUDA_SUCCESS;
}
CUresult synchronizeStream(CUstream handle) {
  CUresult result;
  {
    std::lock_guard guard(fakeMutex());
    result = call("synchronize" + on(handle));
  }
  if (result == CUDA_SUCCESS)
    waitFor([&] { return as<Stream>(handle)->queue.empty(); });
  return result;
}
CUresult synchronizeEvent(CUevent handle) {
  CUresult result;
  {
    std::lock_guard guard(fakeMutex());
    result = call("synchronize event " + std::to_string(as<Event>(handle)->number));
  }
  if (result == CUDA_SUCCESS)
    waitFor([&] { return as<Event>(handle)->isOver(); });
  return result;
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
  FakeCuda::Launch launch = {name, blocks, threads, shared, {}, {}};
  const auto *words = static_cast<const uint64_t *>(parameters[0]);
  launch.parameter.assign(words, words + fake->parameterBytes.at(name) / 8);
  if (fake->mapBytes.count(name)) {
    const auto *maps = static_cast<const CUtensorMap *>(parameters[1]);
    const size_t count = fake->mapBytes.at(name) / sizeof(CUtensorMap);
    launch.maps.assign(maps, maps + count);
  }
  submit(stream, [launch] {
    fake->launches.push_back(launch);
    if (fake->onLaunch)
      fake->onLaunch(launch);
  });
  return CUDA_SUCCESS;
}
/// Waits and writes, one after the other.
CUresult batchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations,
                    unsigned) {
  CUresult result = call("memory operations " + std::to_string(count) + on(stream));
  if (result != CUDA_SUCCESS)
    return result;
  for (const CUstreamBatchMemOpParams &each : std::span(operations, count)) {
    const bool isWait = each.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    auto *word =
        static_cast<uint32_t *>(host(isWait ? each.waitValue.address : each.writeValue.address));
    const uint32_t value = isWait ? each.waitValue.value : each.writeValue.value;
    submitTask(stream, [=]() -> Task {
      return [=] {
        if (isWait)
          return std::atomic_ref<uint32_t>(*word).load() == value;
        std::atomic_ref<uint32_t>(*word).store(value);
        return true;
      };
    });
  }
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
  } else if (!graph) {
    std::shared_ptr<Event::Counts> counts = as<Event>(event)->counts;
    submitTask(handle, [counts]() -> Task {
      return [counts, wanted = counts->recorded] { return counts->over >= wanted; };
    });
  }
  return result;
}
CUresult recordEvent(CUevent event, CUstream stream) {
  as<Event>(event)->capture = as<Stream>(stream)->capture;
  if (!as<Stream>(stream)->capture) {
    std::shared_ptr<Event::Counts> counts = as<Event>(event)->counts;
    submit(stream, [counts, number = ++counts->recorded] { counts->over = number; });
  }
  return call("record event " + std::to_string(as<Event>(event)->number) + on(stream));
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

/// The map is what the driver was told: see FakeCuda::Map.
CUresult encodeMap(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                   const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                   const cuuint32_t *steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                   CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (rank != 2 || steps[0] != 1 || steps[1] != 1 || std::bit_cast<uintptr_t>(address) % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const FakeCuda::Map told = {address,    type,   sizes[0], sizes[1],
                              strides[0], box[0], box[1],   swizzle};
  static_assert(sizeof told <= sizeof *map);
  std::memcpy(map, &told, sizeof told);
  return CUDA_SUCCESS;
}

cuda::DriverApi driverTable() {
  cuda::DriverApi api;
  api.cuInit = [](unsigned) { return CUDA_SUCCESS; };
  api.cuDriverGetVersion = [](int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
  };
  api.cuGetErrorName = getErrorName;
  api.cuGetErrorString = getErrorString;
  api.cuDeviceGetCount = [](int *count) { return *count = fake->devices, CUDA_SUCCESS; };
  api.cuDeviceGet = [](CUdevice *device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; };
  api.cuDeviceGetUuid = [](CUuuid *uuid, CUdevice device) {
    *uuid = {};
    uuid->bytes[0] = char(device);
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetName = [](char *name, int, CUdevice) {
    std::strcpy(name, "Fake GPU");
    return CUDA_SUCCESS;
  };
  api.cuDeviceGetAttribute = getAttribute;
  api.cuDevicePrimaryCtxRetain = [](CUcontext *context, CUdevice device) {
    *context = reinterpret_cast<CUcontext>(fake->state->contexts + device);
    return CUDA_SUCCESS;
  };
  api.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
  api.cuCtxSetCurrent = [](CUcontext context) {
    currentGpu = int(reinterpret_cast<char *>(context) - fake->state->contexts);
    return CUDA_SUCCESS;
  };
  api.cuCtxEnablePeerAccess = [](CUcontext context, unsigned) {
    const auto peer = reinterpret_cast<char *>(context) - fake->state->contexts;
    return call("gpu " + std::to_string(currentGpu) + " reaches " + std::to_string(peer));
  };
  api.cuDeviceGetP2PAttribute = [](int *value, CUdevice_P2PAttribute attribute, CUdevice one,
                                   CUdevice other) {
    const bool isLink = attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    *value = isLink ? !fake->unlinked.count({std::min(one, other), std::max(one, other)}) : 1;
    return CUDA_SUCCESS;
  };
  api.cuMemGetInfo = [](size_t *free, size_t *total) {
    *free = fake->freeBytes;
    *total = size_t(8) << 30;
    return fake->tellsMemory ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  };
  api.cuMemAlloc = memAlloc;
  api.cuMemHostAlloc = [](void **address, size_t bytes, unsigned) {
    if (CUresult result = call("alloc pinned " + std::to_string(bytes)); result != CUDA_SUCCESS)
      return result;
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
  api.cuMemcpyAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return copy("copy between GPUs", host(to), host(from), bytes, stream);
  };
  api.cuStreamBatchMemOp = batchMemOp;
  api.cuMemsetD8Async = [](CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    CUresult result = call("set " + std::to_string(bytes) + on(stream));
    if (result == CUDA_SUCCESS)
      submit(stream, [=] { std::memset(host(to), value, bytes); });
    return result;
  };
  api.cuMemsetD32Async = [](CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    submit(stream, [=] { std::fill_n(static_cast<unsigned *>(host(to)), count, value); });
    return CUDA_SUCCESS;
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
  api.cuFuncGetAttribute = [](int *value, CUfunction_attribute attribute, CUfunction function) {
    auto cluster = fake->clusterBlocks.find(as<Function>(function)->name);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? fake->maxThreads
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 40
             : attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES    ? 8
             : attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
                     cluster != fake->clusterBlocks.end()
                 ? cluster->second
                 : 0;
    return CUDA_SUCCESS;
  };
  api.cuFuncSetAttribute = [](CUfunction function, CUfunction_attribute, int value) {
    return call("shared memory of " + as<Function>(function)->name + " " + std::to_string(value));
  };
  api.cuFuncGetParamInfo = [](CUfunction function, size_t index, size_t *offset, size_t *bytes) {
    const std::string &name = as<Function>(function)->name;
    *offset = 0;
    if (index > fake->mapBytes.count(name))
      return CUDA_ERROR_INVALID_VALUE;
    *bytes = index == 0 ? fake->parameterBytes.at(name) : fake->mapBytes.at(name);
    return CUDA_SUCCESS;
  };
  api.cuTensorMapEncodeTiled = encodeMap;
  api.cuLaunchKernel = launchKernel;
  api.cuCtxGetStreamPriorityRange = [](int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return CUDA_SUCCESS;
  };
  api.cuStreamCreateWithPriority = [](CUstream *stream, unsigned, int priority) {
    fake->priorities.push_back(priority);
    ++fake->objects;
    auto *made = new Stream{fake->state->streams++, currentGpu, {}, nullptr};
    fake->state->open.push_back(made);
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
  };
  api.cuStreamDestroy = [](CUstream stream) {
    std::erase(fake->state->open, as<Stream>(stream));
    return destroy<Stream>(stream);
  };
  api.cuStreamQuery = [](CUstream stream) {
    CUresult result = call("query" + on(stream));
    advance();
    return result == CUDA_SUCCESS && !as<Stream>(stream)->queue.empty() ? CUDA_ERROR_NOT_READY
                                                                        : result;
  };
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
    *event = reinterpret_cast<CUevent>(new Event{fake->state->events++, nullptr});
    return CUDA_SUCCESS;
  };
  api.cuEventDestroy = destroy<Event, CUevent>;
  api.cuEventRecord = recordEvent;
  api.cuEventRecordWithFlags = [](CUevent event, CUstream stream, unsigned flags) {
    bool isNode = flags == CU_EVENT_RECORD_EXTERNAL && as<Stream>(stream)->capture;
    CUresult result = call("mark event " + std::to_string(as<Event>(event)->number) + on(stream));
    return isNode ? result : CUDA_ERROR_INVALID_VALUE;
  };
  api.cuEventQuery = [](CUevent event) {
    advance();
    return as<Event>(event)->isOver() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  api.cuEventElapsedTime = [](float *milliseconds, CUevent, CUevent) {
    // Every measurement is longer than the last, unless told.
    *milliseconds = fake->elapsed > 0 ? fake->elapsed : fake->state->clock += 0.25F;
    return CUDA_SUCCESS;
  };
  api.cuGraphInstantiate = [](CUgraphExec *executable, CUgraph graph, unsigned long long) {
    ++fake->objects;
    *executable = reinterpret_cast<CUgraphExec>(new Graph(*as<Graph>(graph)));
    return call("instantiate");
  };
  api.cuGraphUpload = [](CUgraphExec, CUstream stream) {
    return call("upload graph" + on(stream));
  };
  api.cuGraphLaunch = [](CUgraphExec graph, CUstream stream) {
    CUresult result = call("launch graph" + on(stream));
    if (result == CUDA_SUCCESS)
      for (const auto &make : as<Graph>(graph)->work)
        submitTask(stream, make);
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

} // namespace

FakeCuda::FakeCuda() : state(std::make_unique<State>()) { fake = this; }
FakeCuda::~FakeCuda() { fake = nullptr; }

cuda::Apis FakeCuda::apis() {
  // Each call has the fake for itself; those that wait take it themselves.
  static const cuda::DriverApi inner = driverTable();
  static const cuda::NvrtcApi innerNvrtc = nvrtcTable();
  static const cuda::DriverApi driver = [] {
    cuda::DriverApi api;
    NANO_DRIVER_FUNCTIONS(FAKE_LOCKED)
    NANO_NEWER_DRIVER_FUNCTIONS(FAKE_LOCKED)
    api.cuStreamSynchronize = synchronizeStream;
    api.cuEventSynchronize = synchronizeEvent;
    api.cuMemFree = memFree;
    return api;
  }();
  static const cuda::NvrtcApi nvrtc = [] {
    const cuda::NvrtcApi &inner = innerNvrtc;
    cuda::NvrtcApi api;
    NANO_NVRTC_FUNCTIONS(FAKE_LOCKED)
    return api;
  }();
  static const cuda::DriverApi older = [] {
    cuda::DriverApi api = driver;
    api.cuTensorMapEncodeTiled = nullptr;
    api.cuStreamBatchMemOp = nullptr;
    return api;
  }();
  return {isOlder ? &older : &driver, &nvrtc, fakeCublasLt(), fakeNccl()};
}

} // namespace nano::test
