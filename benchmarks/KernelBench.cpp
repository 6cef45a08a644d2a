// Generated kernels on one core: bytes that must move a second, as a ratio to memcpy of as many
// bytes in the same run.
#include "tests/codegen/TaskRunner.h"

#include "benchmark/benchmark.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cstring>
#include <ctime>

using namespace nano;
using namespace nano::test;

namespace {

/// x·rsqrt(mean(x²) + ε) of [4096, 768] bf16.
const char *rmsnorm = R"(
step.program @p {
  %x = step.buffer "x" : memref<4096x768xbf16>
  %y = step.buffer "y" : memref<4096x768xbf16>
  step.task ins(%x) outs(%y) : (memref<4096x768xbf16>) -> memref<4096x768xbf16> {
  ^bb0(%a: tensor<4096x768xbf16>):
    %f = nano.cast %a : tensor<4096x768xbf16> -> tensor<4096x768xf32>
    %q = nano.mul %f, %f : tensor<4096x768xf32>
    %s = nano.reduce sum %q dims [1] : tensor<4096x768xf32> -> tensor<4096xf32>
    %n = nano.constant 0.0013020833333333333 : tensor<4096xf32>
    %m = nano.mul %s, %n : tensor<4096xf32>
    %eps = nano.constant 0.0078125 : tensor<4096xf32>
    %e = nano.add %m, %eps : tensor<4096xf32>
    %r = nano.rsqrt %e : tensor<4096xf32>
    %b = nano.broadcast %r dims [0] : tensor<4096xf32> -> tensor<4096x768xf32>
    %p = nano.mul %f, %b : tensor<4096x768xf32>
    %c = nano.cast %p : tensor<4096x768xf32> -> tensor<4096x768xbf16>
    nano.yield %c : tensor<4096x768xbf16>
  }
})";

/// max(x, 0)² of [4096, 3072] bf16.
const char *reluSquared = R"(
step.program @p {
  %x = step.buffer "x" : memref<4096x3072xbf16>
  %y = step.buffer "y" : memref<4096x3072xbf16>
  step.task ins(%x) outs(%y) : (memref<4096x3072xbf16>) -> memref<4096x3072xbf16> {
  ^bb0(%a: tensor<4096x3072xbf16>):
    %z = nano.constant 0.0 : tensor<4096x3072xbf16>
    %r = nano.max %a, %z : tensor<4096x3072xbf16>
    %c = nano.mul %r, %r : tensor<4096x3072xbf16>
    nano.yield %c : tensor<4096x3072xbf16>
  }
})";

/// bf16 [4096, 3072] to e4m3 under one scale.
const char *quantize = R"(
step.program @p {
  %x = step.buffer "x" : memref<4096x3072xbf16>
  %s = step.buffer "s" : memref<f32>
  %q = step.buffer "q" : memref<4096x3072xf8E4M3FN>
  step.task ins(%x, %s) outs(%q) : (memref<4096x3072xbf16>, memref<f32>) -> memref<4096x3072xf8E4M3FN> {
  ^bb0(%a: tensor<4096x3072xbf16>, %scale: tensor<f32>):
    %one = nano.constant 1.0 : tensor<f32>
    %i = nano.div %one, %scale : tensor<f32>
    %b = nano.broadcast %i dims [] : tensor<f32> -> tensor<4096x3072xf32>
    %f = nano.cast %a : tensor<4096x3072xbf16> -> tensor<4096x3072xf32>
    %p = nano.mul %f, %b : tensor<4096x3072xf32>
    %c = nano.cast %p : tensor<4096x3072xf32> -> tensor<4096x3072xf8E4M3FN>
    nano.yield %c : tensor<4096x3072xf8E4M3FN>
  }
})";

/// max |x| of rows of [4096, 3072] bf16.
const char *amax = R"(
step.program @p {
  %x = step.buffer "x" : memref<4096x3072xbf16>
  %y = step.buffer "y" : memref<4096xbf16>
  step.task ins(%x) outs(%y) : (memref<4096x3072xbf16>) -> memref<4096xbf16> {
  ^bb0(%a: tensor<4096x3072xbf16>):
    %m = nano.abs %a : tensor<4096x3072xbf16>
    %r = nano.reduce max %m dims [1] : tensor<4096x3072xbf16> -> tensor<4096xbf16>
    nano.yield %r : tensor<4096xbf16>
  }
})";

