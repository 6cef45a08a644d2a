// Attention kernels on one core: GFLOP/s forward and backward, beside the rate of fused
// multiply-adds measured in the same run. Flops are those of visible (query, key) pairs: 4·Dh
// forward, 14·Dh backward (10·Dh would do with one pass, see AttentionGradKernel.cpp).
#include "benchmarks/Help.h"
#include "tests/codegen/AttentionTasks.h"
#include "tests/codegen/TaskRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <immintrin.h>

using namespace nano;
using namespace nano::test;

namespace {

/// Processor seconds of this thread: other programs on the machine count little.
double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The shortest of several runs.
double secondsOf(const std::function<void()> &work, int runs = 5) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    double start = processorSeconds();
    work();
    best = std::min(best, processorSeconds() - start);
  }
  return best;
}

constexpr int64_t peakRounds = 4'000'000;
volatile float sink;

/// Independent chains of fused multiply-adds, enough to hide their latency; flops.
__attribute__((target("avx512f"))) double peakWork512() {
  __m512 sums[12], x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(1e-3F);
  for (__m512 &sum : sums)
    sum = x;
  for (int64_t i = 0; i < peakRounds; ++i)
#pragma GCC unroll 12
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, x, y);
  for (__m512 &sum : sums)
    sink = _mm512_cvtss_f32(sum);
  return 2.0 * 16 * 12 * peakRounds;
}

__attribute__((target("avx2,fma"))) double peakWork256() {
  __m256 sums[12], x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(1e-3F);
  for (__m256 &sum : sums)
    sum = x;
  for (int64_t i = 0; i < peakRounds; ++i)
#pragma GCC unroll 12
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, x, y);
  for (__m256 &sum : sums)
    sink = _mm256_cvtss_f32(sum);
  return 2.0 * 8 * 12 * peakRounds;
}

struct Case {
  const char *name;
  AttentionShape shape;
  int64_t window; ///< in blocks of 128 keys
  double endOfDocument;
};

void measure(const Case &c, int64_t lanes, double peak) {
  std::mt19937_64 random(1);
  KeyRanges ranges = keyRanges(c.shape.tokens, true, c.window, 128, c.endOfDocument, random);
  double pairs = 0;
  for (int64_t t = 0; t < c.shape.tokens; ++t)
    pairs += ranges.last.data[t] - ranges.first.data[t] + 1;
  pairs *= static_cast<double>(c.shape.heads);
  auto forward = TaskRunner::make(attentionText(c.shape), kernels::emitAttentionKernel, lanes);
  auto backward =
      TaskRunner::make(attentionGradText(c.shape), kernels::emitAttentionGradKernel, lanes);
  for (TaskRunner *runner : {forward.get(), backward.get()}) {
    for (unsigned i : {0, 1, 2})
      runner->setInput(i, TensorValue::normal(runner->inputType(i), random));
    runner->setInput(3, ranges.first);
    runner->setInput(4, ranges.last);
  }
  forward->run();
  backward->setInput(5, forward->output(1));
  backward->setInput(6, TensorValue::normal(backward->inputType(6), random));
  backward->setInput(7, TensorValue::normal(backward->inputType(7), random));
  backward->run();
  auto rate = [&](TaskRunner &runner, double flopsPerPairAndColumn) {
    double seconds = secondsOf([&] { runner.runTimed(1); });
    return flopsPerPairAndColumn * pairs * static_cast<double>(c.shape.size) / seconds / 1e9;
  };
  double f = rate(*forward, 4), b = rate(*backward, 14);
  llvm::outs() << llvm::formatv("{0,-34} {1,-5} forward {2,7:F1} GFLOP/s ({3,4:P0} of peak)   "
                                "backward {4,7:F1} GFLOP/s ({5,4:P0})\n",
                                c.name, c.shape.element, f, f / peak, b, b / peak);
  llvm::outs().flush();
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "AttentionBench: the attention kernels of the CPU target on one core, forward and\n"
          "backward: GFLOP/s, and their part of the rate of fused multiply-adds measured in\n"
          "the same run. Takes no options."))
    return *status;
  for (int64_t lanes : TaskRunner::lanes()) {
    double flops = 0;
    double seconds = secondsOf([&] { flops = lanes == 16 ? peakWork512() : peakWork256(); });
    double peak = flops / seconds / 1e9;
    llvm::outs() << llvm::formatv(
        "{0} lanes: fused multiply-adds reach {1:F1} GFLOP/s on one core\n", lanes, peak);
    AttentionShape shape;
    shape.heads = 1;
    shape.tokens = 4096;
    shape.size = 128;
    measure({"T 4096, Dh 128, causal", shape, 1 << 20, 0}, lanes, peak);
    shape.packed = true;
    measure({"the same, views of packed q, k, v", shape, 1 << 20, 0}, lanes, peak);
    shape.element = "bf16";
    measure({"the same", shape, 1 << 20, 0}, lanes, peak);
    shape.element = "f32";
    measure({"window of 512 to 640, documents", shape, 5, 1.0 / 600}, lanes, peak);
    shape.size = 64;
    measure({"T 4096, Dh 64, causal", shape, 1 << 20, 0}, lanes, peak);
    shape.size = 32;
    shape.tokens = 512;
    measure({"T 512, Dh 32, causal", shape, 1 << 20, 0}, lanes, peak);
  }
  return 0;
}
