// A tile kernel on a GPU, as nanoc makes it for the gradient of a head's logits: rows of bf16 read
// once, a gradient in 8 bits written by rows and transposed; against plain loops, and its time
// against a device copy of as many bytes.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuBench.cuh"
#include "codegen/device/nano_tiles.h"

namespace {
using namespace nano::bench;
using nano::bf16;
using Narrow = nano::f8e5m2;

/// The matrix, and the numbers of the gradient.
constexpr int rows = 3072, columns = 50304;
constexpr float slope = 0.004811252f, cap = 30.0f;
/// Of a tile, as CudaTiles chooses them.
constexpr int tileColumns = 128, threads = 256, lanes = 8;
constexpr int group = tileColumns / lanes, rowsOfTurn = threads / group;
constexpr int across = columns / tileColumns;

using Launch = nano::Launch<6, 1>;

enum class Math {
  Rounding, ///< only the rounding to 8 bits: what moves the elements
  Generated ///< the gradient as nanoc writes it
};
enum class Structure {
  Rows,   ///< a block computes a tile and writes it twice by rows
  Blocks, ///< a block computes a tile: loads, computes, loads, computes, writes columns
  Early   ///< likewise, but the next rows' loads are under way while some are computed
};

/// `Rows`: of a tile. `Ahead`: turns whose loads are under way together. `Bands`: bands of tiles
/// that are walked column by column. `Blocks`: on a multiprocessor, at least.
template <Math M, Structure S = Structure::Blocks, int Rows = 128, int Ahead = 4, int Bands = 1,
          int Blocks = 4>
struct Variant {
  static constexpr Math math = M;
  static constexpr Structure structure = S;
  static constexpr int tileRows = Rows, ahead = Ahead, bands = Bands, blocks = Blocks;
  static constexpr int turns = tileRows / rowsOfTurn, down = rows / tileRows, tiles = across * down;
  static_assert(rows % tileRows == 0 && turns % ahead == 0 && down % bands == 0);
};

struct Operands {
  const bf16 *logits;
  const int *targets;
  const float *scale, *sums;
  Narrow *out, *transposed;
  NANO_DEVICE explicit Operands(const nano::Work &work)
      : logits(work.pointer<const bf16>(0)), targets(work.pointer<const int>(1)),
        scale(work.pointer<const float>(2)), sums(work.pointer<const float>(3)),
        out(work.pointer<Narrow>(4)), transposed(work.pointer<Narrow>(5)) {}
};

struct Place {
  int64_t row, column;
};
template <class V> NANO_DEVICE Place placeOf(int64_t tile) {
  const int64_t first = tile / (V::bands * across), within = tile % (V::bands * across);
  return {(first * V::bands + within % V::bands) * V::tileRows, within / V::bands * tileColumns};
}

/// What becomes of the gradient at eight columns of a row.
template <Math M, class Store>
NANO_DEVICE void gradient(const nano::Vec<bf16, 8> &x, int64_t column, int target, float sum,
                          float inverse, Store store) {
  constexpr float most = cap, steep = slope;
  const auto wide = nano::to<float>(x);
  if constexpr (M == Math::Rounding) {
    store(nano::to<Narrow>(wide * (sum * 1e-6f)));
  } else {
    const bool hasTarget = uint64_t(int64_t(target) - column) < uint64_t(8);
    const float ofRow = nano::quotient(1.0f, sum);
    const float factor = cap * inverse * ofRow * slope;
    if (hasTarget) {
      const auto s = nano::sigmoid(wide, slope);
      const auto e = nano::exponential(s, cap, -cap);
      const auto rest = 1.0f - s;
      const auto atTarget = nano::fma(e, ofRow, -1.0f) * most * s * rest * steep;
      store(nano::to<Narrow>(nano::select(int(column) + nano::laneNumbers<8>() == target,
                                          atTarget * inverse, s * rest * e * factor)));
    } else {
      const auto s = nano::sigmoid(wide, slope);
      const auto e = nano::exponential(s, cap, -cap);
      store(nano::to<Narrow>(s * (1.0f - s) * e * factor));
    }
  }
}

template <class V> NANO_DEVICE int64_t inTile(int64_t row, int64_t offset) {
  using Shape = nano::TileShape<Narrow, V::tileRows>;
  return row * tileColumns + (offset ^ row / Shape::lanes % Shape::groups * Shape::unit);
}

template <class V>
__global__ void __launch_bounds__(threads, V::blocks)
    tileKernel(const __grid_constant__ Launch launch) {
  const auto work = launch.find(blockIdx.x, 1);
  const Operands o(work);
  constexpr int tileRows = V::tileRows, turns = V::turns;
  auto *gathered = nano::dynamicShared<Narrow>(0);
  const int64_t thread = nano::threadIndex(), inTurn = thread / group, offset = thread % group * 8;
  const auto storeColumns = [&](const Narrow *from, const Place &at) {
    nano::storeColumns<Narrow, tileRows, tileColumns, threads, 16>(
        from, o.transposed, at.column * rows + at.row, rows, tileRows, tileColumns);
  };
  const auto compute = [&](const nano::Vec<bf16, 8> &x, Narrow *tile, const Place &at,
                           int64_t local, int target, float sum, float inverse) {
    const int64_t column = at.column + offset;
    gradient<V::math>(x, column, target, sum, inverse, [&](const nano::Vec<Narrow, 8> &result) {
      nano::store<8>(o.out + ((at.row + local) * columns + column), result);
      if constexpr (V::structure == Structure::Rows)
        nano::store<8>(o.transposed + ((at.row + local) * columns + column), result);
      else
        nano::store<8>(tile + inTile<V>(local, offset), result);
    });
  };

  if constexpr (V::structure <= Structure::Blocks) {
    const Place at = placeOf<V>(work.begin);
    const float inverse = nano::quotient(1.0f, nano::read(o.scale));
#pragma unroll 1
    for (int turn = 0; turn < turns; turn += V::ahead) {
      nano::Held<bf16, 8> held[V::ahead];
      int targets[V::ahead];
      float sums[V::ahead];
#pragma unroll
      for (int i = 0; i < V::ahead; ++i) {
        const int64_t row = at.row + ((turn + i) * rowsOfTurn + inTurn);
        targets[i] = nano::read(o.targets + row);
        sums[i] = nano::read(o.sums + row);
      }
#pragma unroll
      for (int i = 0; i < V::ahead; ++i)
        held[i] =
            nano::read<8>(o.logits + ((at.row + ((turn + i) * rowsOfTurn + inTurn)) * columns +
                                      at.column + offset));
#pragma unroll
      for (int i = 0; i < V::ahead; ++i)
        compute(held[i].elements(), gathered, at, (turn + i) * rowsOfTurn + inTurn, targets[i],
                sums[i], inverse);
    }
    if constexpr (V::structure == Structure::Blocks) {
      nano::syncBlock();
      storeColumns(gathered, at);
    }
  } else if constexpr (V::structure == Structure::Early) {
    const auto load = [&](nano::Held<bf16, 8> *held, int *targets, float *sums, const Place &at,
                          int turn) {
#pragma unroll
      for (int i = 0; i < V::ahead; ++i) {
        const int64_t row = at.row + ((turn + i) * rowsOfTurn + inTurn);
        held[i] = nano::read<8>(o.logits + (row * columns + at.column + offset));
        targets[i] = nano::read(o.targets + row);
        sums[i] = nano::read(o.sums + row);
      }
    };
    nano::Held<bf16, 8> held[V::ahead];
    int targets[V::ahead];
    float sums[V::ahead];
    const Place at = placeOf<V>(work.begin);
    load(held, targets, sums, at, 0);
    const float inverse = nano::quotient(1.0f, nano::read(o.scale));
#pragma unroll 1
    for (int turn = 0; turn < turns; turn += V::ahead) {
      nano::Held<bf16, 8> later[V::ahead];
      int laterTargets[V::ahead];
      float laterSums[V::ahead];
      if (turn + V::ahead < turns)
        load(later, laterTargets, laterSums, at, turn + V::ahead);
#pragma unroll
      for (int i = 0; i < V::ahead; ++i)
        compute(held[i].elements(), gathered, at, (turn + i) * rowsOfTurn + inTurn, targets[i],
                sums[i], inverse);
#pragma unroll
      for (int i = 0; i < V::ahead; ++i) {
        held[i] = later[i];
        targets[i] = laterTargets[i];
        sums[i] = laterSums[i];
      }
    }
    nano::syncBlock();
    storeColumns(gathered, at);
  }
}

/// The gradient in double precision, rounded once; one thread an element.
__global__ void plainKernel(const bf16 *logits, const int *targets, const float *scale,
                            const float *sums, Narrow *out, bool rounding) {
  const int64_t i = blockIdx.x * 256LL + threadIdx.x, row = i / columns, column = i % columns;
  const double x = float(logits[i]), inverse = 1.0 / *scale;
  const double s = 1 / (1 + ::exp(-double(slope) * x));
  const double e = ::exp(double(cap) * s - double(cap));
  const double atRow = e / sums[row] - (targets[row] == column ? 1 : 0);
  const double value = atRow * cap * s * (1 - s) * slope * inverse;
  out[i] = Narrow(float(rounding ? x * double(sums[row] * 1e-6f) : value));
}

__global__ void setRows(int *targets, float *sums, float *scale) {
  const int row = blockIdx.x * 256 + threadIdx.x;
  targets[row] = int(row * 2654435761u % unsigned(columns));
  sums[row] = 5000.0f + float(row);
  *scale = 1e-7f;
}

/// Counts elements that differ from the plain ones, by more than the neighbouring number, and
/// transposed ones that differ from those by rows.
__global__ void compareKernel(const uint8_t *plain, const uint8_t *out, const uint8_t *transposed,
                              unsigned *counts, bool isTransposed) {
  const int64_t i = blockIdx.x * 256LL + threadIdx.x, row = i / columns, column = i % columns;
  const int distance = int(plain[i]) - int(out[i]);
  if (distance != 0)
    atomicAdd(counts, 1u);
  if (distance < -1 || distance > 1)
    atomicAdd(counts + 1, 1u);
  if (out[i] != transposed[isTransposed ? column * rows + row : i])
    atomicAdd(counts + 2, 1u);
}

struct Buffers {
  static constexpr int64_t elements = int64_t(rows) * columns;
  bf16 *logits = allocate<bf16>(elements);
  int *targets = allocate<int>(rows);
  float *scale = allocate<float>(1), *sums = allocate<float>(rows);
  uint8_t *plain = allocate<uint8_t>(elements), *out = allocate<uint8_t>(elements),
          *transposed = allocate<uint8_t>(elements);
  unsigned *counts = allocate<unsigned>(3);
  double copySeconds = 0;

