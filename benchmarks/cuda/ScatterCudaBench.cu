// The scatter template on a GPU, at the size of an embedding's gradient and of a permutation of
// tokens: against sums in double precision, its bits again, and its time against a device copy of
// as many bytes.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/device/nano_scatter.h"

#include <cstring>
#include <random>

namespace {
using namespace nano::bench;

template <class T, class R, int V> struct Table {
  using Element = T;
  using Result = R;
  static constexpr int tokens = 49152, rows = V, sortedRows = V, columns = 768;
  static constexpr bool vectorRows = true;
  static constexpr nano::ScatterShape shape = {tokens, rows, columns};
};

template <class S>
__global__ void __launch_bounds__(nano::scatterSortThreads)
    sortKernel(const int *ids, int *scratch) {
  nano::scatterSort<S>(blockIdx.x, {ids}, scratch);
}
template <class S>
__global__ void __launch_bounds__(nano::scatterSumThreads,
                                  nano::scatterSumBlocks(sizeof(typename S::Element),
                                                         sizeof(typename S::Result)))
    sumKernel(const typename S::Element *x, const int *scratch, typename S::Result *y) {
  nano::ScatterOperands<S> operands;
  operands.x = {x, S::columns};
  operands.scratch = scratch;
  operands.y[0] = {y, S::columns};
  nano::scatterSum<S>(blockIdx.x, operands);
}
double valueOf(float x) { return x; }
double valueOf(nano::bf16 x) { return decode(x.bits); }

/// Ids of a Zipf distribution, as tokens of text have.
std::vector<int> ofText(int count, int rows) {
  std::mt19937 random(3);
  std::vector<double> weights;
  for (int i = 0; i < rows; ++i)
    weights.push_back(1.0 / (i + 3));
  std::discrete_distribution<int> zipf(weights.begin(), weights.end());
  std::vector<int> ids;
  for (int t = 0; t < count; ++t)
    ids.push_back(zipf(random));
  return ids;
}
/// Ids of which one is as likely as another.
std::vector<int> uniform(int count, int rows) {
  std::mt19937 random(4);
  std::vector<int> ids;
  for (int t = 0; t < count; ++t)
    ids.push_back(int(random() % unsigned(rows)));
  return ids;
}

template <class S> void scatter(const char *name, const std::vector<int> &ids) {
  using Element = typename S::Element;
  using Result = typename S::Result;
  constexpr long long T = S::tokens, V = S::rows, D = S::columns;
  auto *x = allocate<Element>(T * D);
  auto *y = allocate<Result>(V * D);
  auto *deviceIds = allocate<int>(T),
       *scratch = allocate<int>(nano::scatterScratchBytes(S::shape) / 4);
  fill<<<1024, 256>>>(x, T * D, 5, 1);
  CHECK(cudaMemcpy(deviceIds, ids.data(), T * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(y, 0xff, V * D * sizeof(Result)));
  constexpr auto sortLaunch = nano::scatterSortLaunch(S::shape),
                 sumLaunch = nano::scatterSumLaunch(S::shape);
  CHECK(cudaFuncSetAttribute(sortKernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             sortLaunch.sharedBytes));
  auto sort = [&] {
    sortKernel<S><<<unsigned(sortLaunch.iterations), sortLaunch.threads, sortLaunch.sharedBytes>>>(
        deviceIds, scratch);
    CHECK(cudaGetLastError());
  };
  auto sum = [&] {
    sumKernel<S><<<unsigned(sumLaunch.iterations), sumLaunch.threads, sumLaunch.sharedBytes>>>(
        x, scratch, y);
    CHECK(cudaGetLastError());
  };
  sort();
  sum();
  CHECK(cudaDeviceSynchronize());
  std::vector<Element> rows(T * D);
  std::vector<Result> actual(V * D), again(V * D);
  std::vector<double> wanted(V * D);
  CHECK(cudaMemcpy(rows.data(), x, T * D * sizeof(Element), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(actual.data(), y, V * D * sizeof(Result), cudaMemcpyDeviceToHost));
  for (long long t = 0; t < T; ++t)
    for (long long d = 0; d < D; ++d)
      wanted[ids[t] * D + d] += valueOf(rows[t * D + d]);
  Difference difference;
  for (long long row = 0; row < V; ++row) {
    std::vector<double> own;
    for (long long d = 0; d < D; ++d)
      own.push_back(valueOf(actual[row * D + d]));
    difference.add(own, &wanted[row * D]);
  }
  std::printf("\nscatter, %s: T %lld, V %lld, D %lld\n", name, T, V, D);
  // f32 sums of up to some thousand elements; bf16 ones are rounded once, some of several times
  // the root mean square.
  if (sizeof(Result) == 4)
    judge("y", difference, 1e-6, 1e-4);
  else
    judge("y", difference, 3e-3, 3e-2);
  sort();
  sum();
  CHECK(cudaMemcpy(again.data(), y, V * D * sizeof(Result), cudaMemcpyDeviceToHost));
  const bool same = std::memcmp(actual.data(), again.data(), V * D * sizeof(Result)) == 0;
  allRight &= same;
  std::printf("%s\n", same ? "" : "  NOT THE SAME BITS AGAIN");
  const double sortSeconds = medianSeconds(sort), sumSeconds = medianSeconds(sum);
  const double floor = copySeconds(T * D * sizeof(Element) + V * D * sizeof(Result) + 4 * (T + V));
  std::printf("  sort %.1f us, sum %.1f us; a copy of as many bytes %.1f us: %.2f of the sum's "
              "time, %.2f of both\n",
              sortSeconds * 1e6, sumSeconds * 1e6, floor * 1e6, floor / sumSeconds,
              floor / (sumSeconds + sortSeconds));
  for (void *p : {static_cast<void *>(x), static_cast<void *>(y), static_cast<void *>(deviceIds),
                  static_cast<void *>(scratch)})
    CHECK(cudaFree(p));
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "ScatterCudaBench: the scatter template on GPU 0 against sums in doubles, and its\n"
          "time against a device copy of as many bytes. Exit status 1 when a result is wrong.\n"
          "Takes no options."))
    return *status;
  describeDevice();
  scatter<Table<nano::bf16, float, 50257>>("tokens of text", ofText(49152, 50257));
  scatter<Table<nano::bf16, nano::bf16, 49152>>("any order, bf16", uniform(49152, 49152));
  scatter<Table<float, float, 49152>>("any order, f32", uniform(49152, 49152));
  return conclude();
}
