// The attention templates on a GPU, as the rules of nano_attention_shape.h choose them: results
// against a double-precision reference, then times. Prints TFLOP/s by the usual count: 2·(Dh + Dv)
// a visible pair forward, 6·Dh + 4·Dv backward, whatever a template really computes. How other
// tiles fare, `nanoc compile --candidates` and `nanorun --tune` say, on a run's own data.
#include "benchmarks/Help.h"
#include "benchmarks/cuda/GpuMaps.cuh"
#include "codegen/device/nano_attention.h"
#include "ir/kernel/shapes/nano_attention_launch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace {
using namespace nano::bench;

//===- Data ---------------------------------------------------------------===//

__global__ void rowDots(const nano::bf16 *a, const nano::bf16 *b, float *result, long long rows,
                        int size) {
  const long long row = blockIdx.x * 8LL + threadIdx.x / 32;
  if (row >= rows)
    return;
  float sum = 0;
  for (int d = threadIdx.x % 32; d < size; d += 32)
    sum += float(a[row * size + d]) * float(b[row * size + d]);
  sum = nano::warpSum(sum);
  if (threadIdx.x % 32 == 0)
    result[row] = sum;
}

/// Documents as in web text, of some hundreds of tokens with a long tail, or of one length; a
/// window of `window` blocks of 128 keys.
struct Mask {
  std::vector<int> first, last;
  double pairs = 0; ///< of one head
  static Mask make(int tokens, int documentLength, int window, unsigned seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> lengths(6.2, 1.0);
    Mask mask;
    int start = 0, end = 0;
    for (int t = 0; t < tokens; ++t) {
      if (t == end) {
        start = t;
        end = t + (documentLength ? documentLength : 16 + int(lengths(random)));
      }
      mask.first.push_back(std::max(start, (t / 128 - window + 1) * 128));
      mask.last.push_back(t);
      mask.pairs += t - mask.first.back() + 1;
    }
    return mask;
  }
};

struct Arguments {
  void *q, *k, *v, *dy, *first, *last, *y, *lse, *delta, *dq, *dk, *dv, *tickets, *partial;
  nano::TensorMap maps[4]; ///< of q, k, v and dy, where the kernel has them
};

/// A map of a matrix [rows, columns] with boxes of 64 columns.
nano::TensorMap mapOf(void *matrix, long long rows, int columns, int boxRows) {
  const nano::plan::TensorMap described = {.columns = uint64_t(columns),
                                           .rows = uint64_t(rows),
                                           .rowBytes = 2 * uint64_t(columns),
                                           .boxColumns = 64,
                                           .boxRows = uint32_t(boxRows),
                                           .swizzleBytes = 128};
  return encoded(described, matrix);
}

template <int Tokens, int Heads, int HeadSize, bool Capped = false, int Multiprocessors = 132,
          int ValueSize = HeadSize, int KeyHeads = Heads>
struct Attention {
  using Element = nano::bf16;
  static constexpr int tokens = Tokens, heads = Heads, keyHeads = KeyHeads, headSize = HeadSize,
                       valueSize = ValueSize, multiprocessors = Multiprocessors;
  static constexpr bool vectorRows = true, hasScore = Capped;
  static constexpr float scale = 0.12f;
  // A soft cap, for the templates' paths with a score function.
  static NANO_DEVICE float score(float s, int, int, int) { return 8 * nano::tanh(s / 8); }
  static NANO_DEVICE float scoreGrad(float s, int, int, int, float gradient) {
    const float t = nano::tanh(s / 8);
    return gradient * (1 - t * t);
  }
};

/// With tensor maps, as plans have them.
template <class A> struct Mapped : A {
  static constexpr bool hasMaps = nano::attentionOnTensorCores(nano::attentionShapeOf<A>);
};
template <class A> struct MappedGrad : A {
  static constexpr bool hasMaps = nano::attentionGradTakesMaps(nano::attentionShapeOf<A>, false);
};
/// The gradients by tickets.
template <class A> struct ByTickets : Mapped<A> {
  static constexpr bool hasTickets = true;
};
/// Causal rows of so many tokens, and their gradients in five products.
template <class A, int Row> struct OfRows : Mapped<A> {
  static constexpr int row = Row;
};
/// Where they can have some.
template <class A>
constexpr bool hasByTickets = nano::attentionOnTensorCores(nano::attentionShapeOf<A>) &&
                              !A::hasScore && !nano::attentionSplitsKeys(A::headSize, A::valueSize);

