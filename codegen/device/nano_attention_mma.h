// Attention on tensor cores with warp-wide products (m16n8k16, bf16 operands, f32 sums): tiles in
// swizzled shared memory, columns copied one block ahead, softmax and products in registers.
// Included by nano_attention.h.
#pragma once

#include "nano_attention_tiles.h"

namespace nano::mma {

/// Iteration i: block of queries blocks − 1 − i / H (the longest first under a causal mask), head
/// i mod H; and the keys that it sees.
template <class A, class Tiles> struct QueryBlock {
  static constexpr int rows = Tiles::rows, blocks = divideUp(A::tokens, rows);
  int head, begin, end, firstKey, endKey;

  template <class Operands>
  NANO_DEVICE QueryBlock(long long iteration, const Operands &x)
      : head(iteration % A::heads), begin((blocks - 1 - int(iteration / A::heads)) * rows),
        end(smaller(begin + rows, A::tokens)), firstKey(larger(x.first[begin], 0)),
        endKey(x.last[end - 1] + 1) {}

  /// Starts copying keys and values from `key` on into two tiles, as one group.
  template <class Operands>
  NANO_DEVICE void loadColumns(uint8_t *tiles, int key, const Operands &x) const {
    constexpr int columns = Tiles::columns, size = A::headSize;
    loadTile<columns, size, Tiles::threads>(tiles, x.k, head / sharing<A>, key, endKey);
    loadTile<columns, A::valueSize, Tiles::threads>(tiles + Tile<columns, size>::bytes, x.v,
                                                    head / sharing<A>, key, endKey);
    copyAsyncCommit();
  }
  /// The first and the last key of every query; those of the last one beyond the tokens.
  template <class Operands>
  NANO_DEVICE void loadRanges(int *firsts, int *lasts, const Operands &x) const {
    for (int i = threadIdx.x; i < rows; i += Tiles::threads) {
      firsts[i] = x.first[smaller(begin + i, A::tokens - 1)];
      lasts[i] = x.last[smaller(begin + i, A::tokens - 1)];
    }
  }
};

/// Iteration i: QueryBlock's.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionForward(long long iteration, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns, rowTiles = Tiles::warpRows / 16;
  using RowTile = Tile<rows, (size > valueSize ? size : valueSize)>; // first queries, then results
  using KeyTile = Tile<columns, size>;
  constexpr int stageBytes = KeyTile::bytes + Tile<columns, valueSize>::bytes;
  uint8_t *const queries = dynamicShared<uint8_t>(), *const stages = queries + RowTile::bytes;
  int *const firsts = reinterpret_cast<int *>(stages + 2 * stageBytes), *const lasts =
                                                                            firsts + rows;

  const QueryBlock<A, Tiles> block(iteration, x);
  const auto [head, begin, end, firstKey, endKey] = block;
  auto load = [&](int stage, int key) { block.loadColumns(stages + stage * stageBytes, key, x); };
  loadTile<rows, size, Tiles::threads>(queries, x.q, head, begin, end);
  load(0, firstKey);
  block.loadRanges(firsts, lasts, x);

  const Lane lane;
  const int warpRow = lane.warp * Tiles::warpRows;
  float sums[rowTiles][valueSize / 8][4] = {};
  Softmax<rowTiles> softmax;
  constexpr float factor = scoresInLog2<A> ? 1 : A::scale * log2e;

  for (int key = firstKey, stage = 0; key < endKey; key += columns, stage ^= 1) {
    copyAsyncWait<0>();
    syncThreads();
    if (key + columns < endKey)
      load(stage ^ 1, key + columns);
    const RowRanges ranges(firsts, lasts, warpRow, Tiles::warpRows);
    if (!ranges.meet(key, key + columns - 1))
      continue;
    const uint8_t *tiles = stages + stage * stageBytes;
    float scores[rowTiles][columns / 8][4] = {};
    multiply<size, rows, columns>(scores, lane, queries, warpRow, tiles);
    if constexpr (scoresInLog2<A>)
      forElements(scores, lane, [&](float &s, Place at) {
        s *= A::scale;
        if constexpr (A::hasScore)
          s = A::score(s, begin + warpRow + at.row, key + at.column, head);
        s *= log2e;
      });
    if (!ranges.contain(key, key + columns - 1))
      forElements(scores, lane, [&](float &s, Place at) {
        const bool seen = key + at.column >= firsts[warpRow + at.row] &&
                          key + at.column <= lasts[warpRow + at.row];
        s = seen ? s : -infinity;
      });
    float scales[rowTiles][2];
    if (softmax.apply(scores, scales, factor))
      rescale(sums, scales);
    accumulate<valueSize, columns>(sums, lane, scores, tiles + KeyTile::bytes);
  }

