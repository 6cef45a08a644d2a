// Products of groups of rows with a matrix each (nano.grouped_matmul), and sums over groups of rows
// of their outer products (nano.grouped_outer). Where a group ends only a run knows: blocks find
// out which rows their tiles have.
//
// A generated kernel describes the op with a struct:
//
//   struct Grouped {
//     using Element = nano::bf16; // of the factors: nano::bf16 or float
//     using Result = nano::bf16;  // of y: nano::bf16 or float
//     static constexpr int rows = 32768, groups = 8, columns = 1024, inner = 768; // GroupedShape
//     static constexpr bool transpose = true; // of products: w is [groups, columns, inner]
//     // Of the launch on tensor cores, whose tensor maps describe both factors; 0: by
//     // multiply-adds, a tile an iteration.
//     static constexpr int blocks = 132;
//   };
//
// and calls groupedMatmul or groupedOuter. On tensor cores rows of results begin at multiples of 16
// bytes and matrices of results lie one behind the other. Sums are in order of what is summed over.
#pragma once

#include "nano_grouped_shape.h"
#include "nano_kernels.h"
#include "nano_matmul.h"
#include "nano_views.h"

namespace nano {

/// Goes through the groups, whose tiles have `side` rows, and then through the rows of none.
template <class S, int side> struct GroupWalk {
  VectorView<const int> ends;
  int group = -1, begin = 0, end = 0; ///< the rows of the group
  int before = 0;                     ///< tiles of those before it

  NANO_DEVICE int tiles() const { return int(divideUp(end - begin, side)); }
  NANO_DEVICE void next() {
    before += tiles();
    begin = end;
    const int last = ++group < S::groups ? ends.read(group) : S::rows;
    end = last > end ? (last < S::rows ? last : S::rows) : end;
  }
  /// Goes on to the group of a tile; false where there is no such tile.
  NANO_DEVICE bool find(int tile) {
    while (tile >= before + tiles()) {
      if (group == S::groups)
        return false;
      next();
    }
    return true;
  }
};

namespace hopper {

/// The pairs of tiles of a block's cluster: begin, begin + step, … before end. A pair's rows are
/// neighbours of one group. What clusters make at one time has its rows, or its matrix, in common.
template <class S> struct GroupedWork {
  using Tiles = MatmulTiles;
  using Walk = GroupWalk<S, Tiles::clusterBlocks * Tiles::rows>;
  static constexpr int columnTiles = int(divideUp(S::columns, Tiles::columns)),
                       step = S::blocks / Tiles::clusterBlocks;
  /// A group's last tiles may reach into the next one.
  struct Edge {
    int rows = 0;
    NANO_DEVICE bool exists(int row, int column) const {
      return row < rows && (S::columns % Tiles::columns == 0 || column < S::columns);
    }
  };
  int begin, end;
  mutable Walk walk; ///< pairs are asked for in order

  NANO_DEVICE GroupedWork(int block, const VectorView<const int> &ends)
      : begin(block / Tiles::clusterBlocks), walk{ends} {
    Walk all{ends};
    while (all.group + 1 < S::groups)
      all.next();
    end = (all.before + all.tiles()) * columnTiles;
  }
  NANO_DEVICE TilePlace<Edge> at(int pair) const {
    walk.find(pair / columnTiles);
    const int tile = (pair / columnTiles - walk.before) * Tiles::clusterBlocks + int(clusterRank());
    return {{walk.end}, walk.begin + tile * Tiles::rows, pair % columnTiles * Tiles::columns};
  }
};

/// Loads the block's rows and its half of the group's matrix, stage after stage, by a thread.
template <class P>
NANO_DEVICE void loadGrouped(const typename P::Work &work, const TensorMap &x, const TensorMap &w) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  constexpr uint16_t both = (1 << Tiles::clusterBlocks) - 1;
  constexpr TensorBox box = Tiles::bBox(P::transposeB, Stages::elementBytes);
  constexpr int boxBytes = box.rows * Tiles::rowBytes;
  auto &stages = Stages::get();
  prefetchTensorMap(x);
  prefetchTensorMap(w);
  StageCounter at;
  const int rank = int(clusterRank());
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    const auto tile = work.at(pair);
    const int group = work.walk.group;
#pragma unroll 1
    for (int step = 0; step < Stages::steps; ++step, at.advance()) {
      const int k = step * Stages::inner;
      mbarrierWait(&stages.empty[at.stage], (at.round & 1) ^ 1);
      Mbarrier *const full = &stages.full[at.stage];
      mbarrierArriveExpect(full, Tiles::stageBytes);
      bulkTensorLoad(stages.a(at.stage), x, k, tile.row, full);
      uint8_t *const part = stages.b(at.stage) + rank * boxBytes;
      if constexpr (P::transposeB) {
        bulkTensorLoadMulticast(part, w, k, group * P::columns + tile.column + rank * box.rows,
                                full, both);
      } else {
#pragma unroll
        for (int i = 0; i < Tiles::columns / box.columns; ++i)
          bulkTensorLoadMulticast(part + i * Tiles::clusterBlocks * boxBytes, w,
                                  tile.column + i * box.columns,
                                  group * P::inner + k + rank * box.rows, full, both);
      }
    }
  }
}