template <class A> __device__ nano::AttentionOperands<A> forwardOperands(const Arguments &a) {
  using E = typename A::Element;
  constexpr int row = A::heads * A::headSize, keyRow = A::keyHeads * A::headSize,
                valueRow = A::keyHeads * A::valueSize, resultRow = A::heads * A::valueSize;
  nano::AttentionOperands<A> x;
  x.q = {static_cast<const E *>(a.q), row, A::headSize};
  x.k = {static_cast<const E *>(a.k), keyRow, A::headSize};
  x.v = {static_cast<const E *>(a.v), valueRow, A::valueSize};
  x.first = {static_cast<const int *>(a.first)};
  x.last = {static_cast<const int *>(a.last)};
  x.y[0] = {static_cast<E *>(a.y), resultRow, A::valueSize};
  x.lse[0] = {static_cast<float *>(a.lse), A::heads, 1};
  x.maps = a.maps;
  x.tickets = static_cast<int32_t *>(a.tickets);
  return x;
}

template <class A> __device__ nano::AttentionGradOperands<A> gradOperands(const Arguments &a) {
  using E = typename A::Element;
  constexpr int row = A::heads * A::headSize, keyRow = A::keyHeads * A::headSize,
                valueRow = A::keyHeads * A::valueSize, resultRow = A::heads * A::valueSize;
  nano::AttentionGradOperands<A> x;
  x.q = {static_cast<const E *>(a.q), row, A::headSize};
  x.k = {static_cast<const E *>(a.k), keyRow, A::headSize};
  x.v = {static_cast<const E *>(a.v), valueRow, A::valueSize};
  x.first = {static_cast<const int *>(a.first)};
  x.last = {static_cast<const int *>(a.last)};
  x.lse = {static_cast<const float *>(a.lse), A::heads, 1};
  x.delta = {static_cast<const float *>(a.delta), A::heads, 1};
  x.dy = {static_cast<const E *>(a.dy), resultRow, A::valueSize};
  x.dq[0] = {static_cast<E *>(a.dq), row, A::headSize};
  x.dk[0] = {static_cast<E *>(a.dk), keyRow, A::headSize};
  x.dv[0] = {static_cast<E *>(a.dv), valueRow, A::valueSize};
  x.maps = a.maps;
  x.tickets = x.counts = static_cast<int32_t *>(a.tickets);
  x.partial = static_cast<float *>(a.partial);
  return x;
}

//===- Kernels under test -------------------------------------------------===//

template <class A>
constexpr int forwardThreads = nano::attentionForwardLaunch(nano::attentionShapeOf<A>).threads;
template <class A>
constexpr int gradThreads = nano::attentionGradLaunch(nano::attentionShapeOf<A>).threads;

template <class A>
__global__ void __launch_bounds__(forwardThreads<A>, 1)
    forwardKernel(const __grid_constant__ Arguments a) {
  nano::attentionForward<A>(blockIdx.x, forwardOperands<A>(a));
}
template <class A>
__global__ void __launch_bounds__(gradThreads<A>, 1)
    backwardKernel(const __grid_constant__ Arguments a) {
  nano::attentionBackward<A>(blockIdx.x, gradOperands<A>(a));
}
template <class A>
__global__ void __launch_bounds__(nano::RowTiles::threads, 1)
    rowsKernel(const __grid_constant__ Arguments a) {
  nano::attentionBackwardInFive<A>(gradOperands<A>(a));
}
enum class Part { Forward, Backward };

struct Variant {
  std::string name;
  Part part;
  void (*kernel)(Arguments);
  nano::TemplateLaunch launch;
  int boxQueries = 0, boxKeys = 0; ///< rows of tensor maps' boxes; 0: there are none
};

