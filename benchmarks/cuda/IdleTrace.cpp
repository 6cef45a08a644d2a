// libnano-idle.so: how much of a run's time no kernel and no copy is on the GPU, by CUPTI's
// records.
//
// The driver loads it into any CUDA program:
//
//   CUDA_INJECTION64_PATH=build/bin/libnano-idle.so NANO_IDLE_REPORT=idle.json nanorun step.plan …
//
// The report covers the records from 40% to 90% of the run's, by number: a run of enough equal
// steps is then counted without its start. CUPTI adds some time between kernels: the share is an
// upper bound of what a run without it has. Fields: records; window_ms, busy_ms; idle, of the
// window.
#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace {

constexpr size_t bufferBytes = 8 << 20;

struct Records {
  std::mutex mutex;
  std::vector<std::pair<uint64_t, uint64_t>> spans; ///< begin and end, in nanoseconds
};

/// Never destroyed: the driver's threads may deliver buffers until the process is gone.
Records &records() {
  static auto *const all = new Records;
  return *all;
}

void CUPTIAPI giveBuffer(uint8_t **buffer, size_t *bytes, size_t *mostRecords) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, bufferBytes));
  *bytes = *buffer ? bufferBytes : 0;
  *mostRecords = 0; // as many as fit
}

template <class Activity> void add(const CUpti_Activity *record) {
  const auto *activity = reinterpret_cast<const Activity *>(record);
  if (activity->end > activity->start)
    records().spans.emplace_back(activity->start, activity->end);
}

void CUPTIAPI takeBuffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t,
                         size_t validBytes) {
  size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped)
    std::fprintf(stderr, "libnano-idle: %zu records are lost and count as idle\n", dropped);
  {
    std::lock_guard lock(records().mutex);
    CUpti_Activity *record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, validBytes, &record) == CUPTI_SUCCESS)
      switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        add<CUpti_ActivityKernel10>(record);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        add<CUpti_ActivityMemcpy6>(record);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        add<CUpti_ActivityMemset4>(record);
        break;
      default:
        break;
      }
  }
  std::free(buffer);
}

void writeReport() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::lock_guard lock(records().mutex);
  auto &spans = records().spans;
  std::sort(spans.begin(), spans.end());
  const size_t first = spans.size() * 4 / 10, last = spans.size() * 9 / 10;
  if (last - first < 2) {
    std::fprintf(stderr, "libnano-idle: the run has only %zu kernels and copies\n", spans.size());
    return;
  }
  const uint64_t begin = spans[first].first, end = spans[last].first;
  uint64_t busy = 0, until = begin;
  for (size_t i = 0; i < last; ++i) {
    const uint64_t from = std::max(spans[i].first, until), to = std::min(spans[i].second, end);
    if (to > from) {
      busy += to - from;
      until = to;
    }
  }
  const char *path = std::getenv("NANO_IDLE_REPORT");
  std::FILE *file = path ? std::fopen(path, "w") : stderr;
  if (!file) {
    std::fprintf(stderr, "libnano-idle: %s cannot be written\n", path);
    return;
  }
  std::fprintf(file, "{\"records\": %zu, \"window_ms\": %.3f, \"busy_ms\": %.3f, \"idle\": %.5f}\n",
               last - first, double(end - begin) / 1e6, double(busy) / 1e6,
               1 - double(busy) / double(end - begin));
  if (path)
    std::fclose(file);
}

} // namespace

/// What the driver calls in a library that it is told to load. 1: loaded.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer) != CUPTI_SUCCESS)
    return 0;
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMSET})
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS)
      std::fprintf(stderr, "libnano-idle: CUPTI does not record activities of kind %d\n",
                   int(kind));
  std::atexit(writeReport);
  return 1;
}
