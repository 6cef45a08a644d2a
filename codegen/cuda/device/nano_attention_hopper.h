// Attention on Hopper's tensor cores: products of warpgroups from shared memory, one warpgroup that
// only copies, two that compute with 64 rows each. Tiles, masks and order of sums are as in
// nano_attention_mma.h. Included by nano_attention.h.
#pragma once

#include "nano_attention_tiles.h"
#include "nano_hopper.h"

namespace nano::hopper {

using mma::ColumnStatistic;
using mma::ColumnStatistics;
using mma::Lane;
using mma::log2e;
using mma::Place;
using mma::RowRanges;
using mma::Tile;

constexpr int warpgroupThreads = 128, warpgroupRows = 64, computingWarpgroups = 2;
/// Registers of a thread that copies and of one that computes: together those of 384 threads of
/// 168. `many`: for the largest sums, dk and dv of heads of 128.
template <bool many> constexpr int copyRegisters = many ? 24 : 40;
template <bool many> constexpr int computeRegisters = many ? 240 : 232;

/// Two barriers a stage: full is waited for by those who compute, empty by those who copy.
template <int stages> struct Barriers {
  Mbarrier full[stages], empty[stages];

  NANO_DEVICE void init() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        mbarrierInit(&full[i], warpgroupThreads);
        mbarrierInit(&empty[i], computingWarpgroups * warpgroupThreads / 32);
      }
      fenceMbarrierInit();
    }
    syncThreads();
  }
  /// The warp has finished reading the stage.
  NANO_DEVICE void release(int stage) {
    syncWarp();
    if (laneIndex() == 0)
      mbarrierArrive(&empty[stage]);
  }
  NANO_DEVICE void waitFull(int tile) {
    mbarrierWait(&full[tile % stages], uint32_t(tile / stages) & 1);
  }

  /// Makes `count` tiles by load(tile, stage), which starts a thread's copies: one tile more than
  /// those that are known to have come is on its way (none when there are but two stages, because
  /// the release of a tile takes the next one).
  template <class Load> NANO_DEVICE void produce(int count, Load load) {
    constexpr int ahead = stages > 2 ? 1 : 0;
    int arrived = 0;
    for (int tile = 0; tile < count; ++tile) {
      if (tile >= stages)
        mbarrierWait(&empty[tile % stages], uint32_t(tile / stages - 1) & 1);
      load(tile, tile % stages);
      copyAsyncCommit();
      if (tile < ahead)
        continue;
      copyAsyncWait<ahead>();
      fenceProxyAsync();
      mbarrierArrive(&full[arrived++ % stages]);
    }
    copyAsyncWait<0>();
    fenceProxyAsync();
    while (arrived < count)
      mbarrierArrive(&full[arrived++ % stages]);
  }
};

/// A flat view of sums for the products' primitives.
template <int tiles> NANO_DEVICE float (&flat(float (&sums)[1][tiles][4]))[4 * tiles] {
  return reinterpret_cast<float (&)[4 * tiles]>(sums);
}

/// Starts scores ← rows aRow … aRow + 63 of tile a times rows of tile b, transposed.
template <int size, int aRows, int bRows>
NANO_DEVICE void multiply(float (&scores)[1][bRows / 8][4], const uint8_t *a, int aRow,
                          const uint8_t *b) {
#pragma unroll
  for (int k = 0; k < size / 16; ++k) {
    const int band = k / 4, byte = k % 4 * 32;
    warpgroupMultiply<bf16, bf16>(
        flat(scores),
        matrixDescriptor(a + (band * aRows + aRow) * 128 + byte, 16, 1024, Swizzle::Bytes128),
        matrixDescriptor(b + band * bRows * 128 + byte, 16, 1024, Swizzle::Bytes128), k > 0);
  }
}

/// Weights rounded to bf16 as fragments of the left operand.
template <int columnTiles>
NANO_DEVICE void pack(uint32_t (&fragments)[columnTiles / 2][4],
                      const float (&weights)[1][columnTiles][4]) {
#pragma unroll
  for (int c = 0; c < columnTiles; ++c)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      fragments[c / 2][2 * (c % 2) + i] = packBf16(weights[0][c][2 * i], weights[0][c][2 * i + 1]);
}