/// Adam's update in place of 4 Mi parameters in f32.
const char *adam = R"(
step.program @p {
  %g = step.buffer "g" : memref<4194304xf32>
  %p = step.buffer "p" : memref<4194304xf32>
  %m = step.buffer "m" : memref<4194304xf32>
  %v = step.buffer "v" : memref<4194304xf32>
  %c1 = step.buffer "c1" : memref<f32>
  %c2 = step.buffer "c2" : memref<f32>
  %lr = step.buffer "lr" : memref<f32>
  step.task ins(%g, %p, %m, %v, %c1, %c2, %lr) outs(%m, %v, %p) : (memref<4194304xf32>, memref<4194304xf32>, memref<4194304xf32>, memref<4194304xf32>,
      memref<f32>, memref<f32>, memref<f32>) -> (memref<4194304xf32>, memref<4194304xf32>, memref<4194304xf32>) {
  ^bb0(%ga: tensor<4194304xf32>, %pa: tensor<4194304xf32>, %ma: tensor<4194304xf32>, %va: tensor<4194304xf32>, %k1: tensor<f32>, %k2: tensor<f32>,
       %rate: tensor<f32>):
    %b1 = nano.constant 0.8 : tensor<4194304xf32>
    %d1 = nano.constant 0.2 : tensor<4194304xf32>
    %b2 = nano.constant 0.95 : tensor<4194304xf32>
    %d2 = nano.constant 0.05 : tensor<4194304xf32>
    %eps = nano.constant 1.0e-10 : tensor<4194304xf32>
    %m0 = nano.mul %ma, %b1 : tensor<4194304xf32>
    %m1 = nano.mul %ga, %d1 : tensor<4194304xf32>
    %m2 = nano.add %m0, %m1 : tensor<4194304xf32>
    %gg = nano.mul %ga, %ga : tensor<4194304xf32>
    %v0 = nano.mul %va, %b2 : tensor<4194304xf32>
    %v1 = nano.mul %gg, %d2 : tensor<4194304xf32>
    %v2 = nano.add %v0, %v1 : tensor<4194304xf32>
    %k1b = nano.broadcast %k1 dims [] : tensor<f32> -> tensor<4194304xf32>
    %k2b = nano.broadcast %k2 dims [] : tensor<f32> -> tensor<4194304xf32>
    %rb = nano.broadcast %rate dims [] : tensor<f32> -> tensor<4194304xf32>
    %mh = nano.mul %m2, %k1b : tensor<4194304xf32>
    %root = nano.sqrt %v2 : tensor<4194304xf32>
    %vh = nano.mul %root, %k2b : tensor<4194304xf32>
    %den = nano.add %vh, %eps : tensor<4194304xf32>
    %u = nano.div %mh, %den : tensor<4194304xf32>
    %step = nano.mul %u, %rb : tensor<4194304xf32>
    %new = nano.sub %pa, %step : tensor<4194304xf32>
    nano.yield %m2, %v2, %new : tensor<4194304xf32>, tensor<4194304xf32>, tensor<4194304xf32>
  }
})";

/// Soft-capped cross-entropy and its gradient in place of [512, 50304] bf16 logits; without the
/// cap, `x` is the logit itself.
std::string crossEntropy(bool softCap) {
  std::string cap = softCap
                        ? R"(
    %k = nano.constant 207.84609690826525 : $F
    %d = nano.div %f, %k : $F
    %sg = nano.sigmoid %d : $F
    %thirty = nano.constant 30.0 : $F
    %x = nano.mul %sg, %thirty : $F)"
                        : "\n    %one1 = nano.constant 1.0 : $F\n    %x = nano.mul %f, %one1 : $F";
  std::string capGrad = softCap ? R"(
    %g1 = nano.mul %g0, %thirty : $F
    %g2 = nano.sub %one, %sg : $F
    %g3 = nano.mul %g1, %sg : $F
    %g4 = nano.mul %g3, %g2 : $F
    %gx = nano.div %g4, %k : $F)"
                                : "";
  // What nano-fuse makes of the loss: the cap is a bound, and the exponentials are reused; without
  // one an online log-sum-exp.
  std::string softmax = softCap ? R"(
    %m = nano.constant 30.0 : tensor<512xf32>
    %sh = nano.sub %x, %thirty : $F
    %e = nano.exp %sh : $F
    %sum = nano.reduce sum %e dims [1] : $F -> tensor<512xf32>
    %log = nano.log %sum : tensor<512xf32>
    %lse = nano.add %m, %log : tensor<512xf32>
    %rows = nano.constant 1.0 : tensor<512xf32>
    %inverse = nano.div %rows, %sum : tensor<512xf32>
    %ib = nano.broadcast %inverse dims [0] : tensor<512xf32> -> $F
    %p = nano.mul %e, %ib : $F)"
                                : R"(
    %lse = nano.reduce logsumexp %x dims [1] : $F -> tensor<512xf32>
    %lb = nano.broadcast %lse dims [0] : tensor<512xf32> -> $F
    %sh = nano.sub %x, %lb : $F
    %p = nano.exp %sh : $F)";
  std::string text = R"(
