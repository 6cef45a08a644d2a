// Flags of the ranks of a process, in pinned memory that belongs to all of them.
#include "runtime/cuda/PeerFlags.h"

#include <bit>
#include <cstring>
#include <map>
#include <random>

namespace nano::cuda {
namespace {

constexpr size_t wordBytes = 64; ///< a cache line each
constexpr size_t kinds = 3;

} // namespace

const std::string &PeerFlags::processName() {
  static const std::string name = [] {
    std::random_device source;
    std::string text;
    for (int i = 0; i < 4; ++i)
      text += std::to_string(source()) + ".";
    return text;
  }();
  return name;
}

std::shared_ptr<PeerFlags> PeerFlags::meet(const std::string &name, const Gpu &gpu, int world) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<PeerFlags>> all;
  std::lock_guard guard(mutex);
  std::erase_if(all, [](const auto &each) { return each.second.expired(); });
  std::weak_ptr<PeerFlags> &known = all[name];
  std::shared_ptr<PeerFlags> flags = known.lock();
  if (!flags)
    known = flags = std::make_shared<PeerFlags>(gpu, world);
  return flags;
}

PeerFlags::PeerFlags(const Gpu &gpu, int world) : api(gpu.api), device(gpu.handle()), world(world) {
  gpu.check(api.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  const size_t bytes = size_t(world) * size_t(world) * kinds * wordBytes;
  if (CUresult result =
          api.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
      result != CUDA_SUCCESS) {
    api.cuDevicePrimaryCtxRelease(device);
    throw Failure{driverError(api, result, "cuMemHostAlloc")};
  }
  std::memset(memory, 0, bytes);
}

PeerFlags::~PeerFlags() {
  api.cuCtxSetCurrent(context);
  api.cuMemFreeHost(memory);
  api.cuDevicePrimaryCtxRelease(device);
}

uint32_t *PeerFlags::word(int receiver, int sender, Kind kind) const {
  const size_t index = (size_t(receiver) * size_t(world) + size_t(sender)) * kinds + kind;
  return reinterpret_cast<uint32_t *>(static_cast<std::byte *>(memory) + index * wordBytes);
}

/// The host's address is the GPUs' too.
CUdeviceptr PeerFlags::at(int receiver, int sender, Kind kind) const {
  return std::bit_cast<CUdeviceptr>(word(receiver, sender, kind));
}

void PeerFlags::giveUp(const std::string &why) {
  std::lock_guard guard(mutex);
  if (!hasFailed)
    reason = why;
  hasFailed = true;
}

std::optional<std::string> PeerFlags::failure() const {
  if (!hasFailed)
    return std::nullopt;
  std::lock_guard guard(mutex);
  return reason;
}

void PeerFlags::release(int receiver) {
  for (int sender = 0; sender < world; ++sender)
    for (Kind kind : {Ready, Arrived, Summed})
      std::atomic_ref<uint32_t>(*word(receiver, sender, kind)).store(1);
}

} // namespace nano::cuda
