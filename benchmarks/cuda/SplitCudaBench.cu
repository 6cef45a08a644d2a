// The template of products cut along what they sum over on a GPU, at the shapes of models'
// gradients of weights: results against sums in double precision, their bits again, and their rate.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuMaps.cuh"
#include "codegen/device/nano_split.h"

namespace {
using namespace nano::bench;
using Tiles = nano::MatmulTiles;

constexpr int multiprocessors = 132; // of an H100 or H200

/// One product of these sizes or, with others of their rows and as many columns, several.
template <int Inner, bool Adds, int Columns, int... Rows> struct Products {
  static constexpr int count = sizeof...(Rows), inner = Inner;
  static constexpr bool adds = Adds;
  static NANO_BOTH constexpr int rows(int i) {
    constexpr int all[] = {Rows...};
    return all[i];
  }
  static NANO_BOTH constexpr int columns(int) { return Columns; }
};
template <class P> struct Launched : P {
  static constexpr auto launch = nano::splitLaunch(P{}, multiprocessors);
  static constexpr int blocks = int(launch.blocks);
};

template <class S>
__global__ void __cluster_dims__(Tiles::clusterBlocks) __launch_bounds__(Tiles::threads(false), 1)
    kernel(const __grid_constant__ nano::TensorMaps<2 * S::count> maps,
           const nano::SplitResults<S::count> results, int32_t *counts) {
  nano::splitProducts<S>(maps.map, results, counts);
}

nano::TensorMap mapOf(void *matrix, long long rows, long long columns) {
  const nano::TensorBox box = nano::SplitTiles::box();
  const nano::plan::TensorMap described = {.type = nano::plan::DType::BF16,
                                           .columns = uint64_t(columns),
                                           .rows = uint64_t(rows),
                                           .rowBytes = uint64_t(columns * 2),
                                           .boxColumns = uint32_t(box.columns),
                                           .boxRows = uint32_t(box.rows),
                                           .swizzleBytes = 128};
  return encoded(described, matrix);
}

template <class T> std::vector<T> fetch(const void *from, size_t count) {
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

template <class P> void test() {
  using S = Launched<P>;
  constexpr long long K = S::inner;
  constexpr int size = nano::splitCounts(P{});
  auto *counts = allocate<int32_t>(size);
  nano::TensorMaps<2 * S::count> maps;
  nano::SplitResults<S::count> results;
  nano::bf16 *a[S::count], *b[S::count];
  double summands = 0;
  for (int i = 0; i < S::count; ++i) {
    const long long M = S::rows(i), N = S::columns(i);
    a[i] = allocate<nano::bf16>(K * M);
    b[i] = allocate<nano::bf16>(K * N);
    results.c[i] = allocate<float>(M * N);
    fill<<<1024, 256>>>(a[i], K * M, 2 * i + 1, 1);
    fill<<<1024, 256>>>(b[i], K * N, 2 * i + 2, 1 / std::sqrt(float(K)));
    maps.map[2 * i] = mapOf(a[i], K, M);
    maps.map[2 * i + 1] = mapOf(b[i], K, N);
    summands += double(M) * double(N) * double(K);
  }
  CHECK(cudaFuncSetAttribute(kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::launch.sharedBytes));
  auto run = [&] {
    CHECK(cudaMemsetAsync(counts, 0, size * sizeof(int32_t)));
    kernel<S>
        <<<unsigned(S::blocks), S::launch.threads, S::launch.sharedBytes>>>(maps, results, counts);
    CHECK(cudaGetLastError());
  };
  /// The results of a run; what is added to is ones before.
  auto made = [&](int i) {
    const size_t elements = size_t(S::rows(i)) * size_t(S::columns(i));
    const std::vector<float> ones(elements, S::adds ? 1.0f : NAN);
    CHECK(cudaMemcpy(results.c[i], ones.data(), elements * 4, cudaMemcpyHostToDevice));
    run();
    return fetch<uint32_t>(results.c[i], elements);
  };
  std::printf("%lld summands,", K);
  for (int i = 0; i < S::count; ++i) {
    const long long M = S::rows(i), N = S::columns(i);
    const auto actual = made(i);
    const auto left = fetch<uint16_t>(a[i], K * M), right = fetch<uint16_t>(b[i], K * N);
    Difference difference;
    for (long long j = 0; j < 12; ++j) {
      const long long row = j < 4 ? M - 1 - j : j * 2654435761LL % M;
      std::vector<double> wanted(N, S::adds ? 1.0 : 0.0), got(N);
      for (long long k = 0; k < K; ++k) {
        const double factor = double(decode(left[k * M + row]));
        for (long long n = 0; n < N; ++n)
          wanted[n] += factor * double(decode(right[k * N + n]));
      }
      for (long long n = 0; n < N; ++n)
        got[n] = double(bitsAsFloat(actual[row * N + n]));
      difference.add(got, wanted.data());
    }
    std::printf(" %lld x %lld%s:", M, N, S::adds ? " added" : "");
    judge("c", difference, 1e-4, 1e-3); // sums in f32
    const bool same = made(i) == actual;
    allRight &= same;
    std::printf(" %s,", same ? "the same bits again" : "OTHER BITS THE SECOND TIME");
  }
  const double seconds = medianSeconds(run);
  std::printf("  %.1f us, %.0f TFLOP/s\n", seconds * 1e6, 2e-12 * summands / seconds);
  for (int i = 0; i < S::count; ++i)
    for (void *pointer : {(void *)a[i], (void *)b[i], (void *)results.c[i]})
      CHECK(cudaFree(pointer));
  CHECK(cudaFree(counts));
}
} // namespace

int main(int argc, char **argv) {
  if (const auto status = nano::helpOnly(argc, argv,
                                         "Tests and times the template of products cut along what "
                                         "they sum over on this GPU. Takes no options."))
    return *status;
  describeDevice();
  test<Products<200, false, 520, 264>>();
  test<Products<9000, true, 264, 136, 8, 72>>();
  test<Products<32768, false, 1024, 2816>>();
  test<Products<32768, true, 1024, 2816, 2816>>();
  test<Products<32768, false, 1024, 256, 256, 1024>>();
  test<Products<49152, false, 768, 2304>>();
  test<Products<49152, false, 768, 3072, 768>>();
  test<Products<16384, false, 1600, 6400>>();
  return conclude();
}