/// Sums of outer products as the templates of nano_matmul_stages.h know them; how many stages a
/// tile has depends on its group.
template <class S, int places> struct OuterProducts : ProductAlone {
  using ElementA = bf16;
  using ElementB = bf16;
  using Result = float;
  static constexpr int inner = GroupedOuterTiles::inner;
  static constexpr bool transposeA = true, transposeB = false, writesStages = true;
  struct Columns {};
  /// The tiles of all groups; their rows are those of all results.
  struct Work {
    using Tiles = MatmulTiles;
    static constexpr int pairRows = Tiles::clusterBlocks * Tiles::rows,
                         rowPairs = int(divideUp(S::inner, pairRows)),
                         columnTiles = int(divideUp(S::columns, Tiles::columns)),
                         ofGroup = rowPairs * columnTiles, end = S::groups * ofGroup,
                         step = S::blocks / Tiles::clusterBlocks;
    struct Edge {
      int rows = 0;
      NANO_DEVICE bool exists(int row, int column) const {
        return row < rows && (S::columns % Tiles::columns == 0 || column < S::columns);
      }
    };
    int begin;
    GroupWalk<S, OuterProducts::inner> walk;

    NANO_DEVICE Work(int block, const VectorView<const int> &ends)
        : begin(block / Tiles::clusterBlocks), walk{ends} {}
    /// The first row of the block's tile in its matrix, and its first column.
    static NANO_DEVICE int row(int pair) {
      return (pair % ofGroup / columnTiles * Tiles::clusterBlocks + int(clusterRank())) *
             Tiles::rows;
    }
    static NANO_DEVICE int column(int pair) { return pair % columnTiles * Tiles::columns; }
    NANO_DEVICE TilePlace<Edge> at(int pair) const {
      const int first = pair / ofGroup * S::inner;
      return {{first + S::inner}, first + row(pair), column(pair)};
    }
    /// Goes on to the group of a pair. One without rows has a stage of zeros, which lie behind all
    /// rows.
    NANO_DEVICE void enter(int pair) {
      while (walk.group < pair / ofGroup)
        walk.next();
    }
    NANO_DEVICE int steps() const { return walk.tiles() > 0 ? walk.tiles() : 1; }
    NANO_DEVICE int firstRow() const { return walk.tiles() > 0 ? walk.begin : S::rows; }
    /// How many rows of the last stage are the group's.
    NANO_DEVICE int inLast() const {
      return walk.tiles() > 0 ? walk.end - walk.begin - (walk.tiles() - 1) * OuterProducts::inner
                              : OuterProducts::inner;
    }
  };

  MatrixView<typename S::Result> w[places]; ///< rows of all groups

  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE Columns loadColumns(int) const { return {}; }
  NANO_DEVICE void store(int row, int column, const Vec<float, 4> &sums, Others, Columns) const {
#pragma unroll
    for (const auto &place : w)
      nano::store<4>(place.base + row * place.row + column, to<typename S::Result>(sums));
  }
};

