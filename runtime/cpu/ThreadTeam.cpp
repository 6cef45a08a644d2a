// Parallel regions of libgomp with a shared list of chunks; see the header for why libgomp.
#include "runtime/cpu/ThreadTeam.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

// libgomp's own entry points, which are stable: what g++ makes of `#pragma omp parallel`. Written
// as calls, any compiler makes the same of them; clang's -fopenmp would bring LLVM's OpenMP, a
// second pool beside libgomp's, which oneDNN uses.
extern "C" {
void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_thread_num();
void omp_set_dynamic(int dynamic);
void omp_set_num_threads(int threads);
}

namespace nano::cpu {
namespace {

/// Runs `work(thread)` on each thread of a team of `threads`. An exception may not leave it.
template <typename Work> void parallel(int threads, Work &&work) {
  GOMP_parallel(
      [](void *data) noexcept {
        (*static_cast<std::remove_reference_t<Work> *>(data))(omp_get_thread_num());
      },
      &work, unsigned(threads), 0);
}

#if defined(__x86_64__)
unsigned floatingPointMode() { return _mm_getcsr(); }
void setFloatingPointMode(unsigned mode) { _mm_setcsr(mode); }
void flushDenormals() {
  constexpr unsigned flushToZero = 0x8000, denormalsAreZero = 0x0040;
  unsigned mode = _mm_getcsr(), wanted = mode | flushToZero | denormalsAreZero;
  if (mode != wanted)
    _mm_setcsr(wanted);
}
#else
unsigned floatingPointMode() { return 0; }
void setFloatingPointMode(unsigned) {}
void flushDenormals() {}
#endif

/// The parts of a list of chunks: thread t owns [begin(t), begin(t + 1)).
class Parts {
public:
  Parts(int64_t count, int threads) : count(count), threads(threads), next(size_t(threads)) {
    for (int t = 0; t < threads; ++t)
      next[t].index.store(begin(t), std::memory_order_relaxed);
  }

  template <typename Fn> void work(int thread, Fn run) {
    for (int i = 0; i < threads; ++i) {
      int owner = (thread + i) % threads;
      int64_t end = begin(owner + 1);
      auto &index = next[owner].index;
      while (index.load(std::memory_order_relaxed) < end) {
        int64_t chunk = index.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= end)
          break;
        run(chunk);
      }
    }
  }

private:
  int64_t begin(int thread) const { return count * thread / threads; }

  struct alignas(64) Next {
    std::atomic<int64_t> index;
  };
  int64_t count;
  int threads;
  std::vector<Next> next;
};

} // namespace

FlushDenormals::FlushDenormals() : saved(floatingPointMode()) { flushDenormals(); }

FlushDenormals::~FlushDenormals() { setFloatingPointMode(saved); }

void appendChunks(void *const *args, int64_t iterations, int64_t grain, int64_t total, int threads,
                  std::vector<Chunk> &chunks) {
  if (iterations <= 0)
    return;
  int64_t size = std::max(grain, total / (int64_t(8) * threads));
  int64_t count = std::clamp<int64_t>(iterations / std::max<int64_t>(size, 1), 1, 64 * threads);
  int64_t each = iterations / count, more = iterations % count;
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    int64_t end = begin + each + (i < more);
    chunks.push_back({args, begin, end});
    begin = end;
  }
}

ThreadTeam::ThreadTeam(int threads) : threads(threads) {
  activate();
  // Threads that OpenMP makes later inherit the mode of the rank's thread.
  parallel(threads, [](int thread) {
    if (thread != 0)
      flushDenormals();
  });
}

void ThreadTeam::activate() const {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

void ThreadTeam::forEach(int64_t count,
                         const std::function<void(int64_t chunk, int thread)> &work) const {
  if (threads == 1 || count <= 1) {
    for (int64_t chunk = 0; chunk < count; ++chunk)
      work(chunk, 0);
    return;
  }
  Parts parts(count, threads);
  parallel(threads, [&](int thread) {
    flushDenormals();
    parts.work(thread, [&](int64_t chunk) { work(chunk, thread); });
  });
}

void ThreadTeam::launch(plan::KernelFunction kernel, const std::vector<Chunk> &chunks,
                        std::byte *scratch, size_t scratchStride) const {
  forEach(int64_t(chunks.size()), [&](int64_t i, int thread) {
    const Chunk &chunk = chunks[size_t(i)];
    kernel(chunk.args, scratch + size_t(thread) * scratchStride, chunk.begin, chunk.end);
  });
}

namespace {
constexpr uint64_t moveBytes = 256
                               << 10; ///< the piece of a fill or copy that a thread takes at a time
}

void ThreadTeam::zero(std::byte *to, uint64_t bytes) const {
  forEach(int64_t((bytes + moveBytes - 1) / moveBytes), [&](int64_t i, int) {
    uint64_t begin = uint64_t(i) * moveBytes;
    std::memset(to + begin, 0, std::min(moveBytes, bytes - begin));
  });
}

void ThreadTeam::copy(std::byte *to, const std::byte *from, uint64_t bytes) const {
  forEach(int64_t((bytes + moveBytes - 1) / moveBytes), [&](int64_t i, int) {
    uint64_t begin = uint64_t(i) * moveBytes;
    std::memcpy(to + begin, from + begin, std::min(moveBytes, bytes - begin));
  });
}

} // namespace nano::cpu
