// Attention on plain f32 multiply-adds: every size of head, any strides, f32 and bf16 operands.
// Four threads share a row of a tile; each owns every fourth column. Included by nano_attention.h.
#pragma once

namespace nano::plain {

constexpr int blockRows = AttentionPlainTiles::rows, blockColumns = AttentionPlainTiles::columns,
              blockThreads = AttentionPlainTiles::threads, parts = blockThreads / blockRows;

/// [blockRows, size] f32 in shared memory, a row padded by one element.
template <int size> struct Tile {
  float *base;
  NANO_DEVICE float &at(int row, int column) const { return base[row * (size + 1) + column]; }
  NANO_DEVICE float *end() const { return base + blockRows * (size + 1); }
  /// Row r ← x[first + r, head, :]; rows from `end` on are zero.
  template <class T>
  NANO_DEVICE void load(const HeadView<T> &x, int head, int first, int end) const {
    for (int i = threadIdx.x; i < blockRows * size; i += blockThreads) {
      const int row = i / size, column = i % size;
      at(row, column) = first + row < end ? float(x.row(first + row, head)[column * x.element]) : 0;
    }
  }
};

/// This thread's place in a tile of rows.
struct Owner {
  int row = int(threadIdx.x) / parts, part = int(threadIdx.x) % parts;
};

template <int size>
NANO_DEVICE float dot(const Tile<size> &a, int row, const Tile<size> &b, int column) {
  float sum = 0;
  for (int d = 0; d < size; ++d)
    sum = fma(a.at(row, d), b.at(column, d), sum);
  return sum;
}

/// sums[j] += Σ over columns c of weights(row, c) · b(c, part + parts·j), in order of c.
template <int size>
NANO_DEVICE void accumulate(float (&sums)[(size + parts - 1) / parts], const Owner &mine,
                            const Tile<blockColumns> &weights, const Tile<size> &b) {
  for (int c = 0; c < blockColumns; ++c) {
    const float weight = weights.at(mine.row, c);
#pragma unroll
    for (int j = 0; j < (size + parts - 1) / parts; ++j)
      if (mine.part + parts * j < size)
        sums[j] = fma(weight, b.at(c, mine.part + parts * j), sums[j]);
  }
}

/// results[p][token, head, :] ← factor · sums.
template <int size, int places, class T, int views>
NANO_DEVICE void store(const float (&sums)[(size + parts - 1) / parts], float factor,
                       const Owner &mine, const HeadView<T> (&results)[views], int token,
                       int head) {
#pragma unroll
  for (int j = 0; j < (size + parts - 1) / parts; ++j)
    if (mine.part + parts * j < size)
      for (int p = 0; p < places; ++p)
        results[p].row(token, head)[(mine.part + parts * j) * results[p].element] =
            T(factor * sums[j]);
}

/// Iteration i: block of queries blocks − 1 − i / H, head i mod H.
template <class A, class Operands>
NANO_DEVICE void attentionForward(long long iteration, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, tokens = A::tokens,
                owned = (valueSize + parts - 1) / parts;
  constexpr int blocks = divideUp(tokens, blockRows);
  const Tile<size> queries{dynamicShared<float>()}, keys{queries.end()};
  const Tile<valueSize> values{keys.end()};
  const Tile<blockColumns> weights{values.end()};
  const Owner mine;
  const int head = iteration % A::heads,
            begin = (blocks - 1 - int(iteration / A::heads)) * blockRows;
  const int end = begin + blockRows < tokens ? begin + blockRows : tokens;
  const int query = begin + mine.row < end ? begin + mine.row : end - 1;
  const int first = x.first[query], last = x.last[query];
  const int firstKey = x.first[begin] > 0 ? x.first[begin] : 0, endKey = x.last[end - 1] + 1;
  queries.load(x.q, head, begin, end);

  float sums[owned] = {}, maximum = -__builtin_bit_cast(float, 0x7f800000u), denominator = 0;
  for (int key = firstKey; key < endKey; key += blockColumns) {
    syncThreads();
    keys.load(x.k, head / sharing<A>, key, endKey);
    values.load(x.v, head / sharing<A>, key, endKey);
    syncThreads();
    float scores[blockColumns / parts], largest = maximum;
#pragma unroll
    for (int i = 0; i < blockColumns / parts; ++i) {
      const int column = mine.part + parts * i;
      float s = dot(queries, mine.row, keys, column) * A::scale;
      if constexpr (A::hasScore)
        s = A::score(s, query, key + column, head);
      scores[i] = key + column >= first && key + column <= last
                      ? s
                      : -__builtin_bit_cast(float, 0x7f800000u);
      largest = max(largest, scores[i]);
    }
    for (int distance = 1; distance < parts; distance *= 2)
      largest = max(largest, shuffleXor(largest, distance));
    // A row that has seen no key yet has weights of 0.
    const float subtracted = largest == -__builtin_bit_cast(float, 0x7f800000u) ? 0 : largest;
    const float factor = exp(maximum - subtracted);
    maximum = largest;
    denominator *= factor;
#pragma unroll
    for (int i = 0; i < blockColumns / parts; ++i) {
      const float weight = exp(scores[i] - subtracted);
      denominator += weight;
      weights.at(mine.row, mine.part + parts * i) = weight;
    }
#pragma unroll
    for (int j = 0; j < owned; ++j)
      sums[j] *= factor;
    syncWarp();
    accumulate(sums, mine, weights, values);
  }
  for (int distance = 1; distance < parts; distance *= 2)
    denominator += shuffleXor(denominator, distance);
  if (begin + mine.row >= end)
    return;
  store<valueSize, Operands::yPlaces>(sums, 1 / denominator, mine, x.y, query, head);
  if (mine.part == 0)
    for (int p = 0; p < Operands::lsePlaces; ++p)
      *x.lse[p].row(query, head) = maximum + log(denominator);
}

/// dq of a block of queries of a head, or dk and dv of a block of keys of a head. Rows of tiles are
/// the block's own (q and dy, or k and v), columns tokens of the other kind: those of one head of
/// queries after the other.
template <class A, bool ofQueries, class Operands>
NANO_DEVICE void attentionGrad(int block, int ownHead, const Operands &x) {
  constexpr int size = A::headSize, valueSize = A::valueSize, tokens = A::tokens;
  const Tile<size> rows{dynamicShared<float>()}, columns{rows.end()};
  const Tile<valueSize> otherRows{columns.end()}, otherColumns{otherRows.end()};
  const Tile<blockColumns> gradients{otherColumns.end()}, weights{gradients.end()};
  float *const logarithms = weights.end(), *const deltas = logarithms + blockColumns;
  int *const firsts = reinterpret_cast<int *>(deltas + blockColumns), *const lasts =
                                                                          firsts + blockColumns;
  const Owner mine;
  const int begin = block * blockRows,
            end = begin + blockRows < tokens ? begin + blockRows : tokens;
  const int token = begin + mine.row < end ? begin + mine.row : end - 1;
  int from, to;
  if constexpr (ofQueries) {
    from = x.first[begin] > 0 ? x.first[begin] : 0;
    to = x.last[end - 1] + 1;
    rows.load(x.q, ownHead, begin, end);
    otherRows.load(x.dy, ownHead, begin, end);
  } else {
    from = nano::countBelow(x.last, tokens, begin);
    to = nano::countBelow(x.first, tokens, end);
    rows.load(x.k, ownHead, begin, end);
    otherRows.load(x.v, ownHead, begin, end);
  }

  float sums[(size + parts - 1) / parts] = {}, otherSums[(valueSize + parts - 1) / parts] = {};
  constexpr int heads = ofQueries ? 1 : sharing<A>;
  const int columnBlocks = int(divideUp(to - from, blockColumns));
  for (int number = 0; number < heads * columnBlocks; ++number) {
    const int head = ofQueries ? ownHead : ownHead * heads + number / columnBlocks; // of queries
    const int columnHead = ofQueries ? ownHead / sharing<A> : head,
              column = from + number % columnBlocks * blockColumns;
    syncThreads();
    columns.load(ofQueries ? x.k : x.q, columnHead, column, to);
    otherColumns.load(ofQueries ? x.v : x.dy, columnHead, column, to);
    // Of the queries among rows and columns: those of this thread's row, or of all columns.
    for (int i = threadIdx.x; i < (ofQueries ? blockRows : blockColumns); i += blockThreads) {
      const int any = (ofQueries ? begin : column) + i, bound = ofQueries ? end : to;
      const int query = any < bound ? any : bound - 1;
      logarithms[i] = *x.lse.row(query, head);
      deltas[i] = *x.delta.row(query, head);
      firsts[i] = x.first[query];
      lasts[i] = any < bound ? x.last[query] : -1;
    }
    syncThreads();
    for (int i = 0; i < blockColumns / parts; ++i) {
      const int c = mine.part + parts * i, q = ofQueries ? mine.row : c;
      const int query = ofQueries ? token : column + c, key = ofQueries ? column + c : token;
      float weight = 0, gradient = 0;
      if (key >= firsts[q] && key <= lasts[q]) {
        const float raw = dot(rows, mine.row, columns, c) * A::scale;
        const float product = dot(otherRows, mine.row, otherColumns, c);
        float score = raw;
        if constexpr (A::hasScore)
          score = A::score(raw, query, key, head);
        weight = exp(score - logarithms[q]);
        gradient = weight * (product - deltas[q]);
        if constexpr (A::hasScore)
          gradient = A::scoreGrad(raw, query, key, head, gradient);
      }
      gradients.at(mine.row, c) = gradient;
      weights.at(mine.row, c) = weight;
    }
    syncWarp();
    accumulate(sums, mine, gradients, columns);
    if constexpr (!ofQueries)
      accumulate(otherSums, mine, weights, otherColumns);
  }
  if (begin + mine.row >= end)
    return;
  if constexpr (ofQueries) {
    store<size, Operands::dqPlaces>(sums, A::scale, mine, x.dq, token, ownHead);
  } else {
    store<size, Operands::dkPlaces>(sums, A::scale, mine, x.dk, token, ownHead);
    store<valueSize, Operands::dvPlaces>(otherSums, 1, mine, x.dv, token, ownHead);
  }
}

/// Iteration i: head i mod H of the block of queries blocks − 1 − i / H, then likewise of Hk heads
/// the blocks of keys, the first one first.
template <class A, class Operands>
NANO_DEVICE void attentionBackward(long long iteration, const Operands &x) {
  constexpr int blocks = divideUp(A::tokens, blockRows);
  const int ofKeys = int(iteration) - A::heads * blocks;
  if (ofKeys < 0)
    attentionGrad<A, true>(blocks - 1 - int(iteration) / A::heads, int(iteration) % A::heads, x);
  else
    attentionGrad<A, false>(ofKeys / A::keyHeads, ofKeys % A::keyHeads, x);
}

} // namespace nano::plain
