// The scatter template on a GPU, at the size of an embedding's gradient: against sums in double
// precision, its bits again, and its time against a device copy of as many bytes.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/device/nano_scatter.h"

#include <random>

namespace {
using namespace nano::bench;

struct Embedding {
  using Element = nano::bf16;
  using Result = float;
  static constexpr int tokens = 49152, rows = 50257, columns = 768;
  static constexpr bool vectorRows = true;
};
constexpr nano::ScatterShape embeddingShape = {Embedding::tokens, Embedding::rows,
                                               Embedding::columns};

__global__ void __launch_bounds__(nano::scatterSortThreads)
    sortKernel(const int *ids, int *scratch) {
  nano::scatterSort<Embedding>(blockIdx.x, {ids}, scratch);
}
__global__ void __launch_bounds__(nano::scatterSumThreads)
    sumKernel(const nano::bf16 *x, const int *scratch, float *y) {
  nano::ScatterOperands<Embedding> operands;
  operands.x = {x, Embedding::columns};
  operands.scratch = scratch;
  operands.y[0] = {y, Embedding::columns};
  nano::scatterSum<Embedding>(blockIdx.x, operands);
}

/// Ids of a Zipf distribution, as tokens of text have.
void scatter() {
  const double bytesPerSecond = copyRate();
  std::printf("device copy: %.0f GB/s read and written\n", bytesPerSecond / 1e9);
  constexpr long long T = Embedding::tokens, V = Embedding::rows, D = Embedding::columns;
  std::mt19937 random(3);
  std::vector<double> weights;
  for (int i = 0; i < V; ++i)
    weights.push_back(1.0 / (i + 3));
  std::discrete_distribution<int> zipf(weights.begin(), weights.end());
  std::vector<int> ids;
  for (int t = 0; t < T; ++t)
    ids.push_back(zipf(random));
  auto *x = allocate<nano::bf16>(T * D);
  auto *y = allocate<float>(V * D);
  auto *deviceIds = allocate<int>(T),
       *scratch = allocate<int>(nano::scatterScratchBytes(embeddingShape) / 4);
  fill<<<1024, 256>>>(x, T * D, 5, 1);
  CHECK(cudaMemcpy(deviceIds, ids.data(), T * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(y, 0xff, V * D * 4));
  constexpr auto sortLaunch = nano::scatterSortLaunch(embeddingShape),
                 sumLaunch = nano::scatterSumLaunch(embeddingShape);
  CHECK(cudaFuncSetAttribute(sortKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             sortLaunch.sharedBytes));
  auto sort = [&] {
    sortKernel<<<unsigned(sortLaunch.iterations), sortLaunch.threads, sortLaunch.sharedBytes>>>(
        deviceIds, scratch);
    CHECK(cudaGetLastError());
  };
  auto sum = [&] {
    sumKernel<<<unsigned(sumLaunch.iterations), sumLaunch.threads, sumLaunch.sharedBytes>>>(
        x, scratch, y);
    CHECK(cudaGetLastError());
  };
  sort();
  sum();
  CHECK(cudaDeviceSynchronize());
  std::vector<uint16_t> rows(T * D);
  std::vector<float> actual(V * D), again(V * D);
  std::vector<double> wanted(V * D);
  CHECK(cudaMemcpy(rows.data(), x, T * D * 2, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(actual.data(), y, V * D * 4, cudaMemcpyDeviceToHost));
  for (long long t = 0; t < T; ++t)
    for (long long d = 0; d < D; ++d)
      wanted[ids[t] * D + d] += decode(rows[t * D + d]);
  Difference difference;
  for (long long row = 0; row < V; ++row)
    difference.add(std::vector<double>(actual.begin() + row * D, actual.begin() + (row + 1) * D),
                   &wanted[row * D]);
  std::printf("\nscatter: T %lld, V %lld, D %lld, %ld tokens of the commonest id\n", T, V, D,
              long(std::count(ids.begin(), ids.end(), 0)));
  judge("y", difference, 1e-6, 1e-4); // f32 sums of up to some thousand elements
  sort();
  sum();
  CHECK(cudaMemcpy(again.data(), y, V * D * 4, cudaMemcpyDeviceToHost));
  const bool same = actual == again;
  allRight &= same;
  std::printf("%s\n", same ? "" : "  NOT THE SAME BITS AGAIN");
  const double sortSeconds = medianSeconds(sort), sumSeconds = medianSeconds(sum);
  const double bytes = double(T * D * 2 + V * D * 4 + 4 * (T + V));
  std::printf(
      "  sort %.1f us, sum %.1f us; bytes of the sum over time %.2f of a device copy, of both "
      "%.2f\n",
      sortSeconds * 1e6, sumSeconds * 1e6, bytes / sumSeconds / bytesPerSecond,
      bytes / (sumSeconds + sortSeconds) / bytesPerSecond);
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
  scatter();
  return conclude();
}