  finish(sums, softmax, factor, lane, x, begin + warpRow, end, head);
  storeTile<valueSize, rows, Operands::yPlaces>(sums, lane, queries, warpRow, x.y, head, begin,
                                                end);
}

/// dq. Iteration i: as attentionForward's.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionQueryGrad(long long iteration, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, tokens = A::tokens,
                rows = Tiles::rows, columns = Tiles::columns, rowTiles = Tiles::warpRows / 16;
  using RowTile = Tile<rows, size>;
  using ValueRowTile = Tile<rows, valueSize>;
  using ColumnTile = Tile<columns, size>;
  constexpr int stageBytes = ColumnTile::bytes + Tile<columns, valueSize>::bytes;
  uint8_t *const queries = dynamicShared<uint8_t>(), *const gradients = queries + RowTile::bytes,
                 *const stages = gradients + ValueRowTile::bytes;
  int *const firsts = reinterpret_cast<int *>(stages + 2 * stageBytes), *const lasts =
                                                                            firsts + rows;

  const QueryBlock<A, Tiles> block(iteration, x);
  const auto [head, begin, end, firstKey, endKey] = block;
  auto load = [&](int stage, int key) { block.loadColumns(stages + stage * stageBytes, key, x); };
  loadTile<rows, size, Tiles::threads>(queries, x.q, head, begin, end);
  loadTile<rows, valueSize, Tiles::threads>(gradients, x.dy, head, begin, end);
  load(0, firstKey);
  block.loadRanges(firsts, lasts, x);

  const Lane lane;
  const int warpRow = lane.warp * Tiles::warpRows;
  float logarithms[rowTiles][2], deltas[rowTiles][2]; // logarithms: to the base 2
#pragma unroll
  for (int i = 0; i < 2 * rowTiles; ++i) {
    const int query = smaller(begin + warpRow + 8 * i + lane.group, tokens - 1);
    logarithms[i / 2][i % 2] = *x.lse.row(query, head) * log2e;
    deltas[i / 2][i % 2] = *x.delta.row(query, head);
  }
  float sums[rowTiles][size / 8][4] = {};

  for (int key = firstKey, stage = 0; key < endKey; key += columns, stage ^= 1) {
    copyAsyncWait<0>();
    syncThreads();
    if (key + columns < endKey)
      load(stage ^ 1, key + columns);
    const RowRanges ranges(firsts, lasts, warpRow, Tiles::warpRows);
    if (!ranges.meet(key, key + columns - 1))
      continue;
    const uint8_t *tiles = stages + stage * stageBytes;
    float scores[rowTiles][columns / 8][4] = {}, products[rowTiles][columns / 8][4] = {};
    multiply<size, rows, columns>(scores, lane, queries, warpRow, tiles);
    multiply<valueSize, rows, columns>(products, lane, gradients, warpRow,
                                       tiles + ColumnTile::bytes);
    forElements(scores, products, lane, [&](float &s, float &p, Place at) {
      weightAndGradient<A>(s, p, logarithms[at.tile][at.half], deltas[at.tile][at.half],
                           begin + warpRow + at.row, key + at.column, head);
    });
    if (!ranges.contain(key, key + columns - 1))
      forElements(products, lane, [&](float &p, Place at) {
        const bool seen = key + at.column >= firsts[warpRow + at.row] &&
                          key + at.column <= lasts[warpRow + at.row];
        p = seen ? p : 0;
      });
    accumulate<size, columns>(sums, lane, products, tiles);
  }
  forElements(sums, lane, [&](float &dq, Place) { dq *= A::scale; });
  storeTile<size, rows, Operands::dqPlaces>(sums, lane, queries, warpRow, x.dq, head, begin, end);
}

