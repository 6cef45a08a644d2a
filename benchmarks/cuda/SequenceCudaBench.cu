// The templates of recurrences and of products along a band on a GPU, at 49,152 tokens of 768:
// some of the results against double precision, their bits again, and times against the floor: a
// device copy of as many bytes as the op reads and writes, or its operations at the rate of the
// units that take them, whichever takes longer.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/device/nano_band.h"
#include "codegen/device/nano_recurrence.h"

#include <cstring>
#include <string>

namespace {
using namespace nano::bench;

/// Multiply-adds of f32, and products of bf16 on tensor cores: two operations each, 128 and 2,048
/// of them a clock of a multiprocessor, at its highest clock.
double plainPerSecond = 0, matrixPerSecond = 0;

void findRates() {
  int multiprocessors = 0, kilohertz = 0;
  CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0));
  const double clocks = 1e3 * kilohertz * multiprocessors;
  plainPerSecond = 2 * 128 * clocks;
  matrixPerSecond = 2 * 2048 * clocks;
  std::printf("device copy: %.0f GB/s read and written; by the clock %.1f TFLOP/s of f32, %.0f of "
              "bf16 on tensor cores\n",
              copyRate() / 1e9, plainPerSecond / 1e12, matrixPerSecond / 1e12);
}

template <class T> std::vector<T> download(const T *from, size_t count) {
  std::vector<T> host(count);
  CHECK(cudaMemcpy(host.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}
double valueOf(float x) { return x; }
double valueOf(nano::bf16 x) { return decode(x.bits); }

void report(const char *name, double seconds, double bytes, double ofOperations,
            const cudaFuncAttributes &attributes, double worst, double tolerance, bool isSame) {
  const double ofBytes = copySeconds(size_t(bytes)), floor = std::max(ofBytes, ofOperations);
  const bool right = worst <= tolerance && isSame;
  allRight &= right;
  std::printf("%-34s %7.1f us, floor %6.1f (%s), share %.2f  %3d registers %3zu local  apart "
              "%.1e%s%s\n",
              name, seconds * 1e6, floor * 1e6, ofBytes < ofOperations ? "operations" : "bytes",
              floor / seconds, attributes.numRegs, attributes.localSizeBytes, worst,
              isSame ? "" : "  OTHER BITS", right ? "" : "  WRONG");
}

template <class Shape>
__global__ void __launch_bounds__(Shape::plan.threads, Shape::plan.residentBlocks)
    recurrenceKernel(const typename Shape::Element *a, const typename Shape::Element *b,
                     typename Shape::Element *h) {
  constexpr long long row = Shape::channels, sequence = row * Shape::length;
  nano::RecurrenceOperands<Shape> x;
  x.a = {a, sequence, row, 1};
  x.b = {b, sequence, row, 1};
  x.h[0] = {h, sequence, row, 1};
  nano::recurrence<Shape>(blockIdx.x, x);
}

/// Factors between 0 and 1.
template <class T> __global__ void squash(T *x, long long count) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL)
    x[i] = T(1.0f / (1.0f + nano::exp(-2.0f * float(x[i]) - 1.0f)));
}

template <class T, int N, int Length, int C, bool Factor, bool Term, bool Reverse, bool Adjoint>
struct Recurrence {
  using Element = T;
  static constexpr int sequences = N, length = Length, channels = C;
  static constexpr int across = C == 1 ? Length : C;
  static constexpr int most = 16 / int(sizeof(T));
  static constexpr int vector = across % most == 0 ? most : 1, multiprocessors = 132;
  static constexpr bool hasFactor = Factor, hasTerm = Term, reverse = Reverse, adjoint = Adjoint;
  static constexpr float initial = Term ? 0.0f : 1.0f;
  static constexpr nano::RecurrenceShape shape = {
      N, Length, C, vector, int(sizeof(T)), int(Factor) + int(Term), multiprocessors};
  static constexpr nano::RecurrencePlan plan = nano::recurrencePlan(shape);
};

