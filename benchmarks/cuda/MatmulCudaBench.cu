// The template of fused products on a GPU, at the shapes of gpt124m's MLP: results against sums in
// double precision, its bits again, and its rate with the epilogue in it.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/cuda/device/nano_matmul.h"

#include "runtime/cuda/Api.h"

namespace {
using namespace nano::bench;
using Tiles = nano::MatmulTiles;
using Chunk = nano::Vec<nano::bf16, 8>;

constexpr int multiprocessors = 132; // of an H100 or H200

template <int Rows, int Columns, int Inner, bool TransposeB> struct Shape {
  static constexpr int rows = Rows, columns = Columns, inner = Inner;
  static constexpr bool transposeB = TransposeB;
  static constexpr auto launch =
      nano::matmulLaunch({rows, columns, inner, transposeB}, multiprocessors);
  static constexpr int blocks = int(launch.blocks);
  using Element = nano::bf16;
};

/// y ← max(A·B, 0)².
template <class S> struct Square : S {
  struct Others {};
  static constexpr const char *name = "relu squared";
  /// Elements of twelve times the root mean square have their rounding in it, twice.
  static constexpr double tolerance = 0.2;
  nano::bf16 *y;
  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE void store(int row, int column, const Chunk &product, const Others &) const {
    const auto positive = nano::maximum(product, 0.0f);
    nano::store<8>(y + int64_t(row) * S::columns + column, positive * positive);
  }
  static double reference(double product, double) { return product > 0 ? product * product : 0; }
};

/// y ← A·B · 2·√square.
template <class S> struct Root : S {
  static constexpr const char *name = "times twice the root";
  /// Three roundings of elements of ten times the root mean square.
  static constexpr double tolerance = 0.1;
  struct Others {
    nano::Held<nano::bf16, 8> square;
  };
  const nano::bf16 *square;
  nano::bf16 *y;
  NANO_DEVICE Others load(int row, int column) const {
    return {nano::hold<8>(square + int64_t(row) * S::columns + column)};
  }
  NANO_DEVICE void store(int row, int column, const Chunk &product, const Others &others) const {
    const auto of = others.square.elements();
    const auto root = nano::to<nano::bf16>(nano::approximateSqrt(nano::to<float>(of)));
    const auto half = product * root;
    nano::store<8>(y + int64_t(row) * S::columns + column,
                   nano::select(of > 0.0f, half + half, 0.0f));
  }
  static double reference(double product, double square) {
    return square > 0 ? 2 * product * std::sqrt(square) : 0;
  }
};

template <class P>
__global__ void __cluster_dims__(Tiles::clusterBlocks) __launch_bounds__(Tiles::threads, 1)
    kernel(const __grid_constant__ nano::TensorMaps<2> maps, const nano::bf16 *other,
           nano::bf16 *y) {
  P x;
  if constexpr (requires { x.square; })
    x.square = other;
  x.y = y;
  nano::matmul(int(blockIdx.x), maps.map[0], maps.map[1], x);
}

nano::TensorMap mapOf(void *matrix, long long rows, long long columns, nano::TensorBox box) {
  static const auto encode = [] {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  CUtensorMap map;
  const cuuint64_t sizes[2] = {cuuint64_t(columns), cuuint64_t(rows)},
                   strides[1] = {cuuint64_t(columns) * 2};
  const cuuint32_t boxes[2] = {cuuint32_t(box.columns), cuuint32_t(box.rows)}, steps[2] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix, sizes, strides, boxes, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::printf("cuTensorMapEncodeTiled: %d\n", int(status));
    std::exit(1);
  }
  nano::TensorMap result;
  static_assert(sizeof result == sizeof map);
  std::copy_n(reinterpret_cast<const char *>(&map), sizeof map, reinterpret_cast<char *>(&result));
  return result;
}

template <class P> void test() {
  constexpr long long M = P::rows, N = P::columns, K = P::inner;
  auto *a = allocate<nano::bf16>(M * K), *b = allocate<nano::bf16>(N * K),
       *other = allocate<nano::bf16>(M * N), *y = allocate<nano::bf16>(M * N);
  fill<<<1024, 256>>>(a, M * K, 1, 1);
  fill<<<1024, 256>>>(b, N * K, 2, 1 / std::sqrt(float(K)));
  fill<<<1024, 256>>>(other, M * N, 3, 1);
  CHECK(cudaMemset(y, 0xff, M * N * 2));
  nano::TensorMaps<2> maps;
  maps.map[0] = mapOf(a, M, K, Tiles::aBox);
  maps.map[1] =
      P::transposeB ? mapOf(b, N, K, Tiles::bBox(true)) : mapOf(b, K, N, Tiles::bBox(false));
  CHECK(cudaFuncSetAttribute(kernel<P>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             P::launch.sharedBytes));
  auto run = [&] {
    kernel<P>
        <<<unsigned(P::launch.blocks), P::launch.threads, P::launch.sharedBytes>>>(maps, other, y);
    CHECK(cudaGetLastError());
  };
  run();
  CHECK(cudaDeviceSynchronize());
  std::vector<uint16_t> left(M * K), right(N * K), others(M * N), actual(M * N), again(M * N);
  auto fetch = [](std::vector<uint16_t> &to, const void *from) {
    CHECK(cudaMemcpy(to.data(), from, to.size() * 2, cudaMemcpyDeviceToHost));
  };
  fetch(left, a);
  fetch(right, b);
  fetch(others, other);
  fetch(actual, y);
  // Rows of every place in a tile, the last ones among them.
  Difference difference;
  for (long long i = 0; i < 24; ++i) {
    const long long row = i < 8 ? M - 1 - i : i * 2654435761LL % M;
    std::vector<double> wanted(N), got(N);
    for (long long n = 0; n < N; ++n) {
      double sum = 0;
      for (long long k = 0; k < K; ++k)
        sum += double(decode(left[row * K + k])) *
               double(decode(right[P::transposeB ? n * K + k : k * N + n]));
      wanted[n] = P::reference(sum, decode(others[row * N + n]));
      got[n] = decode(actual[row * N + n]);
    }
    difference.add(got, wanted.data());
  }
  std::printf("%lld x %lld x %lld%s, %s:", M, N, K, P::transposeB ? ", B transposed" : "", P::name);
  judge("y", difference, 6e-3, P::tolerance);
  CHECK(cudaMemset(y, 0xff, M * N * 2));
  run();
  fetch(again, y);
  const bool same = again == actual;
  allRight &= same;
  std::printf("  %s", same ? "the same bits again" : "OTHER BITS THE SECOND TIME");
  const double seconds = medianSeconds(run);
  std::printf("  %.1f us, %.0f TFLOP/s\n", seconds * 1e6, 2e-12 * double(M * N * K) / seconds);
  for (auto *pointer : {a, b, other, y})
    CHECK(cudaFree(pointer));
}
} // namespace

int main(int argc, char **argv) {
  if (const auto status = nano::helpOnly(
          argc, argv,
          "Tests and times the template of fused products on this GPU. Takes no options."))
    return *status;
  describeDevice();
  test<Square<Shape<1000, 520, 200, true>>>();
  test<Root<Shape<1000, 520, 200, false>>>();
  test<Square<Shape<49152, 3072, 768, true>>>();
  test<Root<Shape<49152, 3072, 768, false>>>();
  return conclude();
}