/// dk and dv. Iteration i: block of keys i / Hk (the longest first under a causal mask), head i mod
/// Hk; its queries are those of one head after the other. The queries that see one of the keys are
/// contiguous: those with last ≥ the first key and first ≤ the last one.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionKeyGrad(long long iteration, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, tokens = A::tokens,
                rows = Tiles::rows, columns = Tiles::columns, rowTiles = Tiles::warpRows / 16;
  using RowTile = Tile<rows, size>;
  using ValueRowTile = Tile<rows, valueSize>;
  using ColumnTile = Tile<columns, size>;
  constexpr int stageBytes = ColumnTile::bytes + Tile<columns, valueSize>::bytes;
  uint8_t *const keys = dynamicShared<uint8_t>(), *const values = keys + RowTile::bytes,
                 *const stages = values + ValueRowTile::bytes;
  auto *const statistics = reinterpret_cast<ColumnStatistics<columns> *>(stages + 2 * stageBytes);

  const int keyHead = iteration % A::keyHeads;
  const int begin = int(iteration / A::keyHeads) * rows, end = smaller(begin + rows, tokens);
  loadTile<rows, size, Tiles::threads>(keys, x.k, keyHead, begin, end);
  loadTile<rows, valueSize, Tiles::threads>(values, x.v, keyHead, begin, end);
  copyAsyncCommit(); // for keys that no query sees, too
  const int firstQuery = countBelow(x.last, tokens, begin),
            endQuery = countBelow(x.first, tokens, end);
  auto load = [&](int stage, int head, int query) {
    uint8_t *tiles = stages + stage * stageBytes;
    loadTile<columns, size, Tiles::threads>(tiles, x.q, head, query, endQuery);
    loadTile<columns, valueSize, Tiles::threads>(tiles + ColumnTile::bytes, x.dy, head, query,
                                                 endQuery);
    copyAsyncCommit();
  };
  const Lane lane;
  const int warpRow = lane.warp * Tiles::warpRows,
            lastKey = smaller(begin + warpRow + Tiles::warpRows, tokens) - 1; // of the warp
  float keySums[rowTiles][size / 8][4] = {}, valueSums[rowTiles][valueSize / 8][4] = {};
  ColumnStatistic mine;
  const int endHead = firstQuery < endQuery ? (keyHead + 1) * sharing<A> : 0;
  int head = keyHead * sharing<A>;
  if (head < endHead) {
    load(0, head, firstQuery);
    mine.template load<columns>(x, head, firstQuery, endQuery);
    mine.store(statistics[0]);
  }

  for (int query = firstQuery, stage = 0; head < endHead; stage ^= 1) {
    copyAsyncWait<0>();
    syncThreads();
    const bool isLast = query + columns >= endQuery; // of the head
    const int nextQuery = isLast ? firstQuery : query + columns, nextHead = head + isLast;
    const bool more = nextHead < endHead;
    if (more) {
      load(stage ^ 1, nextHead, nextQuery);
      mine.template load<columns>(x, nextHead, nextQuery, endQuery);
    }
    const ColumnStatistics<columns> &here = statistics[stage];
    const uint8_t *tiles = stages + stage * stageBytes;
    if (here.first[0] <= lastKey && here.last[columns - 1] >= begin + warpRow) {
      float scores[rowTiles][columns / 8][4] = {}, products[rowTiles][columns / 8][4] = {};
      multiply<size, rows, columns>(scores, lane, keys, warpRow, tiles);
      multiply<valueSize, rows, columns>(products, lane, values, warpRow,
                                         tiles + ColumnTile::bytes);
      forElements(scores, products, lane, [&](float &s, float &p, Place at) {
        weightAndGradient<A>(s, p, here.logarithm[at.column], here.delta[at.column],
                             query + at.column, begin + warpRow + at.row, head);
      });
      if (here.first[columns - 1] > begin + warpRow || here.last[0] < lastKey)
        forElements(scores, products, lane, [&](float &s, float &p, Place at) {
          const int key = begin + warpRow + at.row;
          const bool seen = key >= here.first[at.column] && key <= here.last[at.column];
          s = seen ? s : 0;
          p = seen ? p : 0;
        });
      accumulate<valueSize, columns>(valueSums, lane, scores, tiles + ColumnTile::bytes);
      accumulate<size, columns>(keySums, lane, products, tiles);
    }
    if (more)
      mine.store(statistics[stage ^ 1]);
    query = nextQuery;
    head = nextHead;
  }
  copyAsyncWait<0>();
  syncThreads();
  forElements(keySums, lane, [&](float &dk, Place) { dk *= A::scale; });
  storeTile<size, rows, Operands::dkPlaces>(keySums, lane, keys, warpRow, x.dk, keyHead, begin,
                                            end);
  storeTile<valueSize, rows, Operands::dvPlaces>(valueSums, lane, values, warpRow, x.dv, keyHead,
                                                 begin, end);
}

} // namespace nano::mma
