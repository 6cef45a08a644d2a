// A strip kernel on a GPU, as nanoc makes it for the gradient of a squared rectifier: two matrices
// of bf16 read once, three results of 8 bits of which two lie transposed, and each row's largest
// one; against plain loops, and its time against a device copy of as many bytes.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/device/nano_tiles.h"

namespace {
using namespace nano::bench;
using nano::bf16, nano::f8e4m3, nano::f8e5m2;

constexpr int rows = 49152, columns = 3072, lanes = 8;
constexpr int tileColumns = 128, rowThreads = tileColumns / lanes;
constexpr int64_t elements = int64_t(rows) * columns;

/// `ByWords`: neighbouring threads write different columns, which nano::storeColumns does not.
template <int Rows, int Threads, int Blocks, bool ByWords = false> struct Variant {
  static constexpr int tileRows = Rows, threads = Threads, blocks = Blocks;
  static constexpr bool byWords = ByWords;
  static constexpr int rowsOfTurn = threads / rowThreads, turns = tileRows / rowsOfTurn;
};

struct Operands {
  const bf16 *x, *g;
  const float *scaleX, *scaleG;
  float *largest;
  f8e4m3 *squares;
  f8e5m2 *out, *transposed;
};

/// nano::storeColumns of a whole tile in another order of threads.
template <class T, int Rows, int Threads>
NANO_DEVICE void storeColumnsByWords(const T *tile, T *out, int64_t at, int64_t stride) {
  using Shape = nano::TileShape<T, Rows>;
  constexpr int count = tileColumns / Shape::unit * 32;
  for (int i = int(threadIdx.x); i < count; i += Threads) {
    const int word = i / 32 * Shape::width + i % Shape::width;
    const int group = i % 32 / Shape::width;
    const T *from =
        tile + group * Shape::lanes * tileColumns + (word ^ group * Shape::width) * Shape::each;
    T *to = out + (at + word * Shape::each * stride + group * Shape::lanes);
    uint32_t words[Shape::lanes];
    nano::Piece<16> written[Shape::each];
#pragma unroll
    for (int lane = 0; lane < Shape::lanes; ++lane)
      words[lane] = reinterpret_cast<const nano::Piece<4> *>(from + lane * tileColumns)->word[0];
    nano::transposeWords<T>(words, written);
#pragma unroll
    for (int j = 0; j < Shape::each; ++j)
      *reinterpret_cast<nano::Piece<16> *>(to + j * stride) = written[j];
  }
}

template <class V>
__global__ void __launch_bounds__(V::threads, V::blocks)
    stripKernel(const __grid_constant__ Operands o) {
  using Shape = nano::TileShape<f8e5m2, V::tileRows>;
  constexpr int tile = V::tileRows * tileColumns, turns = V::turns;
  auto *squares = nano::dynamicShared<f8e4m3>(0);
  auto *gathered = nano::dynamicShared<f8e5m2>(tile);
  const int64_t thread = nano::threadIndex(), group = thread / rowThreads;
  const int64_t offset = thread % rowThreads * lanes, firstRow = int64_t(blockIdx.x) * V::tileRows;
  float partials[turns];
  nano::Held<bf16, 8> xs[turns], gs[turns];
  const auto load = [&](int64_t column) {
#pragma unroll
    for (int i = 0; i < turns; ++i) {
      const int64_t at = (firstRow + (i * V::rowsOfTurn + group)) * columns + column + offset;
      xs[i] = nano::read<8>(o.x + at);
      gs[i] = nano::read<8>(o.g + at);
    }
  };
#pragma unroll
  for (int i = 0; i < turns; ++i)
    partials[i] = -nano::infinity;
  load(0);
  const float inverseX = nano::quotient(1.0f, nano::read(o.scaleX));
  const float inverseG = nano::quotient(1.0f, nano::read(o.scaleG));
#pragma unroll 1
  for (int at = 0; at < columns; at += tileColumns) {
    const int64_t column = at + offset;
#pragma unroll
    for (int i = 0; i < turns; ++i) {
      const int64_t local = i * V::rowsOfTurn + group;
      const auto x = nano::to<float>(xs[i].elements());
      const auto g = nano::to<float>(gs[i].elements());
      const auto max = nano::maximum(x, 0.0f);
      const auto product = nano::to<float>(nano::to<bf16>(g * max));
      const auto gradient =
          nano::select(x > 0.0f, nano::to<float>(nano::to<bf16>(product + product)), 0.0f);
      partials[i] = nano::maximum(partials[i], nano::largest(nano::abs(gradient)));
      const int64_t place =
          local * tileColumns + (offset ^ local / Shape::lanes % Shape::groups * Shape::unit);
      const auto square = nano::to<f8e4m3>(nano::to<float>(nano::to<bf16>(max * max)) * inverseX);
      const auto narrow = nano::to<f8e5m2>(gradient * inverseG);
      nano::store<8>(squares + place, square);
      nano::store<8>(o.out + ((firstRow + local) * columns + column), narrow);
      nano::store<8>(gathered + place, narrow);
    }
    const int64_t next = at + tileColumns;
    if (next < columns)
      load(next);
    nano::syncBlock();
    const int64_t to = int64_t(at) * rows + firstRow;
    if constexpr (V::byWords) {
      storeColumnsByWords<f8e4m3, V::tileRows, V::threads>(squares, o.squares, to, rows);
      storeColumnsByWords<f8e5m2, V::tileRows, V::threads>(gathered, o.transposed, to, rows);
    } else {
      nano::storeColumns<f8e4m3, V::tileRows, tileColumns, V::threads, 16>(
          squares, o.squares, to, rows, V::tileRows, tileColumns);
      nano::storeColumns<f8e5m2, V::tileRows, tileColumns, V::threads, 16>(
          gathered, o.transposed, to, rows, V::tileRows, tileColumns);
    }
    nano::syncBlock();
  }
#pragma unroll
  for (int i = 0; i < turns; ++i) {
    const float largest = nano::groupMax<rowThreads>(partials[i]);
    if (thread % rowThreads == 0)
      o.largest[firstRow + i * V::rowsOfTurn + group] = largest;
  }
}

/// Of one element: its two results.
__global__ void plainKernel(Operands o, f8e4m3 *squares, f8e5m2 *gradients, unsigned *largest) {
  const int64_t i = blockIdx.x * 256LL + threadIdx.x;
  const float x = float(o.x[i]), g = float(o.g[i]), max = x > 0 ? x : 0;
  const float product = float(bf16(g * max)), gradient = x > 0 ? float(bf16(product + product)) : 0;
  squares[i] = f8e4m3(float(bf16(max * max)) * (1.0f / *o.scaleX));
  gradients[i] = f8e5m2(gradient * (1.0f / *o.scaleG));
  atomicMax(largest + i / columns, __float_as_uint(gradient < 0 ? -gradient : gradient));
}

/// Counts elements that are not the plain ones: by rows, of the two transposed, largest ones.
__global__ void compareKernel(Operands o, const uint8_t *squares, const uint8_t *gradients,
                              const unsigned *largest, unsigned *counts) {
  const int64_t i = blockIdx.x * 256LL + threadIdx.x, row = i / columns, column = i % columns;
  if (o.out[i].bits != gradients[i])
    atomicAdd(counts, 1u);
  if (o.squares[column * rows + row].bits != squares[i])
    atomicAdd(counts + 1, 1u);
  if (o.transposed[column * rows + row].bits != gradients[i])
    atomicAdd(counts + 2, 1u);
  if (column == 0 && __float_as_uint(o.largest[row]) != largest[row])
    atomicAdd(counts + 3, 1u);
}

struct Buffers {
  Operands o{};
  f8e4m3 *squares = allocate<f8e4m3>(elements);
  f8e5m2 *gradients = allocate<f8e5m2>(elements);
  unsigned *largest = allocate<unsigned>(rows), *counts = allocate<unsigned>(4);
  double copySeconds = 0;

