// What programs that test and time the device library on a GPU share: data, differences from a
// reference, times by events.
#pragma once

#include "codegen/device/nano_primitives.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

/// Ends the program with the call and its error when it fails.
#define CHECK(CALL)                                                                                \
  do {                                                                                             \
    const cudaError_t status = (CALL);                                                             \
    if (status != cudaSuccess) {                                                                   \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #CALL, cudaGetErrorString(status));       \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

namespace nano::bench {

template <class T> T *allocate(size_t count) {
  T *pointer = nullptr;
  CHECK(cudaMalloc(&pointer, count * sizeof(T)));
  return pointer;
}

/// Values of about normal distribution: sums of four uniform ones from a hash of place and seed.
template <class T> __global__ void fill(T *x, long long count, unsigned seed, float deviation) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    unsigned long long h = (i + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ h >> 31) * 0x94d049bb133111ebULL;
    h ^= h >> 29;
    float sum = 0;
    for (int j = 0; j < 4; ++j)
      sum += float(h >> 16 * j & 0xffff) / 65536.0f - 0.5f;
    x[i] = T(sum * 1.7320508f * deviation);
  }
}

/// The f32 of those bits.
inline float bitsAsFloat(uint32_t bits) {
  float value;
  std::copy_n(reinterpret_cast<const char *>(&bits), 4, reinterpret_cast<char *>(&value));
  return value;
}
/// The value of a bf16's bits.
inline float decode(uint16_t bits) { return bitsAsFloat(uint32_t(bits) << 16); }

/// Whether every comparison so far was within its tolerance.
inline bool allRight = true;

/// Differences of rows: that of norms, and the largest one of an element, relative to the root mean
/// square of its row or, if that is larger, of all rows.
struct Difference {
  double squares = 0, reference = 0;
  long long count = 0;
  std::vector<std::pair<double, double>> rows; ///< largest difference, mean square
  void add(const std::vector<double> &actual, const double *expected) {
    double largest = 0, row = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      const double d = std::abs(actual[i] - expected[i]);
      squares += d * d;
      row += expected[i] * expected[i];
      largest = std::isnan(d) ? INFINITY : std::max(largest, d);
    }
    reference += row;
    count += (long long)actual.size();
    rows.emplace_back(largest, row / double(actual.size()));
  }
  double norm() const { return std::sqrt(squares / reference); }
  double worst() const {
    double result = 0;
    for (auto [largest, square] : rows)
      result = std::max(result, largest / std::sqrt(std::max(square, reference / double(count))));
    return result;
  }
};

/// Weights, gradients of scores and results are rounded to bf16 (2⁻⁹ relative, each independent):
/// norms agree within 0.6 %, elements within 4 % (some standard deviations of sums, and the
/// rounding of elements of several times the root mean square).
inline void judge(const char *what, const Difference &d, double normTolerance = 6e-3,
                  double worstTolerance = 4e-2) {
  const bool right = d.norm() <= normTolerance && d.worst() <= worstTolerance;
  allRight &= right;
  std::printf("  %-4s norm %.1e worst %.1e%s", what, d.norm(), d.worst(), right ? "" : "  WRONG");
}

/// Keeps the GPU busy for so many of its cycles.
static __global__ void wait(long long cycles) {
  for (const long long begin = clock64(); clock64() - begin < cycles;) {
  }
}

/// The median of 20 runs after 3. A run is launched while the GPU is busy with something else: what
/// the host takes to launch it is no part of the time, of which it would be half where a kernel
/// takes some microseconds.
inline double medianSeconds(const std::function<void()> &work) {
  std::vector<float> times;
  cudaEvent_t from, to;
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  for (int i = 0; i < 23; ++i) {
    wait<<<1, 1>>>(100'000); // 50 us
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(from));
    work();
    CHECK(cudaEventRecord(to));
    CHECK(cudaEventSynchronize(to));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, from, to));
    if (i >= 3)
      times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  CHECK(cudaEventDestroy(from));
  CHECK(cudaEventDestroy(to));
  return times[times.size() / 2] * 1e-3;
}

/// Seconds of a copy within the device that reads and writes so many bytes in all.
inline double copySeconds(size_t bytes) {
  auto *from = allocate<char>(bytes / 2), *to = allocate<char>(bytes / 2);
  CHECK(cudaMemset(from, 1, bytes / 2));
  const double seconds =
      medianSeconds([&] { CHECK(cudaMemcpyAsync(to, from, bytes / 2, cudaMemcpyDeviceToDevice)); });
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  return seconds;
}

/// Bytes per second of a copy of 1 GiB within the device, read and written.
inline double copyRate() {
  const size_t bytes = size_t(1) << 31;
  return double(bytes) / copySeconds(bytes);
}

/// Prints the device's name.
inline void describeDevice() {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
}

/// The last line and the exit status.
inline int conclude() {
  std::printf("\n%s\n", allRight ? "all right" : "SOMETHING IS WRONG");
  return allRight ? 0 : 1;
}

} // namespace nano::bench