step.program @p {
  %z = step.buffer "z" : memref<512x50304xbf16>
  %t = step.buffer "t" : memref<512xi32>
  %l = step.buffer "l" : memref<512xf32>
  step.task ins(%z, %t) outs(%l, %z) : (memref<512x50304xbf16>, memref<512xi32>) -> (memref<512xf32>, memref<512x50304xbf16>) {
  ^bb0(%a: tensor<512x50304xbf16>, %target: tensor<512xi32>):
    %one = nano.constant 1.0 : $F
    %minus = nano.constant -1.0 : $F
    %zero = nano.constant 0.0 : $F
    %f = nano.cast %a : tensor<512x50304xbf16> -> $F)" +
                     cap + softmax + R"(
    %i = nano.iota 1 : tensor<512x50304xi32>
    %tb = nano.broadcast %target dims [0] : tensor<512xi32> -> tensor<512x50304xi32>
    %pick = nano.select eq, %i, %tb, %x, %zero : tensor<512x50304xi32>, $F
    %own = nano.reduce sum %pick dims [1] : $F -> tensor<512xf32>
    %loss = nano.sub %lse, %own : tensor<512xf32>
    %p1 = nano.add %p, %minus : $F
    %g0 = nano.select eq, %i, %tb, %p1, %p : tensor<512x50304xi32>, $F)" +
                     capGrad + R"(
    %c = nano.cast )" +
                     (softCap ? "%gx" : "%g0") +
                     R"( : $F -> tensor<512x50304xbf16>
    nano.yield %loss, %c : tensor<512xf32>, tensor<512x50304xbf16>
  }
})";
  for (size_t at = 0; (at = text.find("$F", at)) != std::string::npos;)
    text.replace(at, 2, "tensor<512x50304xf32>");
  return text;
}

/// Processor time of this thread, in seconds: what the kernel itself takes, whatever else runs.
double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds that memcpy takes for `bytes`, read and written together; the best of several.
double copySeconds(size_t bytes) {
  std::vector<char> from(bytes / 2, 1), to(bytes / 2, 2);
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    double start = processorSeconds();
    std::memcpy(to.data(), from.data(), to.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
    best = std::min(best, processorSeconds() - start);
  }
  return best;
}

/// Runs the task's kernel; `bytes` are those of all operands, once each way.
void run(benchmark::State &state, const std::string &text, size_t bytes) {
  auto runner = TaskRunner::make(text, emitRow, TaskRunner::lanes().back());
  if (!runner) {
    state.SkipWithError("the kernel does not compile");
    return;
  }
  std::mt19937_64 random(1);
  for (unsigned i = 0; i < runner->taskOp().getIns().size(); ++i)
    runner->setInput(i, TensorValue::filled(runner->inputType(i), 0.5));
  double best = 1e9;
  for (auto _ : state) {
    double start = processorSeconds();
    runner->runTimed(runner->iterations());
    best = std::min(best, processorSeconds() - start);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / best * 1e-9;
  state.counters["of_memcpy"] = copySeconds(bytes) / best;
}

BENCHMARK_CAPTURE(run, rmsnorm, rmsnorm, 2 * 4096 * 768 * 2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, relu_squared, reluSquared, 2 * 4096 * 3072 * 2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, quantize, quantize, 3 * 4096 * 3072)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, amax, amax, 2 * 4096 * 3072)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, adam, adam, 7 * (size_t(4) << 22))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, cross_entropy, crossEntropy(false), 2 * 512 * 50304 * 2)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, softcap_cross_entropy, crossEntropy(true), 2 * 512 * 50304 * 2)
    ->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