template <class P>
NANO_DEVICE void loadOuter(typename P::Work work, const TensorMap &a, const TensorMap &b) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  constexpr uint16_t both = (1 << Tiles::clusterBlocks) - 1;
  constexpr TensorBox aBox = GroupedOuterTiles::aBox(), bBox = GroupedOuterTiles::bBox();
  constexpr int boxBytes = bBox.rows * Tiles::rowBytes;
  auto &stages = Stages::get();
  prefetchTensorMap(a);
  prefetchTensorMap(b);
  StageCounter at;
  const int rank = int(clusterRank());
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    work.enter(pair);
    const int row = work.row(pair), column = work.column(pair), steps = work.steps();
#pragma unroll 1
    for (int step = 0; step < steps; ++step, at.advance()) {
      const int k = work.firstRow() + step * Stages::inner;
      mbarrierWaitCluster(&stages.empty[at.stage], (at.round & 1) ^ 1);
      Mbarrier *const full = &stages.full[at.stage];
      mbarrierArriveExpect(full, Tiles::stageBytes);
#pragma unroll
      for (int i = 0; i < Tiles::rows / aBox.columns; ++i)
        bulkTensorLoad(stages.a(at.stage) + i * aBox.rows * Tiles::rowBytes, a,
                       row + i * aBox.columns, k, full);
#pragma unroll
      for (int i = 0; i < Tiles::columns / bBox.columns; ++i)
        bulkTensorLoadMulticast(stages.b(at.stage) + (rank + i * Tiles::clusterBlocks) * boxBytes,
                                b, column + i * bBox.columns, k + rank * bBox.rows, full, both);
    }
  }
}

/// Clears the rows of a stage from `first` on, which are the next group's, in both factors: by all
/// threads that multiply. The stage's bytes have come.
template <class P> NANO_DEVICE void clearRows(int stage, int first) {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  constexpr int threads = 32 * Tiles::warps, inRow = Tiles::rowBytes / 16,
                boxBytes = Stages::inner * Tiles::rowBytes;
  const int chunks = (Stages::inner - first) * inRow;
  for (int i = int(threadIdx.x); i < chunks; i += threads)
#pragma unroll
    for (int box = 0; box < Tiles::stageBytes / boxBytes; ++box)
      *reinterpret_cast<Vec<uint32_t, 4> *>(Stages::a(stage) + box * boxBytes +
                                            first * Tiles::rowBytes + 16 * i) = {};
  fenceProxyAsync();
  barrierSync(1, threads);
}

template <class P> NANO_DEVICE void multiplyOuter(typename P::Work work, const P &x, int warp) {
  using Stages = MatmulStages<P>;
  auto &stages = Stages::get();
  Multiplier<P> multiplier(warp);
  WideEpilogue<P> epilogue(x, warp);
#pragma unroll 1
  for (int pair = work.begin; pair < work.end; pair += work.step) {
    work.enter(pair);
    const int steps = work.steps(), inLast = work.inLast();
    int step = 0;
#pragma unroll 1
    do { // there is one, which the compiler has to see: else the tensor cores' work is put in order
      if (step + 1 == steps && inLast < Stages::inner) {
        mbarrierWait(&stages.full[multiplier.at.stage], multiplier.at.round & 1);
        clearRows<P>(multiplier.at.stage, inLast);
      }
      multiplier.multiply(step);
    } while (++step < steps);
    epilogue.begin(work.at(pair));
    multiplier.end();
    epilogue.finish(multiplier.sums);
  }
}

/// The roles of a block's warps: those that multiply, and one that loads by a thread.
template <class Multiply, class Load>
NANO_DEVICE void multiplyAndLoad(const Multiply &multiply, const Load &load) {
  constexpr int loading = MatmulTiles::warps; // the warp
  const int warp = shuffle(warpIndex(), 0);   // known to be one number for a warp
  if (warp < loading) {
    increaseRegisters<232>();
    multiply(warp);
  } else {
    decreaseRegisters<40>();
    if (warp == loading && laneIndex() == 0)
      load();
    syncWarp();
  }
  clusterSync(); // nobody leaves while the other block's loads or arrivals are still to come
}

} // namespace hopper

