// Pinned memory between the caller's and the GPU's.
#include "runtime/cuda/Staging.h"

#include <algorithm>
#include <cstring>

namespace nano::cuda {

Staging::Staging(Gpu &gpu, CUstream compute)
    : gpu(gpu), compute(compute), copies(gpu.makeStream()) {
  std::byte *host = gpu.allocatePinned(slotBytes * slotCount);
  CUdeviceptr device = gpu.allocate(deviceBytes);
  for (size_t i = 0; i < slotCount; ++i)
    slots[i] = {host + i * slotBytes, device + i * slotBytes, gpu.makeEvent(false),
                gpu.makeEvent(false), false};
  bounce = gpu.allocatePinned(slotBytes);
  mailbox = gpu.allocatePinned(mailboxBytes);
}

void Staging::write(CUdeviceptr to, const void *data, uint64_t bytes) {
  const auto *from = static_cast<const std::byte *>(data);
  for (uint64_t done = 0; done < bytes; done += slotBytes) {
    uint64_t count = std::min(slotBytes, bytes - done);
    Slot &slot = slots[next++ % slotCount];
    if (slot.used)
      gpu.synchronize(slot.moved);
    slot.used = true;
    std::memcpy(slot.host, from + done, count);
    gpu.check(gpu.api.cuMemcpyHtoDAsync(slot.device, slot.host, count, copies),
              "cuMemcpyHtoDAsync");
    gpu.check(gpu.api.cuEventRecord(slot.filled, copies), "cuEventRecord");
    gpu.check(gpu.api.cuStreamWaitEvent(compute, slot.filled, 0), "cuStreamWaitEvent");
    gpu.check(gpu.api.cuMemcpyDtoDAsync(to + done, slot.device, count, compute),
              "cuMemcpyDtoDAsync");
    gpu.check(gpu.api.cuEventRecord(slot.moved, compute), "cuEventRecord");
  }
}

void Staging::read(CUdeviceptr from, void *data, uint64_t bytes) {
  wait();
  for (uint64_t done = 0; done < bytes; done += slotBytes) {
    uint64_t count = std::min(slotBytes, bytes - done);
    gpu.check(gpu.api.cuMemcpyDtoHAsync(bounce, from + done, count, compute), "cuMemcpyDtoHAsync");
    gpu.synchronize(compute);
    std::memcpy(static_cast<std::byte *>(data) + done, bounce, count);
  }
}

void Staging::readLater(CUdeviceptr from, void *data, uint64_t bytes) {
  if (bytes > mailboxBytes)
    return read(from, data, bytes);
  if (mailboxUsed + bytes > mailboxBytes)
    wait();
  gpu.check(gpu.api.cuMemcpyDtoHAsync(mailbox + mailboxUsed, from, bytes, compute),
            "cuMemcpyDtoHAsync");
  promises.push_back({data, mailboxUsed, bytes});
  mailboxUsed += (bytes + 15) / 16 * 16;
}

void Staging::wait() {
  gpu.synchronize(compute);
  for (const Promise &promise : promises)
    std::memcpy(promise.data, mailbox + promise.at, promise.bytes);
  promises.clear();
  mailboxUsed = 0;
}

} // namespace nano::cuda
