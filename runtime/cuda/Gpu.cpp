// The driver's objects, released in the reverse of the order in which they were made.
#include "runtime/cuda/Gpu.h"

#include <fstream>
#include <thread>
#include <utility>

namespace nano::cuda {

std::vector<std::string> visibleGpus(const DriverApi &api) {
  CUresult started = api.cuInit(0);
  int count = 0;
  if (started == CUDA_SUCCESS)
    started = api.cuDeviceGetCount(&count);
  if (started != CUDA_SUCCESS || count == 0)
    throw Failure{badInput("no NVIDIA GPU can be used here: " +
                           (started == CUDA_SUCCESS ? "the driver sees none"
                                                    : driverError(api, started, "cuInit").message) +
                           "; see what nvidia-smi says, and CUDA_VISIBLE_DEVICES")};
  std::vector<std::string> identifiers;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid uuid = {};
    CUresult result = api.cuDeviceGet(&device, i);
    if (result == CUDA_SUCCESS)
      result = api.cuDeviceGetUuid(&uuid, device);
    if (result != CUDA_SUCCESS)
      throw Failure{driverError(api, result, "cuDeviceGetUuid")};
    std::string text;
    for (char byte : uuid.bytes)
      for (int shift : {4, 0})
        text += "0123456789abcdef"[byte >> shift & 15];
    identifiers.push_back(std::move(text));
  }
  return identifiers;
}

std::string kernelModuleVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos)
      return word;
  return "";
}

Gpu::Gpu(const DriverApi &api, int ordinal) : api(api), ordinal(ordinal) {
  check(api.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  char text[256] = {};
  check(api.cuDeviceGetName(text, int(sizeof text) - 1, device), "cuDeviceGetName");
  name = text;
  major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  check(api.cuDriverGetVersion(&driverVersion), "cuDriverGetVersion");
}

Gpu::~Gpu() {
  if (!context)
    return;
  api.cuCtxSetCurrent(context);
  while (!releases.empty()) {
    releases.back()();
    releases.pop_back();
  }
  api.cuDevicePrimaryCtxRelease(device);
}

void Gpu::activate() {
  if (!context)
    check(api.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(api.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

int Gpu::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  check(api.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

CUdeviceptr Gpu::allocate(uint64_t bytes) {
  CUdeviceptr address = 0;
  check(api.cuMemAlloc(&address, bytes), "cuMemAlloc");
  releases.emplace_back([this, address] { api.cuMemFree(address); });
  allocated += bytes;
  return address;
}

std::byte *Gpu::allocatePinned(uint64_t bytes) {
  void *address = nullptr;
  check(api.cuMemHostAlloc(&address, bytes, 0), "cuMemHostAlloc");
  releases.emplace_back([this, address] { api.cuMemFreeHost(address); });
  return static_cast<std::byte *>(address);
}

CUstream Gpu::makeStream(bool isUrgent) {
  int least = 0, greatest = 0;
  check(api.cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
  CUstream stream = nullptr;
  check(
      api.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, isUrgent ? greatest : least),
      "cuStreamCreateWithPriority");
  releases.emplace_back([this, stream] { api.cuStreamDestroy(stream); });
  return stream;
}

CUevent Gpu::makeEvent(bool isTimed) {
  CUevent event = nullptr;
  check(api.cuEventCreate(&event, isTimed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
        "cuEventCreate");
  releases.emplace_back([this, event] { api.cuEventDestroy(event); });
  return event;
}

CUmodule Gpu::load(const std::string &cubin, const std::string &name) {
  CUmodule module = nullptr;
  if (CUresult result = api.cuModuleLoadData(&module, cubin.data()); result != CUDA_SUCCESS)
    throw Failure{driverError(api, result, "cuModuleLoadData of " + name)};
  releases.emplace_back([this, module] { api.cuModuleUnload(module); });
  return module;
}

CUgraphExec Gpu::instantiate(CUgraph graph, CUstream stream) {
  CUgraphExec executable = nullptr;
  CUresult result = api.cuGraphInstantiate(&executable, graph, 0);
  api.cuGraphDestroy(graph);
  check(result, "cuGraphInstantiate");
  graphs.insert(executable);
  releases.emplace_back([this, executable] { destroy(executable); });
  check(api.cuGraphUpload(executable, stream), "cuGraphUpload");
  return executable;
}

void Gpu::destroyGraphs() {
  while (!graphs.empty())
    destroy(*graphs.begin());
}

void Gpu::destroy(CUgraphExec graph) {
  if (graphs.erase(graph))
    api.cuGraphExecDestroy(graph);
}

uint64_t Gpu::freeBytes() const {
  size_t free = 0, total = 0;
  check(api.cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return free;
}

std::optional<uint64_t> Gpu::usedBytes() const {
  size_t free = 0, total = 0;
  if (api.cuMemGetInfo(&free, &total) != CUDA_SUCCESS)
    return std::nullopt;
  return total - free;
}

void Gpu::waitUntil(const std::function<bool()> &isDone) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds pause(1); // between two calls of `watch`
  const Clock::time_point begin = Clock::now();
  Clock::time_point next = begin + pause;
  bool isFirst = true;
  while (!isDone()) {
    if (Clock::time_point now = Clock::now(); now >= next) {
      if (watch)
        watch(std::exchange(isFirst, false) ? Clock::duration(0) : now - begin);
      next = now + pause;
    }
    std::this_thread::yield();
  }
}

void Gpu::synchronize(CUstream stream) const {
  if (!watch)
    return check(api.cuStreamSynchronize(stream), "cuStreamSynchronize");
  waitUntil([&] { return isReady(api.cuStreamQuery(stream), "cuStreamQuery"); });
}

void Gpu::synchronize(CUevent event) const {
  if (!watch)
    return check(api.cuEventSynchronize(event), "cuEventSynchronize");
  waitUntil([&] { return isOver(event); });
}

} // namespace nano::cuda