template <class S> void recurrence(const char *name) {
  using T = typename S::Element;
  constexpr size_t count = size_t(S::sequences) * S::length * S::channels;
  T *a = allocate<T>(count), *b = allocate<T>(count), *h = allocate<T>(count);
  fill<<<1024, 256>>>(a, count, 1, 1);
  squash<<<1024, 256>>>(a, count);
  fill<<<1024, 256>>>(b, count, 2, 1);
  CHECK(cudaMemset(h, 0xff, count * sizeof(T)));
  constexpr auto launch = nano::recurrenceLaunch(nano::sequence::shapeOf<S>);
  constexpr auto plan = nano::recurrencePlan(nano::sequence::shapeOf<S>);
  auto *kernel = recurrenceKernel<S>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             launch.sharedBytes));
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(plan.cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = unsigned(launch.iterations);
  config.blockDim = unsigned(launch.threads);
  config.dynamicSmemBytes = size_t(launch.sharedBytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  auto run = [&] { CHECK(cudaLaunchKernelEx(&config, kernel, (const T *)a, (const T *)b, h)); };
  run();
  CHECK(cudaDeviceSynchronize());
  const std::vector<T> first = download(h, count), factors = download(a, count),
                       terms = download(b, count);
  const double seconds = medianSeconds(run);
  const std::vector<T> again = download(h, count);
  const bool isSame = std::memcmp(first.data(), again.data(), count * sizeof(T)) == 0;
  // Some sequences and channels in double precision.
  double worst = 0;
  const bool fromEnd = S::reverse != S::adjoint;
  for (size_t n = 0; n < S::sequences; n += std::max(1, S::sequences / 7))
    for (size_t c = 0; c < S::channels; c += std::max(1, S::channels / 11)) {
      double state = S::initial, before = 1;
      for (size_t i = 0; i < S::length; ++i) {
        const size_t t = fromEnd ? S::length - 1 - i : i,
                     at = (n * S::length + t) * S::channels + c;
        const double factor = S::hasFactor ? valueOf(factors[at]) : 1;
        state = (S::adjoint ? before : factor) * state + (S::hasTerm ? valueOf(terms[at]) : 0);
        before = factor;
        const double d = std::abs(valueOf(first[at]) - state) / (1 + std::abs(state));
        worst = std::isnan(d) ? INFINITY : std::max(worst, d);
      }
    }
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  report(name, seconds, double((1 + S::hasFactor + S::hasTerm) * count * sizeof(T)),
         2.0 * count / plainPerSecond, attributes, worst,
         sizeof(T) == 2 ? 5e-3
         : S::hasFactor ? 1e-5
                        : 2e-3,
         isSame);
  for (T *buffer : {a, b, h})
    CHECK(cudaFree(buffer));
}

template <class T> void recurrences(const std::string &type) {
  auto named = [&](const char *name) { return type + " " + name; };
  recurrence<Recurrence<T, 1, 49152, 768, true, true, false, false>>(named("tokens").c_str());
  recurrence<Recurrence<T, 1, 49152, 768, true, true, false, true>>(
      named("tokens, adjoint").c_str());
  recurrence<Recurrence<T, 1, 49152, 768, false, true, false, false>>(
      named("tokens, sums").c_str());
  recurrence<Recurrence<T, 48, 1024, 768, true, true, true, false>>(
      named("48 x 1024 tokens").c_str());
  recurrence<Recurrence<T, 1, 49152, 767, true, true, false, false>>(
      named("tokens of 767").c_str());
  recurrence<Recurrence<T, 49152, 768, 1, true, true, false, false>>(named("columns").c_str());
  recurrence<Recurrence<T, 49152, 768, 1, true, true, false, true>>(
      named("columns, adjoint").c_str());
  recurrence<Recurrence<T, 49152, 768, 1, false, true, true, false>>(
      named("columns, sums").c_str());
  recurrence<Recurrence<T, 49152, 768, 1, true, false, false, false>>(
      named("columns, products").c_str());
  recurrence<Recurrence<T, 49152, 767, 1, true, true, false, false>>(named("767 columns").c_str());
  recurrence<Recurrence<T, 6, 1 << 20, 1, true, true, false, false>>(
      named("6 of a million").c_str());
}

enum class BandOp { Scores, Product, Transposed };

template <class F, class G, class R, int D, int W, BandOp Op, bool Matrices> struct Band {
  using First = F;
  using Second = G;
  using Result = R;
  static constexpr int tokens = 49152, heads = 768 / D, size = D, width = W, multiprocessors = 132;
  static constexpr bool transpose = Op == BandOp::Transposed, onMatrices = Matrices;
  static constexpr BandOp op = Op;
  static constexpr nano::BandShape shape = {tokens,    heads,          size,
                                            width,     Matrices,       int(sizeof(F)),
                                            transpose, int(sizeof(G)), multiprocessors};
  static constexpr int residentBlocks =
      Matrices ? nano::bandResidentBlocks(shape, Op == BandOp::Scores) : 0;
  static constexpr auto launch =
      Op == BandOp::Scores ? nano::bandScoresLaunch(shape) : nano::bandProductLaunch(shape);
};

template <class S>
__global__ void __launch_bounds__(S::launch.threads, S::residentBlocks)
    bandKernel(const typename S::First *first, const typename S::Second *second,
               typename S::Result *y) {
  constexpr bool isScores = S::op == BandOp::Scores;
  constexpr long long rows = S::size, band = S::width;
  constexpr long long ofFirst = isScores ? rows : band, ofResult = isScores ? band : rows;
  nano::BandOperands<S> x;
  x.first = {first, S::heads * ofFirst, ofFirst, 1};
  x.second = {second, S::heads * rows, rows, 1};
  x.y[0] = {y, S::heads * ofResult, ofResult, 1};
  if constexpr (isScores)
    nano::bandScores<S>(blockIdx.x, x);
  else
    nano::bandProduct<S>(blockIdx.x, x);
}

template <class S> void band(const char *name) {
  constexpr bool isScores = S::op == BandOp::Scores;
  constexpr size_t T = S::tokens, H = S::heads, D = S::size, W = S::width;
  constexpr size_t firsts = T * H * (isScores ? D : W), seconds = T * H * D,
                   results = T * H * (isScores ? W : D);
  auto *first = allocate<typename S::First>(firsts);
  auto *second = allocate<typename S::Second>(seconds);
  auto *y = allocate<typename S::Result>(results);
  fill<<<1024, 256>>>(first, firsts, 1, 1);
  fill<<<1024, 256>>>(second, seconds, 2, 1);
  CHECK(cudaMemset(y, 0xff, results * sizeof *y));
  auto *kernel = bandKernel<S>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::launch.sharedBytes));
  auto run = [&] {
    kernel<<<unsigned(S::launch.iterations), S::launch.threads, S::launch.sharedBytes>>>(first,
                                                                                         second, y);
    CHECK(cudaGetLastError());
  };
  run();
  CHECK(cudaDeviceSynchronize());
  const auto before = download(y, results);
  const double time = medianSeconds(run);
  const auto again = download(y, results);
  const bool isSame = std::memcmp(before.data(), again.data(), results * sizeof *y) == 0;
  const auto a = download(first, firsts);
  const auto b = download(second, seconds);
  // Some tokens in double precision, among them the first and the last.
  double worst = 0;
  auto check = [&](size_t at, double expected) {
    const double d = std::abs(valueOf(before[at]) - expected) / (1 + std::abs(expected));
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
  };
  for (size_t i = 0; i < 400; ++i) {
    const size_t t = i < 150 ? i : i < 300 ? T - 1 - (i - 150) : (i * 7919) % T, h = i % H;
    for (size_t w = 0; isScores && w < W; ++w) {
      double sum = 0;
      for (size_t d = 0; t + w + 1 >= W && d < D; ++d)
        sum += valueOf(a[(t * H + h) * D + d]) * valueOf(b[((t + w + 1 - W) * H + h) * D + d]);
      check((t * H + h) * W + w, sum);
    }
    for (size_t d = 0; !isScores && d < D; ++d) {
      double sum = 0;
      for (size_t w = 0; w < W; ++w) {
        const long long other = (long long)t + (S::transpose ? (long long)(W - 1 - w)
                                                             : (long long)(w + 1) - (long long)W);
        if (other < 0 || other >= (long long)T)
          continue;
        const size_t o = size_t(other);
        sum +=
            valueOf(a[((S::transpose ? o : t) * H + h) * W + w]) * valueOf(b[(o * H + h) * D + d]);
      }
      check((t * H + h) * D + d, sum);
    }
  }
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  report(name, time,
         double(firsts * sizeof *first + seconds * sizeof *second + results * sizeof *y),
         2.0 * T * H * W * D *
             (S::onMatrices ? nano::bandProductsOfOne(S::shape, sizeof *y) / matrixPerSecond
                            : 1 / plainPerSecond),
         attributes, worst, sizeof *y == 2 ? 4e-3 : 1e-5, isSame);
  CHECK(cudaFree(first));
  CHECK(cudaFree(second));
  CHECK(cudaFree(y));
}