template <class A> std::vector<Variant> variants() {
  constexpr nano::AttentionShape shape = nano::attentionShapeOf<Mapped<A>>;
  Variant forward = {"forward", Part::Forward, forwardKernel<Mapped<A>>,
                     nano::attentionForwardLaunch(shape)},
          backward = {"backward", Part::Backward, backwardKernel<MappedGrad<A>>,
                      nano::attentionGradLaunch(nano::attentionShapeOf<MappedGrad<A>>)};
  if constexpr (Mapped<A>::hasMaps) {
    constexpr nano::AttentionBoxes boxes = nano::attentionBoxes(shape);
    forward.boxQueries = boxes.queries;
    forward.boxKeys = boxes.keys;
  }
  if (MappedGrad<A>::hasMaps)
    backward.boxQueries = backward.boxKeys = nano::attentionGradBoxRows(shape);
  std::vector<Variant> all = {forward, backward};
  if constexpr (hasByTickets<A>) {
    Variant byTickets = {"backward by tickets", Part::Backward, backwardKernel<ByTickets<A>>,
                         nano::attentionGradLaunch(nano::attentionShapeOf<ByTickets<A>>)};
    byTickets.boxQueries = byTickets.boxKeys = nano::attentionGradBoxRows(shape);
    all.push_back(byTickets);
  }
  return all;
}
/// The forward pass of causal rows and their gradients in five products, where the rules take them.
template <class A, int... rows> std::vector<Variant> variantsOfRows(int wanted) {
  std::vector<Variant> found;
  auto add = [&]<int row>(std::integral_constant<int, row>) {
    constexpr nano::AttentionShape shape = nano::attentionShapeOf<Mapped<A>>;
    if constexpr (nano::attentionForwardOfRows(shape, row))
      if (row == wanted) {
        constexpr nano::AttentionShape ofRows = nano::attentionShapeOf<OfRows<A, row>>;
        constexpr nano::AttentionBoxes boxes = nano::attentionBoxes(ofRows);
        found.push_back({"forward of rows", Part::Forward, forwardKernel<OfRows<A, row>>,
                         nano::attentionForwardLaunch(ofRows), boxes.queries, boxes.keys});
      }
    if constexpr (nano::attentionOfRows(shape, row) || nano::attentionFromEnds(shape, row))
      if (row == wanted)
        found.push_back(
            {nano::attentionHasWholeRows(shape, row) ? "backward of rows" : "backward from ends",
             Part::Backward, rowsKernel<OfRows<A, row>>, nano::attentionInFive(shape, row).launch,
             nano::attentionGradBoxRows(shape), nano::attentionGradBoxRows(shape)});
  };
  (add(std::integral_constant<int, rows>()), ...);
  return found;
}
//===- Reference ----------------------------------------------------------===//

struct Sample {
  int head, token, from, to; ///< from … to − 1: keys of a query, or queries of a key of all heads
};

template <class Reduce>
__device__ double reduceBlock(double value, double *scratch, Reduce reduce) {
  scratch[threadIdx.x] = value;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      scratch[threadIdx.x] = reduce(scratch[threadIdx.x], scratch[threadIdx.x + half]);
    __syncthreads();
  }
  const double result = scratch[0];
  __syncthreads();
  return result;
}

template <class A>
__device__ void scoreAndGrad(double raw, int q, int k, int h, double &score, double &slope) {
  score = raw;
  slope = 1;
  if (A::hasScore) {
    score = A::score(float(raw), q, k, h);
    slope = A::scoreGrad(float(raw), q, k, h, 1);
  }
}

