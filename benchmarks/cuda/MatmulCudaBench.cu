// The template of fused products on a GPU, at the shapes of gpt124m's MLP and head: results against
// sums in double precision, its bits again, and its rate with the epilogue in it.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuMaps.cuh"
#include "codegen/device/nano_matmul.h"

namespace {
using namespace nano::bench;
using Tiles = nano::MatmulTiles;
using Chunk = nano::Vec<nano::bf16, 8>;

constexpr int multiprocessors = 132; // of an H100 or H200

template <int Rows, int Width, int Inner, bool TransposeB, class E = nano::bf16,
          bool TransposeA = false, class A = E>
struct Shape {
  using ElementA = A;
  using ElementB = E;
  using Result = nano::bf16;
  static constexpr int rows = Rows, columns = Width, inner = Inner;
  static constexpr bool transposeA = TransposeA, transposeB = TransposeB, addsColumns = false;
  static constexpr int copies = 0, products = 1, maxima = 0, turned = 0;
  struct Columns {};
  NANO_DEVICE Columns loadColumns(int) const { return {}; }
  static constexpr auto launch(bool sums, bool isWide) {
    return nano::matmulLaunch(
        {Rows, Width, Inner, TransposeA, TransposeB, int(sizeof(E)), sums, isWide},
        multiprocessors);
  }
  static constexpr int blocks = int(launch(false, false).blocks);
  /// Of 8-bit products; a power of two, which rounds nothing.
  static constexpr float factor = sizeof(E) == 1 ? 4.0f : 1.0f;
  NANO_DEVICE float scale(int) const { return factor; }
};

/// y ← max(A·B, 0)².
template <class S> struct Square : S {
  struct Others {};
  static constexpr const char *name = "relu squared";
  using Columns = typename S::Columns;
  static constexpr int sums = 0;
  /// Elements of twelve times the root mean square have their rounding in it, twice.
  static constexpr double tolerance = 0.2;
  nano::bf16 *y;
  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE void store(int row, int column, const Chunk &product, const Others &,
                         const Columns &) const {
    const auto positive = nano::maximum(product, 0.0f);
    nano::store<8>(y + row * S::columns + column, positive * positive);
  }
  static double reference(double product, double) { return product > 0 ? product * product : 0; }
};

/// y ← A·B · 2·√square.
template <class S> struct Root : S {
  static constexpr const char *name = "times twice the root";
  static constexpr int sums = 0;
  /// Three roundings of elements of ten times the root mean square.
  static constexpr double tolerance = 0.1;
  struct Others {
    nano::Held<nano::bf16, 8> square;
  };
  static constexpr int copies = 1;
  using Columns = typename S::Columns;
  const nano::bf16 *square;
  nano::bf16 *y;
  NANO_DEVICE void copy(int row, int column, nano::Vec<uint32_t, 4> *chunks) const {
    nano::copyAsync<16>(chunks, square + row * S::columns + column);
  }
  NANO_DEVICE static Others othersAt(const nano::Vec<uint32_t, 4> *chunks) {
    Others others;
    others.square.words = chunks[0];
    return others;
  }
  NANO_DEVICE Others load(int row, int column) const {
    return {nano::hold<8>(square + row * S::columns + column)};
  }
  NANO_DEVICE void store(int row, int column, const Chunk &product, const Others &others,
                         const Columns &) const {
    const auto of = others.square.elements();
    const auto root = nano::to<nano::bf16>(nano::approximateSqrt(nano::to<float>(of)));
    const auto half = product * root;
    nano::store<8>(y + row * S::columns + column, nano::select(of > 0.0f, half + half, 0.0f));
  }
  static double reference(double product, double square) {
    return square > 0 ? 2 * product * std::sqrt(square) : 0;
  }
};

/// y ← A·B, and of every 128 columns the sum of e^(30·sigmoid(y/208) − 30), as gpt124m's loss.
template <class S> struct Loss : S {
  static constexpr const char *name = "with sums for a loss";
  using Columns = typename S::Columns;
  /// One rounding of elements of five times the root mean square.
  static constexpr double tolerance = 4e-2;
  static constexpr int sums = 1, parts = S::columns / Tiles::sumColumns;
  static constexpr float slope = 1 / 208.0f;
  struct Others {};
  nano::bf16 *y;
  float *totals;
  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE auto store(int row, int column, const Chunk &product, const Others &,
                         const Columns &) const {
    nano::store<8>(y + row * S::columns + column, product);
    return nano::splat<1>(
        nano::sum(nano::exponentialOfSigmoid<30.0f, -30.0f>(nano::to<float>(product), slope)));
  }
  NANO_DEVICE void storeSums(int row, int part, const nano::Vec<float, 1> &total) const {
    totals[int64_t(row) * parts + part] = total.lane[0];
  }
  static double reference(double product, double) { return product; }
  static double summand(double y) { return std::exp(30 / (1 + std::exp(-slope * y)) - 30); }
};

/// y ← y + A·B in f32, as a weight's gradient.
template <class S> struct Addend : S {
  static constexpr const char *name = "added";
  using Columns = typename S::Columns;
  static constexpr int sums = 0;
  /// Of products of 8 bits the tensor cores keep 13 bits behind the point: some 6e-5 where 128 at a
  /// time are added up in f32, and 7e-4 if 4096 were not.
  static constexpr double norm = 2e-4, tolerance = 3e-3;
  using Result = float;
  struct Others {};
  float *y;
  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE void store(int row, int column, const nano::Vec<float, 4> &product, const Others &,
                         const Columns &) const {
    nano::addTo<4>(y + row * S::columns + column, product);
  }
  static double reference(double product, double addend) { return product + addend; }
};

template <class P>
__global__ void __cluster_dims__(Tiles::clusterBlocks)
    __launch_bounds__(Tiles::threads(P::sums > 0), 1)
        kernel(const __grid_constant__ nano::TensorMaps<2> maps, const typename P::Result *other,
               typename P::Result *y, float *totals) {
  P x;
  if constexpr (requires { x.square; })
    x.square = other;
  if constexpr (P::sums > 0)
    x.totals = totals;
  x.y = y;
  nano::matmul(int(blockIdx.x), maps.map[0], maps.map[1], x);
}

nano::TensorMap mapOf(void *matrix, long long rows, long long columns, int elementBytes,
                      nano::TensorBox box) {
  const nano::plan::TensorMap described = {.type = elementBytes == 1 ? nano::plan::DType::F8E4M3FN
                                                                     : nano::plan::DType::BF16,
                                           .columns = uint64_t(columns),
                                           .rows = uint64_t(rows),
                                           .rowBytes = uint64_t(columns * elementBytes),
                                           .boxColumns = uint32_t(box.columns),
                                           .boxRows = uint32_t(box.rows),
                                           .swizzleBytes = 128};
  return encoded(described, matrix);
}

/// The value of an element's bits; what is no number of 8 bits counts as the next one would.
template <class E> double valueOf(uint32_t bits) {
  if constexpr (sizeof(E) == 4)
    return double(nano::bench::bitsAsFloat(bits));
  if constexpr (sizeof(E) == 2)
    return decode(uint16_t(bits));
  constexpr int fractionBits = nano::isSame<E, nano::f8e5m2> ? 2 : 3, one = 1 << fractionBits;
  constexpr int exponents = 1 << (7 - fractionBits), bias = exponents / 2 - 1 + fractionBits;
  const int exponent = int(bits) >> fractionBits & (exponents - 1),
            fraction = int(bits) & (one - 1);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(one + fraction, exponent - bias);
  return bits & 0x80 ? -magnitude : magnitude;
}

template <class T> std::vector<T> fetch(const void *from, size_t count) {
  std::vector<T> values(count);
  CHECK(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

template <class P> void test() {
  using A = typename P::ElementA;
  using B = typename P::ElementB;
  using Result = typename P::Result;
  using Bits = nano::Unsigned<sizeof(B)>;
  using ResultBits = nano::Unsigned<sizeof(Result)>;
  constexpr long long M = P::rows, N = P::columns, K = P::inner;
  constexpr long long parts = nano::divideUp(N, Tiles::sumColumns);
  constexpr auto launch = P::launch(P::sums > 0, sizeof(Result) == 4);
  auto *a = allocate<A>(M * K);
  auto *b = allocate<B>(N * K);
  auto *other = allocate<Result>(M * N), *y = allocate<Result>(M * N);
  auto *totals = allocate<float>(M * parts);
  fill<<<1024, 256>>>(a, M * K, 1, 1);
  fill<<<1024, 256>>>(b, N * K, 2, 1 / std::sqrt(float(K)));
  fill<<<1024, 256>>>(other, M * N, 3, 1);
  auto clear = [&] {
    if constexpr (sizeof(Result) == 4) // it is added to
      CHECK(cudaMemcpy(y, other, M * N * sizeof(Result), cudaMemcpyDeviceToDevice));
    else
      CHECK(cudaMemset(y, 0xff, M * N * sizeof(Result)));
    CHECK(cudaMemset(totals, 0xff, M * parts * 4));
  };
  nano::TensorMaps<2> maps;
  constexpr int bytes = sizeof(B);
  maps.map[0] = P::transposeA ? mapOf(a, K, M, bytes, Tiles::aBox(true, bytes))
                              : mapOf(a, M, K, bytes, Tiles::aBox(false, bytes));
  maps.map[1] = P::transposeB ? mapOf(b, N, K, bytes, Tiles::bBox(true, bytes))
                              : mapOf(b, K, N, bytes, Tiles::bBox(false, bytes));
  CHECK(cudaFuncSetAttribute(kernel<P>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             launch.sharedBytes));
  auto run = [&] {
    kernel<P>
        <<<unsigned(launch.blocks), launch.threads, launch.sharedBytes>>>(maps, other, y, totals);
    CHECK(cudaGetLastError());
  };
  clear();
  run();
  CHECK(cudaDeviceSynchronize());
  const auto left = fetch<Bits>(a, M * K), right = fetch<Bits>(b, N * K);
  const auto others = fetch<ResultBits>(other, M * N), actual = fetch<ResultBits>(y, M * N);
  const auto sums = fetch<uint32_t>(totals, M * parts);
  // Rows of every place in a tile, the last ones among them.
  Difference difference, ofSums;
  for (long long i = 0; i < 24; ++i) {
    const long long row = i < 8 ? M - 1 - i : i * 2654435761LL % M;
    std::vector<double> wanted(N), got(N), wantedSums(parts), gotSums(parts);
    for (long long n = 0; n < N; ++n) {
      double sum = 0;
      for (long long k = 0; k < K; ++k)
        sum += valueOf<A>(left[P::transposeA ? k * M + row : row * K + k]) *
               valueOf<B>(right[P::transposeB ? n * K + k : k * N + n]);
      wanted[n] = P::reference(sum * double(P::factor), valueOf<Result>(others[row * N + n]));
      got[n] = valueOf<Result>(actual[row * N + n]);
      if constexpr (P::sums > 0)
        wantedSums[n / Tiles::sumColumns] += P::summand(got[n]);
    }
    difference.add(got, wanted.data());
    for (long long part = 0; part < parts; ++part)
      gotSums[part] = double(nano::bench::bitsAsFloat(sums[row * parts + part]));
    ofSums.add(gotSums, wantedSums.data());
  }
  std::printf("%lld x %lld x %lld of %d bits%s%s, %s:", M, N, K, 8 * bytes,
              P::transposeA ? ", A transposed" : "", P::transposeB ? ", B transposed" : "",
              P::name);
  double norm = 6e-3;
  if constexpr (requires { P::norm; })
    norm = P::norm;
  judge("y", difference, norm, P::tolerance);
  if constexpr (P::sums > 0)
    judge("sums", ofSums, 1e-5, 1e-5); // of 128 numbers in f32, exponentials within 2^-18
  clear();
  run();
  const bool same =
      fetch<ResultBits>(y, M * N) == actual && fetch<uint32_t>(totals, M * parts) == sums;
  allRight &= same;
  std::printf("  %s", same ? "the same bits again" : "OTHER BITS THE SECOND TIME");
  const double seconds = medianSeconds(run);
  std::printf("  %.1f us, %.0f TFLOP/s\n", seconds * 1e6, 2e-12 * double(M * N * K) / seconds);
  for (void *pointer : {(void *)a, (void *)b, (void *)other, (void *)y, (void *)totals})
    CHECK(cudaFree(pointer));
}
} // namespace

int main(int argc, char **argv) {
  if (const auto status = nano::helpOnly(
          argc, argv,
          "Tests and times the template of fused products on this GPU. Takes no options."))
    return *status;
  using f8 = nano::f8e4m3;
  describeDevice();
  test<Square<Shape<1000, 520, 200, true>>>();
  test<Root<Shape<1000, 520, 200, false>>>();
  test<Square<Shape<1000, 520, 208, true, f8>>>();
  test<Loss<Shape<1000, 640, 2000, true>>>();
  test<Loss<Shape<1000, 640, 208, true, f8>>>();
  test<Addend<Shape<1000, 520, 200, false>>>();
  test<Addend<Shape<1008, 520, 208, true, f8, true>>>();
  test<Square<Shape<49152, 3072, 768, true>>>();
  test<Root<Shape<49152, 3072, 768, false>>>();
  test<Loss<Shape<3072, 50304, 768, true>>>();
  test<Loss<Shape<3072, 50304, 768, true, f8>>>();
  test<Addend<Shape<50304, 768, 4096, true, f8, true, nano::f8e5m2>>>();
  return conclude();
}