/// Starts sums += fragments times tile b [bRows, size].
template <int size, int bRows>
NANO_DEVICE void accumulate(float (&sums)[1][size / 8][4],
                            const uint32_t (&fragments)[bRows / 16][4], const uint8_t *b) {
#pragma unroll
  for (int k = 0; k < bRows / 16; ++k)
    warpgroupMultiply<bf16, bf16, Major::MN>(
        flat(sums), fragments[k],
        matrixDescriptor(b + k * 16 * 128, bRows * 128, 1024, Swizzle::Bytes128), true);
}

/// Shared memory of a block: `rowTiles` tiles of rows, the stages' two tiles of columns each, the
/// barriers, then the ranges of its queries or, with statistics, what belongs to each stage's
/// queries.
template <class Tiles, int size, int rowTiles> struct Shared {
  using RowTile = Tile<Tiles::rows, size>;
  using ColumnTile = Tile<Tiles::columns, size>;
  static NANO_DEVICE uint8_t *rows(int i) { return dynamicShared<uint8_t>(i * RowTile::bytes); }
  static NANO_DEVICE uint8_t *columns(int stage, int i) {
    return dynamicShared<uint8_t>(rowTiles * RowTile::bytes + (2 * stage + i) * ColumnTile::bytes);
  }
  static NANO_DEVICE Barriers<Tiles::stages> &barriers() {
    return *reinterpret_cast<Barriers<Tiles::stages> *>(columns(Tiles::stages, 0));
  }
  static NANO_DEVICE int *firsts() { return reinterpret_cast<int *>(&barriers() + 1); }
  static NANO_DEVICE int *lasts() { return firsts() + Tiles::rows; }
  static NANO_DEVICE ColumnStatistics<Tiles::columns> &statistics(int stage) {
    return reinterpret_cast<ColumnStatistics<Tiles::columns> *>(firsts())[stage];
  }
};

/// Copies the ranges of a block's queries, one a copying thread.
template <class S, class A, class Tiles, class Operands>
NANO_DEVICE void loadRanges(const Operands &x, int begin, int thread) {
  static_assert(Tiles::rows == warpgroupThreads);
  const int query = smaller(begin + thread, A::tokens - 1);
  S::firsts()[thread] = x.first[query];
  S::lasts()[thread] = x.last[query];
}