/// One block of 128 threads a sample: y, dq (of a query) or dk, dv (of a key) and lse in doubles.
/// `scratch` has room for two numbers of each of `longest` scores a sample.
template <class A, bool ofQueries>
__global__ void reference(Arguments a, const Sample *samples, double *results, double *scratch,
                          int longest) {
  constexpr int D = A::headSize, valueD = A::valueSize, sharing = A::heads / A::keyHeads;
  __shared__ double shared[128];
  const Sample sample = samples[blockIdx.x];
  const int ofHead = sample.to - sample.from, count = (ofQueries ? 1 : sharing) * ofHead;
  auto headOf = [&](int i) { return ofQueries ? sample.head : sample.head * sharing + i / ofHead; };
  auto other = [&](int i) { return sample.from + i % ofHead; };
  double *const weights = scratch + blockIdx.x * 2LL * longest, *const gradients = weights + count;
  const auto *q = static_cast<const nano::bf16 *>(a.q), *k = static_cast<const nano::bf16 *>(a.k),
             *v = static_cast<const nano::bf16 *>(a.v), *dy = static_cast<const nano::bf16 *>(a.dy);
  const auto *lse = static_cast<const float *>(a.lse), *delta = static_cast<const float *>(a.delta);
  auto row = [&](const nano::bf16 *x, int t, int h) {
    const bool ofKeys = x == k || x == v;
    return x + ((long long)t * (ofKeys ? A::keyHeads : A::heads) + (ofKeys ? h / sharing : h)) *
                   (x == v || x == dy ? valueD : D);
  };
  double largest = -1e300;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const int query = ofQueries ? sample.token : other(i),
              key = ofQueries ? other(i) : sample.token, h = headOf(i);
    double s = 0, product = 0, slope;
    for (int d = 0; d < D; ++d)
      s += double(float(row(q, query, h)[d])) * double(float(row(k, key, h)[d]));
    for (int d = 0; d < valueD; ++d)
      product += double(float(row(dy, query, h)[d])) * double(float(row(v, key, h)[d]));
    scoreAndGrad<A>(s * A::scale, query, key, h, weights[i], slope);
    gradients[i] = (product - delta[query * A::heads + h]) * slope;
    largest = fmax(largest, weights[i]);
  }
  __syncthreads();
  double logarithm = 0;
  if (ofQueries) {
    largest = reduceBlock(largest, shared, [](double x, double y) { return fmax(x, y); });
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
      sum += ::exp(weights[i] - largest);
    logarithm = largest + ::log(reduceBlock(sum, shared, [](double x, double y) { return x + y; }));
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    weights[i] =
        ::exp(weights[i] - (ofQueries ? logarithm : double(lse[other(i) * A::heads + headOf(i)])));
    gradients[i] *= weights[i] * A::scale;
  }
  __syncthreads();
  double *const result = results + blockIdx.x * (valueD + D + 1LL);
  for (int d = threadIdx.x; d < valueD; d += blockDim.x) {
    double weighted = 0;
    for (int i = 0; i < count; ++i)
      weighted += weights[i] * double(float(row(ofQueries ? v : dy, other(i), headOf(i))[d]));
    result[d] = weighted;
  }
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    double gradient = 0;
    for (int i = 0; i < count; ++i)
      gradient += gradients[i] * double(float(row(ofQueries ? k : q, other(i), headOf(i))[d]));
    result[valueD + d] = gradient;
  }
  if (threadIdx.x == 0)
    result[valueD + D] = logarithm;
}

//===- A case: one shape and mask -----------------------------------------===//

