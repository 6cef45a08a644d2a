// What the parts of FakeCuda share: streams as queues of tasks, and the lock.
#pragma once

#include "tests/runtime/cuda/FakeCuda.h"

#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace nano::test {

/// The one that there is.
extern FakeCuda *fake;
std::recursive_mutex &fakeMutex();

/// One piece of a stream's work, asked until it says that it is done.
using Task = std::function<bool()>;

struct Stream {
  int number, gpu;
  std::deque<Task> queue;
  struct Graph *capture = nullptr;
};
struct Event {
  struct Counts {
    uint64_t recorded = 0, over = 0;
  };
  int number;
  Graph *capture = nullptr; ///< where it was recorded last
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
  bool isOver() const { return counts->over >= counts->recorded; }
};
struct Graph {
  std::vector<std::function<Task()>> work; ///< each launch makes its own tasks
  std::vector<Stream *> streams;           ///< that are part of it
};

struct FakeCuda::State {
  int streams = 0, events = 0;
  float clock = 0;
  std::vector<Stream *> open;
  char contexts[64] = {}; ///< their addresses stand for the GPUs'
};

template <typename T, typename Handle> T *as(Handle handle) {
  return reinterpret_cast<T *>(handle);
}
inline void *host(CUdeviceptr address) { return std::bit_cast<void *>(address); }

/// Writes the call down; a test may make it fail.
CUresult call(const std::string &text);
/// " stream 3".
std::string on(CUstream stream);
/// The GPU whose context the thread has.
int gpuOfThread();

/// Does what can be done on all streams.
void advance();
/// Work for the stream, or for the graph that the stream is captured into.
void submitTask(CUstream stream, std::function<Task()> make);
void submit(CUstream stream, std::function<void()> work);

const cuda::CublasLtApi *fakeCublasLt();
const cuda::NcclApi *fakeNccl();

/// Puts `inner`'s function of that name into `api`, called under the lock.
#define FAKE_LOCKED(name)                                                                          \
  api.name = [](auto... arguments) {                                                               \
    std::lock_guard guard(fakeMutex());                                                            \
    return inner.name(arguments...);                                                               \
  };

} // namespace nano::test