void bands() {
  using nano::bf16;
  band<Band<bf16, bf16, float, 128, 112, BandOp::Scores, true>>("bf16 scores");
  band<Band<bf16, bf16, float, 128, 112, BandOp::Scores, false>>("bf16 scores, plain");
  band<Band<float, float, float, 128, 112, BandOp::Scores, true>>("f32 scores");
  band<Band<float, float, float, 128, 112, BandOp::Scores, false>>("f32 scores, plain");
  band<Band<float, bf16, bf16, 128, 112, BandOp::Product, true>>("f32 x bf16 product");
  band<Band<float, bf16, bf16, 128, 112, BandOp::Product, false>>("f32 x bf16 product, plain");
  band<Band<float, bf16, bf16, 128, 112, BandOp::Transposed, true>>("f32 x bf16 transposed");
  band<Band<bf16, bf16, bf16, 128, 112, BandOp::Product, true>>("bf16 product");
  band<Band<bf16, bf16, bf16, 128, 112, BandOp::Transposed, true>>("bf16 transposed");
  band<Band<float, float, float, 128, 112, BandOp::Product, true>>("f32 product");
  band<Band<float, float, float, 128, 112, BandOp::Transposed, true>>("f32 transposed");
  band<Band<float, float, float, 128, 112, BandOp::Product, false>>("f32 product, plain");
  band<Band<float, float, float, 128, 128, BandOp::Scores, true>>("f32 scores, W 128");
  band<Band<float, float, float, 128, 128, BandOp::Product, true>>("f32 product, W 128");
  band<Band<float, float, float, 128, 128, BandOp::Transposed, true>>("f32 transposed, W 128");
  band<Band<float, float, float, 96, 33, BandOp::Scores, true>>("f32 scores, W 33");
  band<Band<float, float, float, 96, 33, BandOp::Product, true>>("f32 product, W 33");
  band<Band<float, float, float, 96, 33, BandOp::Transposed, true>>("f32 transposed, W 33");
  band<Band<float, float, float, 64, 64, BandOp::Scores, true>>("f32 scores of 64, W 64");
  band<Band<float, float, float, 64, 64, BandOp::Product, true>>("f32 product of 64, W 64");
  band<Band<float, float, float, 256, 112, BandOp::Scores, true>>("f32 scores of 256");
  band<Band<float, float, float, 24, 300, BandOp::Scores, true>>("f32 scores of 24, W 300");
  band<Band<float, bf16, float, 128, 112, BandOp::Product, true>>("f32 x bf16 product to f32");
  band<Band<float, bf16, float, 96, 33, BandOp::Product, true>>("f32 x bf16 product, W 33");
  band<Band<bf16, bf16, bf16, 96, 33, BandOp::Product, true>>("bf16 product, W 33");
  band<Band<bf16, bf16, float, 24, 300, BandOp::Scores, true>>("bf16 scores of 24, W 300");
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "SequenceCudaBench: recurrences and products along a band on GPU 0 against sums in\n"
          "doubles, and their times against a device copy of as many bytes or against their\n"
          "operations, whichever take longer. Exit status 1 when a result is wrong.\n"
          "Takes no options."))
    return *status;
  describeDevice();
  findRates();
  recurrences<float>("f32");
  recurrences<nano::bf16>("bf16");
  bands();
  return conclude();
}