template <class A> class Case {
public:
  /// Of the larger heads, for which all operands have memory.
  static constexpr long long elements = (long long)A::tokens * A::heads *
                                        (A::headSize > A::valueSize ? A::headSize : A::valueSize),
                             statistics = (long long)A::tokens * A::heads;

  Case() {
    for (void **x : {&a.q, &a.k, &a.v, &a.dy, &a.y, &a.dq, &a.dk, &a.dv})
      *x = allocate<nano::bf16>(elements);
    for (void **x : {&a.lse, &a.delta})
      *x = allocate<float>(statistics);
    for (void **x : {&a.first, &a.last})
      *x = allocate<int>(A::tokens);
    a.tickets = allocate<int>(counts);
    a.partial = allocate<float>(sums);
    unsigned seed = 1;
    for (void *x : {a.q, a.k, a.v, a.dy})
      fill<<<1024, 256>>>(static_cast<nano::bf16 *>(x), elements, seed++, 1);
    CHECK(cudaDeviceSynchronize());
  }
  ~Case() {
    for (void *x : {a.q, a.k, a.v, a.dy, a.y, a.dq, a.dk, a.dv, a.lse, a.delta, a.first, a.last,
                    a.tickets, a.partial})
      cudaFree(x);
  }

  /// Chooses the mask, and makes right statistics with the chosen forward kernel.
  void use(const char *name, Mask m) {
    mask = std::move(m);
    CHECK(cudaMemcpy(a.first, mask.first.data(), A::tokens * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(a.last, mask.last.data(), A::tokens * 4, cudaMemcpyHostToDevice));
    std::printf("\n%s: T %d, H %d, Dh %d, Dv %d, %.0f keys a query\n", name, A::tokens, A::heads,
                A::headSize, A::valueSize, mask.pairs / A::tokens);
    std::mt19937 random(7);
    const int edges[] = {0, A::tokens - 1, A::tokens / 2, A::tokens / 3};
    queries.clear();
    keys.clear();
    for (int i = 0; i < 96; ++i) {
      const int t = i < 4 ? edges[i] : int(random() % A::tokens), h = random() % A::heads,
                keyHead = h / (A::heads / A::keyHeads);
      queries.push_back({h, t, mask.first[t], mask.last[t] + 1});
      const auto from = std::lower_bound(mask.last.begin(), mask.last.end(), t),
                 to = std::upper_bound(mask.first.begin(), mask.first.end(), t);
      keys.push_back({keyHead, t, int(from - mask.last.begin()), int(to - mask.first.begin())});
    }
    prepared = false;
    gradients.clear();
  }

  void test(const Variant &variant) {
    if (!prepared && variant.part != Part::Forward)
      std::exit((std::printf("a forward variant must be tested first\n"), 1));
    for (void *x : {a.y, a.dq, a.dk, a.dv})
      if (variant.part != Part::Forward ? x != a.y : x == a.y)
        CHECK(cudaMemset(x, 0xff, elements * 2));
    if (variant.part == Part::Forward)
      CHECK(cudaMemset(a.lse, 0xff, statistics * 4));
    launch(variant);
    CHECK(cudaDeviceSynchronize());
    if (variant.part == Part::Forward) {
      rowDots<<<unsigned((statistics + 7) / 8), 256>>>(
          static_cast<nano::bf16 *>(a.dy), static_cast<nano::bf16 *>(a.y),
          static_cast<float *>(a.delta), statistics, A::valueSize);
      prepared = true;
    }
    std::printf("%-48s", variant.name.c_str());
    const int D = A::headSize, valueD = A::valueSize;
    const std::vector<double> ofQueries = expected<true>(queries), ofKeys = expected<false>(keys);
    auto compare = [&](const char *name, void *actual, const std::vector<Sample> &samples,
                       const std::vector<double> &wanted, bool ofValues, int heads) {
      std::vector<uint16_t> rows(elements);
      CHECK(cudaMemcpy(rows.data(), actual, elements * 2, cudaMemcpyDeviceToHost));
      Difference difference;
      for (size_t i = 0; i < samples.size(); ++i) {
        std::vector<double> row;
        const int size = ofValues ? valueD : D;
        for (int d = 0; d < size; ++d)
          row.push_back(
              decode(rows[((long long)samples[i].token * heads + samples[i].head) * size + d]));
        difference.add(row, &wanted[i * (valueD + D + 1) + (ofValues ? 0 : valueD)]);
      }
      judge(name, difference);
    };
    if (variant.part == Part::Forward) {
      compare("y", a.y, queries, ofQueries, true, A::heads);
      std::vector<float> lse(statistics);
      CHECK(cudaMemcpy(lse.data(), a.lse, statistics * 4, cudaMemcpyDeviceToHost));
      Difference difference;
      for (size_t i = 0; i < queries.size(); ++i)
        difference.add(std::vector<double>{lse[queries[i].token * A::heads + queries[i].head]},
                       &ofQueries[i * (valueD + D + 1) + valueD + D]);
      judge("lse", difference, 1e-5, 1e-4); // f32
    }
    if (variant.part == Part::Backward) {
      compare("dq", a.dq, queries, ofQueries, false, A::heads);
      compare("dk", a.dk, keys, ofKeys, false, A::keyHeads);
      compare("dv", a.dv, keys, ofKeys, true, A::keyHeads);
    }
    // The same bits again, and of gradients in every form of seven products.
    std::vector<uint16_t> before = bits(variant), after = (launch(variant), bits(variant));
    bool same = before == after;
    if (variant.part == Part::Backward && variant.launch.threads != nano::RowTiles::threads) {
      if (gradients.empty())
        gradients = after;
      same &= gradients == after;
    }
    allRight &= same;
    std::printf("%s\n", same ? "" : "  NOT THE SAME BITS");
  }

  void time(const Variant &variant) {
    const double seconds = medianSeconds([&] { launch(variant); });
    constexpr double D = A::headSize, valueD = A::valueSize;
    const double flops = 2 * (variant.part == Part::Forward ? D + valueD : 3 * D + 2 * valueD);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(variant.kernel)));
    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, reinterpret_cast<const void *>(variant.kernel), variant.launch.threads,
        variant.launch.sharedBytes));
    std::printf("%-48s %8.3f ms  %6.1f TFLOP/s  %d registers, %zu B spilled, %d KB, %d blocks/SM\n",
                variant.name.c_str(), seconds * 1e3, flops * mask.pairs * A::heads / seconds / 1e12,
                attributes.numRegs, attributes.localSizeBytes, variant.launch.sharedBytes / 1024,
                blocks);
    std::fflush(stdout);
  }

