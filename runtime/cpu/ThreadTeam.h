// The threads of one rank, and how a launch is split over them.
//
// There is one pool: that of libgomp (GNU OpenMP), which oneDNN uses too. A second pool would spin
// while oneDNN works and the other way round; measured on two cores, that costs 20 to 900 µs for
// each change from one to the other, against 1 µs for an OpenMP region.
#pragma once

#include "runtime/plan/LoadedCode.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace nano::cpu {

/// Puts the calling thread into the device's floating-point mode until the end of the scope.
///
/// The mode flushes denormal numbers to zero, as operands and as results: optimizer states of rows
/// that no token touches decay through the denormal range and would stay there, at many times the
/// cost of normal arithmetic. The threads of a team are always in this mode, so results do not
/// depend on which thread computes what.
class FlushDenormals {
public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals &) = delete;
  FlushDenormals &operator=(const FlushDenormals &) = delete;

private:
  unsigned saved;
};

/// A part of a launch: iterations [begin, end) with the operands of one segment.
struct Chunk {
  void *const *args = nullptr;
  int64_t begin = 0, end = 0;
};

/// Cuts `iterations` of one segment into chunks of equal size and appends them: about `total` / (8
/// · threads) iterations each, so that threads can even out unequal chunks, but never fewer than
/// `grain`. `total`: the iterations of all segments of the launch.
void appendChunks(void *const *args, int64_t iterations, int64_t grain, int64_t total, int threads,
                  std::vector<Chunk> &chunks);

/// The threads. Used from the rank's own thread, which is one of them and is in a FlushDenormals
/// scope.
class ThreadTeam {
public:
  explicit ThreadTeam(int threads);

  int size() const { return threads; }
  /// Makes this team the one that OpenMP regions of the calling thread (oneDNN's among them) use.
  void activate() const;

  /// Runs `work(chunk, thread)` for every chunk in [0, count), each once, and returns when all are
  /// done. Each thread first takes its own contiguous part, in order, so that neighbouring kernels
  /// find their rows in its cache; then it helps others.
  void forEach(int64_t count, const std::function<void(int64_t chunk, int thread)> &work) const;

  /// Runs a kernel over chunks; thread t uses `scratch + t · scratchStride`.
  void launch(plan::KernelFunction kernel, const std::vector<Chunk> &chunks, std::byte *scratch,
              size_t scratchStride) const;

  /// memset(to, 0, bytes) and memcpy, by all threads.
  void zero(std::byte *to, uint64_t bytes) const;
  void copy(std::byte *to, const std::byte *from, uint64_t bytes) const;

private:
  int threads;
};

} // namespace nano::cpu