/// Iteration i: as mma::attentionForward's. The products of a tile's weights and values run while
/// the next tile's weights are computed.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionForward(int iteration, const Operands &x) {
  constexpr int size = A::headSize, tokens = A::tokens, rows = Tiles::rows,
                columns = Tiles::columns, blocks = divideUp(tokens, rows);
  using S = Shared<Tiles, size, 1>;
  auto &barriers = S::barriers();
  const int head = iteration % A::heads;
  const int begin = (blocks - 1 - iteration / A::heads) * rows, end = smaller(begin + rows, tokens);
  const int firstKey = larger(x.first[begin], 0), endKey = x.last[end - 1] + 1;
  const int count = divideUp(endKey - firstKey, columns);
  barriers.init();

  if (warpIndex() / 4 == computingWarpgroups) {
    decreaseRegisters<copyRegisters<false>>();
    const int thread = threadIdx.x % warpgroupThreads;
    mma::loadTile<rows, size, warpgroupThreads>(S::rows(0), x.q, head, begin, end, thread);
    loadRanges<S, A, Tiles>(x, begin, thread);
    barriers.produce(count, [&](int tile, int stage) {
      const int key = firstKey + tile * columns;
      mma::loadTile<columns, size, warpgroupThreads>(S::columns(stage, 0), x.k, head, key, endKey,
                                                     thread);
      mma::loadTile<columns, size, warpgroupThreads>(S::columns(stage, 1), x.v, head, key, endKey,
                                                     thread);
    });
    return;
  }

  increaseRegisters<computeRegisters<false>>();
  const Lane lane;
  const int groupRow = lane.warp / 4 * warpgroupRows, warpRow = lane.warp * 16;
  float sums[1][size / 8][4] = {};
  mma::Softmax<1> softmax;
  constexpr float factor = mma::scoresInLog2<A> ? 1 : A::scale * log2e;
  barriers.waitFull(0);
  const int *const firsts = S::firsts(), *const lasts = S::lasts();
  const RowRanges ranges(firsts, lasts, groupRow, warpgroupRows);
  // The tiles that some row of the warpgroup sees.
  const int from = larger(ranges.firstOfFirst - firstKey, 0) / columns,
            to = (ranges.lastOfLast - firstKey) / columns;

  float scores[1][columns / 8][4];
  uint32_t weights[columns / 16][4];
  auto start = [&](int tile) {
    barriers.waitFull(tile);
    warpgroupRegisters(flat(scores));
    warpgroupFence();
    multiply<size, rows, columns>(scores, S::rows(0), groupRow,
                                  S::columns(tile % Tiles::stages, 0));
    warpgroupCommit();
  };
  auto weigh = [&](int tile, float (&scales)[1][2]) {
    const int key = firstKey + tile * columns;
    if constexpr (mma::scoresInLog2<A>)
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s *= A::scale;
        if constexpr (A::hasScore)
          s = A::score(s, begin + warpRow + at.row, key + at.column, head);
        s *= log2e;
      });
    if (!ranges.contain(key, key + columns - 1)) {
      const int first[2] = {firsts[warpRow + lane.group] - key,
                            firsts[warpRow + lane.group + 8] - key};
      const int last[2] = {lasts[warpRow + lane.group] - key,
                           lasts[warpRow + lane.group + 8] - key};
      mma::forElements(scores, lane, [&](float &s, Place at) {
        const bool seen = at.column >= first[at.half] && at.column <= last[at.half];
        s = seen ? s : -infinity;
      });
    }
    return softmax.apply(scores, scales, factor);
  };
  for (int tile = 0; tile < from; ++tile) {
    barriers.waitFull(tile);
    barriers.release(tile % Tiles::stages);
  }
  float scales[1][2];
  start(from);
  warpgroupWait<0>();
  warpgroupRegisters(flat(scores));
  weigh(from, scales);
  pack(weights, scores);
  for (int tile = from + 1; tile <= to; ++tile) {
    start(tile);
    warpgroupRegisters(flat(sums));
    warpgroupFence();
    accumulate<size, columns>(sums, weights, S::columns((tile - 1) % Tiles::stages, 1));
    warpgroupCommit();
    warpgroupWait<1>();
    warpgroupRegisters(flat(scores));
    const bool grown = weigh(tile, scales);
    warpgroupWait<0>();
    warpgroupRegisters(flat(sums));
    barriers.release((tile - 1) % Tiles::stages);
    if (grown)
      mma::rescale(sums, scales);
    pack(weights, scores);
  }
  warpgroupRegisters(flat(sums));
  warpgroupFence();
  accumulate<size, columns>(sums, weights, S::columns(to % Tiles::stages, 1));
  warpgroupCommit();
  warpgroupWait<0>();
  warpgroupRegisters(flat(sums));
  for (int tile = to; tile < count; ++tile) {
    barriers.waitFull(tile);
    barriers.release(tile % Tiles::stages);
  }

  mma::finish(sums, softmax, factor, lane, x, begin + warpRow, end, head);
  barrierSync(1 + lane.warp / 4, warpgroupThreads); // all warps have read the queries
  mma::storeTile<size, rows, Operands::yPlaces>(sums, lane, S::rows(0), warpRow, x.y, head, begin,
                                                end);
}