private:
  void launch(const Variant &variant) {
    CHECK(cudaFuncSetAttribute(reinterpret_cast<const void *>(variant.kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               variant.launch.sharedBytes));
    if (variant.boxKeys > 0) {
      constexpr int row = A::heads * A::headSize, keyRow = A::keyHeads * A::headSize,
                    valueRow = A::keyHeads * A::valueSize, resultRow = A::heads * A::valueSize;
      if (mapped != variant.kernel) { // else their making is timed too
        a.maps[0] = mapOf(a.q, A::tokens, row, variant.boxQueries);
        a.maps[1] = mapOf(a.k, A::tokens, keyRow, variant.boxKeys);
        a.maps[2] = mapOf(a.v, A::tokens, valueRow, variant.boxKeys);
        a.maps[3] = mapOf(a.dy, A::tokens, resultRow, variant.boxKeys);
        mapped = variant.kernel;
      }
      CHECK(cudaMemsetAsync(a.tickets, 0, counts * sizeof(int)));
    }
    variant.kernel<<<unsigned(variant.launch.iterations), variant.launch.threads,
                     variant.launch.sharedBytes>>>(a);
    CHECK(cudaGetLastError());
  }

  std::vector<uint16_t> bits(const Variant &variant) {
    std::vector<uint16_t> all;
    auto add = [&](void *x) {
      all.resize(all.size() + elements);
      CHECK(
          cudaMemcpy(all.data() + all.size() - elements, x, elements * 2, cudaMemcpyDeviceToHost));
    };
    if (variant.part == Part::Forward)
      add(a.y);
    if (variant.part == Part::Backward)
      for (void *x : {a.dq, a.dk, a.dv})
        add(x);
    return all;
  }

  template <bool ofQueries> std::vector<double> expected(const std::vector<Sample> &samples) {
    const size_t count = samples.size() * (A::headSize + A::valueSize + 1);
    int longest = 0;
    for (const Sample &sample : samples)
      longest =
          std::max(longest, (ofQueries ? 1 : A::heads / A::keyHeads) * (sample.to - sample.from));
    auto *places = allocate<Sample>(samples.size());
    auto *results = allocate<double>(count);
    CHECK(cudaMemcpy(places, samples.data(), samples.size() * sizeof(Sample),
                     cudaMemcpyHostToDevice));
    auto *scratch = allocate<double>(samples.size() * 2 * longest);
    reference<A, ofQueries>
        <<<unsigned(samples.size()), 128>>>(a, places, results, scratch, longest);
    CHECK(cudaGetLastError());
    std::vector<double> host(count);
    CHECK(cudaMemcpy(host.data(), results, count * 8, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(places));
    CHECK(cudaFree(results));
    CHECK(cudaFree(scratch));
    return host;
  }

  /// Tickets, and sums and counts of five products: of a tile of 64 queries two units at most, or
  /// some of a multiprocessor.
  static constexpr long long counts = 1 + (long long)A::tokens * A::heads / 32 + A::multiprocessors,
                             sums = 2 * 128 *
                                    ((long long)A::tokens * A::heads + A::multiprocessors * 1024LL);
  Arguments a{};
  Mask mask;
  std::vector<Sample> queries, keys;
  std::vector<uint16_t> gradients; ///< bits of them with the mask
  bool prepared = false;
  void (*mapped)(Arguments) = nullptr; ///< whose maps there are
};

/// At a shape that is a multiple of nothing.
template <class A> void oddCase(const char *name) {
  Case<A> odd;
  odd.use(name, Mask::make(A::tokens, 0, 3, 11));
  for (const Variant &variant : variants<A>())
    odd.test(variant);
}

/// Causal in rows of so many tokens, then the times of shorter ones, and with documents and windows
/// of so many blocks.
template <class A>
void largeCase(std::initializer_list<int> rows, std::initializer_list<int> windows) {
  Case<A> large;
  bool isTested = false;
  auto run = [&](const std::string &name, int row, int window) {
    large.use(name.c_str(), Mask::make(A::tokens, row, window, 1));
    const std::vector<Variant> all = variants<A>(),
                               ofRows =
                                   variantsOfRows<A, 128, 256, 512, 1024, 2048, 4096, 8192, 16384>(
                                       row);
    for (const Variant &variant : all)
      if (!isTested || (!ofRows.empty() && variant.part == Part::Forward))
        large.test(variant);
    isTested = true;
    for (const Variant &variant : ofRows)
      large.test(variant);
    for (const std::vector<Variant> &some : {all, ofRows})
      for (const Variant &variant : some)
        large.time(variant);
  };
  for (int row : rows)
    run("causal rows of " + std::to_string(row), row, 1 << 20);
  for (int window : windows)
    run("documents, window of " + std::to_string(window), 0, window);
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "AttentionCudaBench: the attention templates on GPU 0 against a reference in doubles,\n"
          "then TFLOP/s in causal rows and with gpt124m's masks, of the gradients without and\n"
          "with tickets and of causal rows in five products. Exit status 1 when a result is wrong. "
          "Takes no options."))
    return *status;
  describeDevice();
  oddCase<Attention<1333, 3, 128, false, 7>>("odd");
  oddCase<Attention<1333, 3, 64, false, 5>>("odd");
  oddCase<Attention<777, 2, 128, true>>("odd, soft cap");
  oddCase<Attention<777, 2, 64, true>>("odd, soft cap");
  oddCase<Attention<777, 2, 192, true, 132, 128>>("odd, soft cap");
  oddCase<Attention<777, 2, 64, false, 5, 192>>("odd");
  oddCase<Attention<1333, 3, 128, false, 7, 64>>("odd");
  oddCase<Attention<1333, 3, 192, false, 7, 64>>("odd");
  oddCase<Attention<1333, 3, 96, false, 7>>("odd");
  oddCase<Attention<1333, 6, 128, false, 7, 128, 2>>("odd, shared keys");
  oddCase<Attention<777, 4, 48, true, 5, 80>>("odd, soft cap");
  oddCase<Attention<777, 2, 256, false, 7>>("odd");
  oddCase<Attention<777, 2, 256, true>>("odd, soft cap");
  largeCase<Attention<49152, 6, 128>>({8192, 1024, 512}, {14, 7, 2, 1});
  largeCase<Attention<49152, 12, 64>>({8192, 2048, 1024, 512, 256, 128}, {7});
  largeCase<Attention<16384, 32, 48>>({512}, {});
  largeCase<Attention<32768, 8, 128, false, 132, 128, 2>>({2048, 512}, {});
  largeCase<Attention<16384, 8, 128, false, 132, 128, 2>>({8192, 2048, 1024}, {});
  largeCase<Attention<16384, 32, 64, false, 132, 64, 8>>({2048}, {});
  largeCase<Attention<16384, 16, 192, false, 132, 128>>({8192}, {});
  largeCase<Attention<16384, 16, 192>>({8192}, {}); // values filled up
  largeCase<Attention<16384, 16, 64, false, 132, 128>>({8192}, {});
  largeCase<Attention<16384, 16, 128>>({16384, 8192, 4096, 2048, 1024}, {}); // keys filled up
  largeCase<Attention<16384, 16, 96>>({8192, 2048, 512}, {});
  largeCase<Attention<16384, 8, 256>>({8192}, {});
  largeCase<Attention<16384, 8, 256, true>>({8192}, {});
  return conclude();
}