/// A product of groups, as nano_matmul.h knows it.
template <class S, int places> struct GroupedMatmul {
  using ElementA = typename S::Element;
  using ElementB = typename S::Element;
  using Result = typename S::Result;
  using Work = hopper::GroupedWork<S>;
  static constexpr int rows = S::rows, columns = S::columns, inner = S::inner, blocks = S::blocks,
                       sums = 0, products = 1, copies = 0, maxima = 0, turned = 0;
  static constexpr bool transposeA = false, transposeB = S::transpose, addsColumns = false;
  struct Others {};
  struct Columns {};

  MatrixView<const typename S::Element> x;
  MatricesView<const typename S::Element> w;
  VectorView<const int> ends;
  MatrixView<Result> y[places];

  NANO_DEVICE Others load(int, int) const { return {}; }
  NANO_DEVICE Columns loadColumns(int) const { return {}; }
  template <int N>
  NANO_DEVICE void store(int row, int column, const Vec<Result, N> &product, Others = {},
                         Columns = {}) const {
#pragma unroll
    for (const auto &place : y)
      nano::store<N>(place.base + row * place.row + column, product);
  }
};

/// Sums of outer products of the rows of a and b.
template <class S, int places> struct GroupedOuter {
  MatrixView<const typename S::Element> a, b;
  VectorView<const int> ends;
  MatricesView<typename S::Result> w[places];
};

/// A tile of results by multiply-adds, of which a thread has four rows and four columns.
struct PlainGroupedTile {
  using Tiles = GroupedTiles;
  float *const a = dynamicShared<float>(), *const b = a + Tiles::depth * Tiles::stride;
  const int row = int(threadIdx.x) / (Tiles::side / 4) * 4,
            column = int(threadIdx.x) % (Tiles::side / 4) * 4;
  float sums[4][4] = {};

  /// Puts element (i, k) of a factor, f(i, k), at [k][i]. Neighbours of i are neighbours in memory
  /// where `alongI`, else those of k.
  template <bool alongI, class F> static NANO_DEVICE void fill(float *to, const F &f) {
    for (int j = int(threadIdx.x); j < Tiles::side * Tiles::depth; j += Tiles::threads) {
      const int i = alongI ? j % Tiles::side : j / Tiles::depth,
                k = alongI ? j / Tiles::side : j % Tiles::depth;
      to[k * Tiles::stride + i] = f(i, k);
    }
  }
  /// Adds up `count` products; both factors by their element from one on.
  template <bool alongA, bool alongB, class A, class B>
  NANO_DEVICE void multiply(int count, const A &ofA, const B &ofB) {
    for (int first = 0; first < count; first += Tiles::depth) {
      auto from = [&](const auto &f) {
        return [&, first](int i, int k) { return first + k < count ? f(i, first + k) : 0.0f; };
      };
      fill<alongA>(a, from(ofA));
      fill<alongB>(b, from(ofB));
      syncThreads();
#pragma unroll
      for (int k = 0; k < Tiles::depth; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            sums[i][j] =
                fma(a[k * Tiles::stride + row + i], b[k * Tiles::stride + column + j], sums[i][j]);
      syncThreads();
    }
  }
  /// f(row, column, sum) of each of the thread's results in the tile.
  template <class F> NANO_DEVICE void store(const F &f) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        f(row + i, column + j, sums[i][j]);
  }
};

/// The tile of iteration `iteration` of plainGroupedMatmulLaunch's. All threads of the block call
/// it.
template <class S, int places>
NANO_DEVICE void plainGroupedMatmul(int64_t iteration, const GroupedMatmul<S, places> &x) {
  using Tiles = GroupedTiles;
  constexpr int across = int(divideUp(S::columns, Tiles::side));
  const int tile = int(iteration / across), column = int(iteration % across) * Tiles::side;
  GroupWalk<S, Tiles::side> walk{x.ends};
  if (!walk.find(tile))
    return;
  const int row = walk.begin + (tile - walk.before) * Tiles::side;
  PlainGroupedTile sums;
  if (walk.group < S::groups) {
    const auto *const w = x.w.base + walk.group * x.w.matrix;
    sums.multiply<false, !S::transpose>(
        S::inner,
        [&](int i, int k) {
          return row + i < walk.end ? float(x.x.base[(row + i) * x.x.row + k * x.x.element]) : 0.0f;
        },
        [&](int j, int k) {
          const int r = S::transpose ? column + j : k, c = S::transpose ? k : column + j;
          return column + j < S::columns ? float(w[r * x.w.row + c * x.w.element]) : 0.0f;
        });
  }
  sums.store([&](int i, int j, float sum) {
    if (row + i < walk.end && column + j < S::columns)
      for (const auto &place : x.y)
        place.base[(row + i) * place.row + (column + j) * place.element] = typename S::Result(sum);
  });
}