/// dq of a block of queries, or dk and dv of a block of keys: rows of tiles are the block's own (q
/// and dy, or k and v), columns tokens of the other kind.
template <class A, class Tiles, bool ofQueries, class Operands>
NANO_DEVICE void attentionGrad(int block, int head, const Operands &x) {
  constexpr int size = A::headSize, tokens = A::tokens, rows = Tiles::rows,
                columns = Tiles::columns;
  constexpr bool many = !ofQueries && size == 128;
  using S = Shared<Tiles, size, 2>;
  auto &barriers = S::barriers();
  const int begin = block * rows, end = smaller(begin + rows, tokens);
  int from, to;
  if constexpr (ofQueries) {
    from = larger(x.first[begin], 0);
    to = x.last[end - 1] + 1;
  } else {
    from = countBelow(x.last, tokens, begin);
    to = countBelow(x.first, tokens, end);
  }
  const int count = divideUp(to - from, columns);
  barriers.init();

  if (warpIndex() / 4 == computingWarpgroups) {
    decreaseRegisters<copyRegisters<many>>();
    const int thread = threadIdx.x % warpgroupThreads;
    if (count == 0)
      return;
    mma::loadTile<rows, size, warpgroupThreads>(S::rows(0), ofQueries ? x.q : x.k, head, begin, end,
                                                thread);
    mma::loadTile<rows, size, warpgroupThreads>(S::rows(1), ofQueries ? x.dy : x.v, head, begin,
                                                end, thread);
    if constexpr (ofQueries)
      loadRanges<S, A, Tiles>(x, begin, thread);
    barriers.produce(count, [&](int tile, int stage) {
      const int column = from + tile * columns;
      mma::loadTile<columns, size, warpgroupThreads>(S::columns(stage, 0), ofQueries ? x.k : x.q,
                                                     head, column, to, thread);
      mma::loadTile<columns, size, warpgroupThreads>(S::columns(stage, 1), ofQueries ? x.v : x.dy,
                                                     head, column, to, thread);
      if constexpr (!ofQueries) {
        ColumnStatistic mine;
        mine.template load<columns>(x, head, column, to, thread);
        mine.store(S::statistics(stage), thread);
      }
    });
    return;
  }

  increaseRegisters<computeRegisters<many>>();
  const Lane lane;
  const int groupRow = lane.warp / 4 * warpgroupRows, warpRow = lane.warp * 16;
  const int firstRow = begin + groupRow, lastRow = smaller(firstRow + warpgroupRows, tokens) - 1;
  float logarithms[2], deltas[2]; // of queries: of this thread's rows
  if constexpr (ofQueries)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = smaller(begin + warpRow + 8 * i + lane.group, tokens - 1);
      logarithms[i] = *x.lse.row(query, head) * log2e;
      deltas[i] = *x.delta.row(query, head);
    }
  float sums[1][size / 8][4] = {}, otherSums[1][size / 8][4] = {};
  float scores[1][columns / 8][4], products[1][columns / 8][4];
  uint32_t weights[columns / 16][4], gradients[columns / 16][4];
  int pending = -1; // the stage whose last products have not been waited for

  for (int tile = 0; tile < count; ++tile) {
    const int stage = tile % Tiles::stages, column = from + tile * columns;
    const auto &statistics = S::statistics(stage);
    barriers.waitFull(tile);
    bool meet, contain;
    if constexpr (ofQueries) {
      const RowRanges ranges(S::firsts(), S::lasts(), groupRow, warpgroupRows);
      meet = ranges.meet(column, column + columns - 1);
      contain = ranges.contain(column, column + columns - 1);
    } else {
      meet = statistics.first[0] <= lastRow && statistics.last[columns - 1] >= firstRow;
      contain = statistics.first[columns - 1] <= firstRow && statistics.last[0] >= lastRow;
    }
    if (!meet) {
      warpgroupWait<0>();
      if (pending >= 0)
        barriers.release(pending);
      pending = -1;
      barriers.release(stage);
      continue;
    }
    warpgroupRegisters(flat(scores));
    warpgroupRegisters(flat(products));
    warpgroupFence();
    multiply<size, rows, columns>(scores, S::rows(0), groupRow, S::columns(stage, 0));
    warpgroupCommit();
    multiply<size, rows, columns>(products, S::rows(1), groupRow, S::columns(stage, 1));
    warpgroupCommit();
    warpgroupWait<1>();
    warpgroupRegisters(flat(scores));
    if (pending >= 0)
      barriers.release(pending);
    pending = stage;

    // Of an element: what belongs to its query, and whether that sees its key.
    auto logarithm = [&](Place at) {
      return ofQueries ? logarithms[at.half] : statistics.logarithm[at.column];
    };
    auto delta = [&](Place at) {
      return ofQueries ? deltas[at.half] : statistics.delta[at.column];
    };
    auto hideUnseen = [&](auto &values) {
      if (contain)
        return;
      mma::forElements(values, lane, [&](float &value, Place at) {
        const int query = ofQueries ? warpRow + at.row : at.column,
                  key = ofQueries ? column + at.column : begin + warpRow + at.row;
        const int *first = ofQueries ? S::firsts() : statistics.first,
                  *last = ofQueries ? S::lasts() : statistics.last;
        const bool seen = key >= first[query] && key <= last[query];
        value = seen ? value : 0;
      });
    };
    if constexpr (A::hasScore) {
      warpgroupWait<0>();
      warpgroupRegisters(flat(products));
      mma::forElements(scores, products, lane, [&](float &s, float &p, Place at) {
        const int row = begin + warpRow + at.row, other = column + at.column;
        mma::weightAndGradient<A>(s, p, logarithm(at), delta(at), ofQueries ? row : other,
                                  ofQueries ? other : row, head);
      });
      hideUnseen(scores);
    } else {
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s = approximateExp2(fma(s, A::scale * log2e, -logarithm(at)));
      });
      hideUnseen(scores);
    }
    if constexpr (!A::hasScore) {
      warpgroupWait<0>();
      warpgroupRegisters(flat(products));
      mma::forElements(scores, products, lane,
                       [&](float &s, float &p, Place at) { p = s * (p - delta(at)); });
    }
    hideUnseen(products);
    pack(gradients, products);
    if constexpr (!ofQueries) {
      pack(weights, scores);
      warpgroupRegisters(flat(otherSums));
    }
    warpgroupRegisters(flat(sums));
    warpgroupFence();
    if constexpr (!ofQueries)
      accumulate<size, columns>(otherSums, weights, S::columns(stage, 1));
    accumulate<size, columns>(sums, gradients, S::columns(stage, 0));
    warpgroupCommit();
    if constexpr (!ofQueries) {
      warpgroupWait<0>();
      warpgroupRegisters(flat(sums));
      warpgroupRegisters(flat(otherSums));
    }
  }
  warpgroupWait<0>();
  warpgroupRegisters(flat(sums));
  warpgroupRegisters(flat(otherSums));
  mma::forElements(sums, lane, [&](float &sum, Place) { sum *= A::scale; });
  barrierSync(1 + lane.warp / 4, warpgroupThreads); // all warps have read the rows
  if constexpr (ofQueries) {
    mma::storeTile<size, rows, Operands::dqPlaces>(sums, lane, S::rows(0), warpRow, x.dq, head,
                                                   begin, end);
  } else {
    mma::storeTile<size, rows, Operands::dkPlaces>(sums, lane, S::rows(0), warpRow, x.dk, head,
                                                   begin, end);
    mma::storeTile<size, rows, Operands::dvPlaces>(otherSums, lane, S::rows(1), warpRow, x.dv, head,
                                                   begin, end);
  }
}

/// dq. Iteration i: as mma::attentionQueryGrad's.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionQueryGrad(int iteration, const Operands &x) {
  constexpr int blocks = divideUp(A::tokens, Tiles::rows);
  attentionGrad<A, Tiles, true>(blocks - 1 - iteration / A::heads, iteration % A::heads, x);
}

/// dk and dv. Iteration i: as mma::attentionKeyGrad's.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionKeyGrad(int iteration, const Operands &x) {
  attentionGrad<A, Tiles, false>(iteration / A::heads, iteration % A::heads, x);
}

} // namespace nano::hopper