  Buffers() {
    auto *x = allocate<bf16>(elements), *g = allocate<bf16>(elements);
    auto *scales = allocate<float>(2);
    fill<<<1024, 256>>>(x, elements, 7, 1);
    fill<<<1024, 256>>>(g, elements, 8, 1);
    const float powers[] = {1.0f / 16, 1.0f / 1024};
    CHECK(cudaMemcpy(scales, powers, sizeof powers, cudaMemcpyHostToDevice));
    o = {x,
         g,
         scales,
         scales + 1,
         allocate<float>(rows),
         allocate<f8e4m3>(elements),
         allocate<f8e5m2>(elements),
         allocate<f8e5m2>(elements)};
    CHECK(cudaMemset(largest, 0, rows * sizeof(unsigned)));
    plainKernel<<<unsigned(elements / 256), 256>>>(o, squares, gradients, largest);
    auto *copy = allocate<bf16>(elements * 7 / 4);
    auto *from = allocate<bf16>(elements * 7 / 4);
    copySeconds = medianSeconds(
        [&] { CHECK(cudaMemcpyAsync(copy, from, elements * 7 / 2, cudaMemcpyDeviceToDevice)); });
    CHECK(cudaFree(copy));
    CHECK(cudaFree(from));
  }
};

template <class V> void measure(const char *name, Buffers &b) {
  constexpr int shared = V::tileRows * tileColumns * 2;
  auto *kernel = stripKernel<V>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  int resident = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, V::threads, shared));
  auto run = [&] {
    kernel<<<rows / V::tileRows, V::threads, shared>>>(b.o);
    CHECK(cudaGetLastError());
  };
  CHECK(cudaMemset(b.o.out, 0xaa, elements));
  CHECK(cudaMemset(b.o.squares, 0xaa, elements));
  CHECK(cudaMemset(b.o.transposed, 0xaa, elements));
  CHECK(cudaMemset(b.counts, 0, 16));
  run();
  compareKernel<<<unsigned(elements / 256), 256>>>(
      b.o, reinterpret_cast<const uint8_t *>(b.squares),
      reinterpret_cast<const uint8_t *>(b.gradients), b.largest, b.counts);
  unsigned counts[4];
  CHECK(cudaMemcpy(counts, b.counts, 16, cudaMemcpyDeviceToHost));
  const bool right = !counts[0] && !counts[1] && !counts[2] && !counts[3];
  allRight &= right;
  const double seconds = medianSeconds(run);
  std::printf("  %-44s %6.1f us, %.3f of a copy; %d registers, %d blocks%s\n", name, seconds * 1e6,
              b.copySeconds / seconds, attributes.numRegs, resident, right ? "" : "  WRONG");
  if (!right)
    std::printf("    %u %u %u %u differ\n", counts[0], counts[1], counts[2], counts[3]);
}

void strips() {
  Buffers b;
  std::printf("%d x %d, two of bf16 read, three of 8 bits written: a device copy of as many bytes "
              "%.1f us\n",
              rows, columns, b.copySeconds * 1e6);
  measure<Variant<64, 512, 2>>("64 rows, 512 threads", b);
  measure<Variant<64, 512, 2, true>>("64 rows, 512 threads, by words", b);
  measure<Variant<128, 1024, 1>>("128 rows, 1024 threads", b);
  measure<Variant<128, 1024, 1, true>>("128 rows, 1024 threads, by words", b);
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "StripCudaBench: a kernel that writes rows and columns of whole strips on GPU 0 against\n"
          "plain loops, and its time against a device copy of as many bytes. Exit status 1 when a\n"
          "result is wrong. Takes no options."))
    return *status;
  describeDevice();
  strips();
  return conclude();
}