template <class S, int places>
NANO_DEVICE void plainGroupedOuter(int64_t iteration, const GroupedOuter<S, places> &x) {
  using Tiles = GroupedTiles;
  constexpr int across = int(divideUp(S::columns, Tiles::side)),
                down = int(divideUp(S::inner, Tiles::side));
  const int group = int(iteration / (across * down)),
            row = int(iteration / across) % down * Tiles::side,
            column = int(iteration % across) * Tiles::side;
  GroupWalk<S, Tiles::side> walk{x.ends};
  while (walk.group < group)
    walk.next();
  PlainGroupedTile sums;
  auto element = [&](const auto &rows, int n, int i, int columns) {
    return i < columns ? float(rows.base[(walk.begin + n) * rows.row + i * rows.element]) : 0.0f;
  };
  sums.multiply<true, true>(
      walk.end - walk.begin, [&](int i, int n) { return element(x.a, n, row + i, S::inner); },
      [&](int j, int n) { return element(x.b, n, column + j, S::columns); });
  sums.store([&](int i, int j, float sum) {
    if (row + i < S::inner && column + j < S::columns)
      for (const auto &place : x.w)
        place.base[group * place.matrix + (row + i) * place.row + (column + j) * place.element] =
            typename S::Result(sum);
  });
}

/// The share of block `block` of the product, on tensor cores; by all threads of all blocks of the
/// grid. `maps` describe x and the matrices of w one behind the other.
template <class S, int places>
NANO_DEVICE void groupedMatmul(int block, const TensorMap *maps,
                               const GroupedMatmul<S, places> &x) {
  using P = GroupedMatmul<S, places>;
  const typename P::Work work(block, x.ends);
  hopper::MatmulStages<P>::get().init();
  // Rows of no group.
  typename P::Work::Walk rest = work.walk;
  while (rest.group < S::groups)
    rest.next();
  constexpr int chunks = S::columns / 8;
  const Vec<typename S::Result, 8> zeros = {};
  const long long count = (long long)(rest.end - rest.begin) * chunks;
  for (long long i = block * int(blockDim.x) + int(threadIdx.x); i < count;
       i += S::blocks * int(blockDim.x))
    x.store(rest.begin + int(i / chunks), int(i % chunks) * 8, zeros);
  hopper::multiplyAndLoad(
      [&](int warp) {
        if (work.begin >= work.end)
          return; // groups are fewer tiles than there may be
        if constexpr (hopper::MatmulStages<P>::isWide)
          hopper::multiplyWideTiles(work, x, warp);
        else
          hopper::multiplyTiles(work, x, warp);
      },
      [&] { hopper::loadGrouped<P>(work, maps[0], maps[1]); });
}

/// Likewise of sums of outer products; `maps` describe a and b.
template <class S, int places>
NANO_DEVICE void groupedOuter(int block, const TensorMap *maps, const GroupedOuter<S, places> &x) {
  using P = hopper::OuterProducts<S, places>;
  P sums;
#pragma unroll
  for (int place = 0; place < places; ++place)
    sums.w[place] = {x.w[place].base, x.w[place].row};
  const typename P::Work work(block, x.ends);
  hopper::MatmulStages<P>::get().init();
  hopper::multiplyAndLoad([&](int warp) { hopper::multiplyOuter<P>(work, sums, warp); },
                          [&] { hopper::loadOuter<P>(work, maps[0], maps[1]); });
}

} // namespace nano