  Buffers() {
    fill<<<1024, 256>>>(logits, elements, 7, 400);
    setRows<<<rows / 256, 256>>>(targets, sums, scale);
    auto *copy = allocate<bf16>(elements);
    copySeconds = medianSeconds(
        [&] { CHECK(cudaMemcpyAsync(copy, logits, elements * 2, cudaMemcpyDeviceToDevice)); });
    CHECK(cudaFree(copy));
  }
};

template <class V> void measure(const char *name, Buffers &b) {
  constexpr int shared = V::tileRows * tileColumns;
  auto *kernel = tileKernel<V>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  int resident = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared));
  Launch launch{};
  launch.segments = 1;
  launch.blocks = V::tiles;
  void *args[] = {b.logits, b.targets, b.scale, b.sums, b.out, b.transposed};
  std::copy(std::begin(args), std::end(args), launch.segment[0].args);
  launch.segment[0].iterations = V::tiles;
  auto run = [&] {
    kernel<<<V::tiles, threads, shared>>>(launch);
    CHECK(cudaGetLastError());
  };
  CHECK(cudaMemset(b.out, 0x55, Buffers::elements));
  CHECK(cudaMemset(b.transposed, 0xaa, Buffers::elements));
  CHECK(cudaMemset(b.counts, 0, 12));
  run();
  const unsigned all = unsigned(Buffers::elements / 256);
  plainKernel<<<all, 256>>>(b.logits, b.targets, b.scale, b.sums,
                            reinterpret_cast<Narrow *>(b.plain), V::math == Math::Rounding);
  compareKernel<<<all, 256>>>(b.plain, b.out, b.transposed, b.counts,
                              V::structure != Structure::Rows);
  unsigned counts[3];
  CHECK(cudaMemcpy(counts, b.counts, 12, cudaMemcpyDeviceToHost));
  // A relative error of some 2^-19 moves one number in 2^16 over the middle between two of f8.
  const bool right = counts[0] < Buffers::elements / 4096 && counts[1] == 0 && counts[2] == 0;
  allRight &= right;
  const double seconds = medianSeconds(run);
  std::printf("  %-44s %6.1f us, %.3f of a copy; %d registers, %d blocks; %u rounded otherwise%s\n",
              name, seconds * 1e6, b.copySeconds / seconds, attributes.numRegs, resident, counts[0],
              right ? "" : "  WRONG");
}

void tileVariants() {
  Buffers b;
  std::printf("%d x %d, bf16 read, 8 bits written by rows and transposed: a device copy of as many "
              "bytes %.1f us\n",
              rows, columns, b.copySeconds * 1e6);
  using enum Math;
  using enum Structure;
  measure<Variant<Generated>>("generated", b);
  measure<Variant<Generated, Blocks, 256>>("generated, 256 rows", b);
  measure<Variant<Generated, Blocks, 256, 4, 12>>("generated, 256 rows, 12 bands", b);
  measure<Variant<Generated, Blocks, 256, 2, 1, 6>>("generated, 256 rows, 2 ahead, 6 blocks", b);
  measure<Variant<Generated, Early, 256, 2>>("generated, 256 rows, early", b);
  measure<Variant<Rounding>>("rounding", b);
  measure<Variant<Rounding, Blocks, 256>>("rounding, 256 rows", b);
  measure<Variant<Rounding, Rows>>("rounding, rows twice", b);
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "TileCudaBench: a kernel that writes rows and columns on GPU 0 against plain loops, and\n"
          "its time against a device copy of as many bytes. Exit status 1 when a result is wrong.\n"
          "Takes no options."))
    return *status;
  describeDevice();
  tileVariants();
  return conclude();
}
