// What the warps of a block do with the sums of its products: they reach the generated epilogue by
// neighbours of a row.
#pragma once

#include "nano_matmul_stages.h"
#include "nano_pairs.h"

namespace nano {

/// What eight neighbours add to sums of columns, and the largest of them.
template <int Maxima> struct SummandsAndLargest {
  Vec<float, 8> summands;
  Vec<float, Maxima> largest;
};

namespace hopper {

/// Eight neighbours of a row of a warp's part, permuted so that neither those who write blocks of
/// 8 × 8 nor those who read rows meet in a bank.
template <class P> NANO_DEVICE Vec<bf16, 8> *productsAt(int warp, int part, int row, int chunk) {
  return reinterpret_cast<Vec<bf16, 8> *>(MatmulStages<P>::part(warp, part) +
                                          row * MatmulTiles::rowBytes + 16 * (chunk ^ (row & 7)));
}

/// The sums of a thread, rounded to bf16 in pairs and shared with the warp that finishes them.
template <class P> class Products {
  using Tiles = MatmulTiles;
  static constexpr bool isScaled = MatmulStages<P>::isScaled;

public:
  NANO_DEVICE explicit Products(const P &x) {
    if constexpr (isScaled)
#pragma unroll
      for (int product = 0; product < P::products; ++product)
        scales[product] = x.scale(product);
  }
  NANO_DEVICE void take(const TileSums<P> &sums) {
#pragma unroll
    for (int i = 0; i < Tiles::columns / 4; ++i)
      pairs[i] = pairOf(sums, i);
  }
  /// Writes a part of what was taken, or of `sums`, to shared memory.
  NANO_DEVICE void share(int part) const {
    share(part, [&](int i) { return pairs[i]; });
  }
  NANO_DEVICE void share(int part, const TileSums<P> &sums) const {
    share(part, [&](int i) { return pairOf(sums, i); });
  }

private:
  NANO_DEVICE uint32_t pairOf(const TileSums<P> &sums, int i) const {
    constexpr int inPiece = TileSums<P>::columns / 4;
    const float *const pair = &sums.piece[i / inPiece][i % inPiece * 2];
    const float scale = scales[i / (Tiles::columns / 4 / P::products)];
    return isScaled ? packBf16(pair[0] * scale, pair[1] * scale) : packBf16(pair[0], pair[1]);
  }
  template <class F> NANO_DEVICE static void share(int part, F pairAt) {
    // Four blocks of 8 × 8 at once: two of rows, of two neighbouring chunks.
#pragma unroll
    for (int i = 0; i < Tiles::partColumns / 16; ++i) {
      const int first = (part * Tiles::partColumns / 16 + i) * 4;
      const uint32_t blocks[4] = {pairAt(first), pairAt(first + 1), pairAt(first + 2),
                                  pairAt(first + 3)};
      storeMatrix<4>(productsAt<P>(warpIndex(), part, laneIndex() % 16, 2 * i + laneIndex() / 16),
                     blocks);
    }
  }

  uint32_t pairs[Tiles::columns / 4];
  float scales[P::products] = {};
};

/// What an epilogue reads that a row's elements have in common; nothing where P does not say.
template <class P> constexpr bool readsRows = requires { typename P::Row; };
template <class P, bool reads = readsRows<P>> struct RowOf {
  struct Row {};
};
template <class P> struct RowOf<P, true> {
  using Row = typename P::Row;
};

/// The epilogue of a warp's 16 rows of tiles, in parts of 64 columns, of each product, and of these
/// in halves of 8 rows: four rows at once, 128 bytes of each by eight lanes.
template <class P> class Epilogue {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  using Edge = typename Work<P>::Edge;

public:
  static constexpr int parts = Tiles::parts / P::products; ///< of each product
  static constexpr int halves = 2 * parts, pieces = 2 * halves;
  static constexpr bool hasOthers = sizeof(typename P::Others) > 1, hasRows = readsRows<P>;

private:
  static constexpr int inPart = pieces / parts;
  /// Chunks of a lane whose operands are on their way: those that shared memory has room for; a
  /// part's where parts are gone through in a loop; else two, or one where sums along columns take
  /// registers and so do two chunks in one step along the inner dimension.
  /// Those of gradients are loaded after the products, when registers are free: for two parts, or
  /// one of more operands.
  static constexpr bool hasFew = P::addsColumns && Stages::steps < pieces;
  static constexpr int inRegisters = Stages::addsUp      ? (sizeof(typename P::Others) > 16 ? 4 : 8)
                                     : Stages::handsOver ? 4
                                     : hasFew            ? 1
                                                         : 2,
                       ahead = Stages::copied > 0 ? Stages::copied : inRegisters;

public:
  /// `warp` is the one that has multiplied.
  NANO_DEVICE Epilogue(const P &x, int warp) : x(x), multiplier(warp) {}

  /// The warp's rows of that tile are next.
  NANO_DEVICE void begin(const TilePlace<Edge> &tile) {
    edge = tile;
    firstRow = tile.row + warp() * 16 + laneIndex() / 8;
    firstColumn = tile.column + laneIndex() % 8 * 8;
#pragma unroll
    for (int piece = 0; piece < ahead; ++piece)
      load(piece);
    loadColumns(0);
    if constexpr (hasRows)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (exists(half, i))
            rows[half][i] = x.loadRow(row(half, i));
  }
  /// Reads the lane's chunks of a half from shared memory: as words, from which the compiler widens
  /// with one instruction an element.
  NANO_DEVICE void read(int half) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      readChunk(half, i);
  }
  /// Likewise its first or second chunk; and stores it. They come in order, and which one `piece`
  /// is is known when the kernel is compiled.
  NANO_DEVICE void readPiece(int piece) { readChunk(piece / 2, piece % 2); }
  NANO_DEVICE void finishPiece(int piece) {
    const int half = piece / 2;
    if constexpr (Stages::copied > 0)
      copyAsyncWait<ahead - 1>();
    if (exists(half, piece % 2))
      store(half, piece % 2);
    if constexpr (P::addsColumns)
      if ((piece + 1) % inPart == 0)
        storeColumns(half);
    if constexpr (P::maxima > 0)
      if ((piece + 1) % inPart == 0)
        storeLargest(half);
    if constexpr (P::sums > 0)
      if ((piece + 1) % (inPart * sumParts) == 0)
        storeTotals(half);
    loadAfter(piece);
    if ((piece + 1) % inPart == 0)
      loadColumnsAfter(half / 2);
  }
  /// Stores the half, or the part, that has been read; they come in order, and whether `half` is
  /// even is known when the kernel is compiled.
  NANO_DEVICE void finish(int half) {
    static_assert(P::sums > 0);
    storeRows<1>(half);
    if ((half + 1) % (2 * sumParts) == 0)
      storeTotals(half);
    loadAfter(2 * half);
    loadAfter(2 * half + 1);
    if (half % 2 == 1)
      loadColumnsAfter(half / 2);
  }
  NANO_DEVICE void finishPart(int part) {
    static_assert(P::sums > 0 && !hasOthers);
    storeRows<2>(2 * part);
    if ((part + 1) % sumParts == 0)
      storeTotals(2 * part);
    loadColumnsAfter(part);
  }

  /// Stores what a part's pieces have left to be turned: of each result two of the warpgroup's
  /// warps half of the columns each, 64 rows of them, which are whole sectors. A lane has 16 rows
  /// of four columns, those of one warp.
  NANO_DEVICE void turn(int part) {
    const int first = warp() - warp() % 4, own = warp() % 4, source = laneIndex() / 8,
              word = laneIndex() % 8 + 8 * (own / 2);
    barrierSync(1 + first / 4, 128); // all have left theirs
    const int row = firstRow - laneIndex() / 8 + 16 * (source - own),
              column = firstColumn - laneIndex() % 8 * 8 + Tiles::partColumns * part + 4 * word;
    if (edge.exists(row, column)) {
#pragma unroll
      for (int pair = 0; pair < P::turned; pair += 2)
        if (const int result = pair + own % 2; result < P::turned) {
          const uint8_t *const from = Stages::part(first + source, part + pair / 2) +
                                      8 * ((result + source) & 1) + 4 * (word % 2);
          // Where it lies differs by warp, so that the lanes read different banks.
          const int swizzle = word / 2 ^ 4 * (source / 2);
          uint32_t rows[16];
#pragma unroll
          for (int i = 0; i < 16; ++i)
            rows[i] = *reinterpret_cast<const uint32_t *>(from + i * Tiles::rowBytes +
                                                          16 * (swizzle ^ (i & 7)));
          Vec<uint32_t, 4> ofColumn[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const uint32_t *const four = rows + 4 * i;
            const uint32_t low[2] = {selectBytes(four[0], four[1], 0x5140),
                                     selectBytes(four[2], four[3], 0x5140)},
                           high[2] = {selectBytes(four[0], four[1], 0x7362),
                                      selectBytes(four[2], four[3], 0x7362)};
            ofColumn[0].lane[i] = selectBytes(low[0], low[1], 0x5410);
            ofColumn[1].lane[i] = selectBytes(low[0], low[1], 0x7632);
            ofColumn[2].lane[i] = selectBytes(high[0], high[1], 0x5410);
            ofColumn[3].lane[i] = selectBytes(high[0], high[1], 0x7632);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i)
            x.storeTurned(result, row, column + i, ofColumn[i]);
        }
    }
    // Of up to two results the next part's products have another place; that of those behind it is
    // written after its own barrier.
    if constexpr (P::turned > 2)
      barrierSync(1 + first / 4, 128);
  }

private:
  /// The one that has multiplied: of an epilogue that the same warp does its own number, which
  /// takes no register from one tile to the next.
  NANO_DEVICE int warp() const { return Stages::handsOver ? multiplier : warpIndex(); }
  /// Of each product: no loop, which lets ptxas spill.
  NANO_DEVICE void readChunk(int half, int i) {
    readProduct<0>(half, i);
    if constexpr (P::products > 1)
      readProduct<1>(half, i);
  }
  template <int Product> NANO_DEVICE void readProduct(int half, int i) {
    chunks[Product][unsigned(half) % 2][i] = *reinterpret_cast<const Vec<uint32_t, 4> *>(
        productsAt<P>(warp(), half / 2 + Product * parts, laneIndex() / 8 + 8 * (half % 2) + 4 * i,
                      laneIndex() % 8));
  }
  NANO_DEVICE int row(int half, int i) const { return firstRow + 8 * (half % 2) + 4 * i; }
  NANO_DEVICE int column(int half) const { return firstColumn + half / 2 * Tiles::partColumns; }
  NANO_DEVICE bool exists(int half, int i) const { return edge.exists(row(half, i), column(half)); }
  /// Of several halves all at once, where all of their rows and columns exist or none: what an
  /// epilogue computes has long latencies, and few warps hide them.
  template <int Halves> NANO_DEVICE void storeRows(int half) {
    constexpr bool isRegular = P::rows % (8 * Halves) == 0 && P::columns % Tiles::partColumns == 0;
    const bool firstExists = exists(half, 0);
    if (isRegular && !firstExists)
      return;
#pragma unroll
    for (int i = 0; i < 2 * Halves; ++i)
      if (isRegular || exists(half + i / 2, i % 2))
        store(half + i / 2, i % 2);
  }
  /// Every piece is a group of copies, also one that does not exist.
  NANO_DEVICE void load(int piece) {
    const bool isThere = exists(piece / 2, piece % 2);
    if constexpr (Stages::copied > 0) {
      if (isThere)
        x.copy(row(piece / 2, piece % 2), column(piece / 2), Stages::others(warp(), piece));
      copyAsyncCommit();
    } else if (isThere) {
      others[unsigned(piece) % unsigned(ahead)] =
          x.load(row(piece / 2, piece % 2), column(piece / 2));
    }
  }
  NANO_DEVICE void loadAfter(int piece) {
    if (piece + ahead < pieces)
      load(piece + ahead);
    else if constexpr (Stages::copied > 0)
      copyAsyncCommit();
  }
  /// What rows have in common, for the lane's columns of a part.
  NANO_DEVICE void loadColumns(int part) {
    if (exists(2 * part, 0))
      columns = x.loadColumns(column(2 * part));
  }
  NANO_DEVICE void loadColumnsAfter(int part) {
    if (part + 1 < parts)
      loadColumns(part + 1);
  }
  /// What else is read for a piece.
  NANO_DEVICE typename P::Others othersOf(int piece) const {
    if constexpr (Stages::copied > 0)
      return P::othersAt(Stages::others(warp(), piece));
    else
      return others[unsigned(piece) % unsigned(ahead)];
  }
  NANO_DEVICE void store(int half, int i) {
    const auto chunkOf = [&](int product) {
      return elementsOf<bf16>(chunks[product][unsigned(half) % 2][i]);
    };
    const Vec<bf16, 8> chunk = chunkOf(0);
    const auto other = othersOf(2 * half + i);
    const bool isFirst = half % 2 == 0 && i == 0;
    [[maybe_unused]] Vec<uint32_t, 2> turned[P::turned == 0 ? 1 : P::turned];
    const auto end = [&] {
      const auto &ofRow = rows[unsigned(half) % 2][i];
      if constexpr (P::products > 1 && hasRows)
        return x.store(row(half, i), column(half), chunk, chunkOf(1), other, columns, ofRow);
      else if constexpr (P::products > 1)
        return x.store(row(half, i), column(half), chunk, chunkOf(1), other, columns);
      else if constexpr (P::turned > 0 && hasRows)
        return x.store(row(half, i), column(half), chunk, other, columns, ofRow, turned);
      else if constexpr (P::turned > 0)
        return x.store(row(half, i), column(half), chunk, other, columns, turned);
      else if constexpr (hasRows)
        return x.store(row(half, i), column(half), chunk, other, columns, ofRow);
      else
        return x.store(row(half, i), column(half), chunk, other, columns);
    };
    if constexpr (P::maxima > 0 && P::addsColumns) {
      const auto both = end();
      take(both.largest, isFirst);
      ofColumns = isFirst ? both.summands : ofColumns + both.summands;
    } else if constexpr (P::maxima > 0) {
      take(end(), isFirst);
    } else if constexpr (P::addsColumns) {
      const auto summands = end();
      ofColumns = isFirst ? summands : ofColumns + summands;
    } else if constexpr (P::sums == 0) {
      end();
    } else {
      totals[unsigned(half) % 2][i] = totals[unsigned(half) % 2][i] + end();
    }
    if constexpr (P::turned > 0)
      leave(half, i, turned);
  }
  /// Leaves what is to be turned in the place of the row's products: of a pair of results eight
  /// bytes each, whose order and chunk differ by warp. Of a second pair in the other part's place.
  NANO_DEVICE void leave(int half, int i,
                         const Vec<uint32_t, 2> (&turned)[P::turned == 0 ? 1 : P::turned]) const {
    const bool isOdd = warp() % 2 == 1;
#pragma unroll
    for (int pair = 0; pair < P::turned; pair += 2) {
      const Vec<uint32_t, 2> first = turned[pair],
                             second = pair + 1 < P::turned ? turned[pair + 1] : first;
      Vec<uint32_t, 4> both;
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        both.lane[word] = isOdd ? second.lane[word] : first.lane[word];
        both.lane[word + 2] = isOdd ? first.lane[word] : second.lane[word];
      }
      *reinterpret_cast<Vec<uint32_t, 4> *>(
          productsAt<P>(warp(), half / 2 + pair / 2, laneIndex() / 8 + 8 * (half % 2) + 4 * i,
                        laneIndex() % 8 ^ 4 * (warp() / 2 % 2))) = both;
    }
  }
  NANO_DEVICE void take(const Vec<float, P::maxima> &one, bool isFirst) {
#pragma unroll
    for (int i = 0; i < P::maxima; ++i)
      largest.lane[i] = isFirst ? one.lane[i] : maximum(largest.lane[i], one.lane[i]);
  }
  /// The largest of all lanes, which together have the part's columns of the warp's rows.
  NANO_DEVICE void storeLargest(int last) {
    Vec<float, P::maxima> all;
#pragma unroll
    for (int i = 0; i < P::maxima; ++i)
      all.lane[i] = groupMax<32>(largest.lane[i]);
    const int part = (firstRow - laneIndex() / 8) / sumRows;
    if (laneIndex() == 0 && exists(last, 0))
      x.storeLargest(part, column(last) / Tiles::partColumns, all);
  }
  /// Adds up the summands of four lanes, which have the same eight columns. With both exchanges a
  /// lane keeps half of its columns, so that each ends with two.
  NANO_DEVICE void storeColumns(int last) {
    const int first = laneIndex() / 8 % 2, second = laneIndex() / 16;
    float four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = ofColumns.lane[i], high = ofColumns.lane[i + 4];
      four[i] = (first ? high : low) + shuffleXor(first ? low : high, 8);
    }
    Vec<float, 2> total;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = four[i], high = four[i + 2];
      total.lane[i] = (second ? high : low) + shuffleXor(second ? low : high, 16);
    }
    const int part = (firstRow - laneIndex() / 8) / sumRows;
    if (edge.exists(sumRows * part, column(last)))
      x.storeColumns(part, column(last) + 4 * first + 2 * second, total);
  }
  /// Adds up the totals of eight lanes, which have the same four rows, and begins anew. With every
  /// exchange a lane keeps half of its rows, so that the first four lanes end with one each.
  NANO_DEVICE void storeTotals(int last) {
    const int i = laneIndex() % 2, half = laneIndex() / 2 % 2;
    Vec<float, P::sums> total;
#pragma unroll
    for (int sum = 0; sum < P::sums; ++sum) {
      float ofHalves[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float first = totals[j][0].lane[sum], second = totals[j][1].lane[sum];
        ofHalves[j] = (i ? second : first) + shuffleXor(i ? first : second, 1);
      }
      float own = half ? ofHalves[1] : ofHalves[0];
      own += shuffleXor(half ? ofHalves[0] : ofHalves[1], 2);
      total.lane[sum] = own + shuffleXor(own, 4);
    }
    if (laneIndex() % 8 < 4 && row(half, i) < P::rows && column(last) < P::columns)
      x.storeSums(row(half, i), column(last) / Tiles::sumColumns, total);
#pragma unroll
    for (auto &ofHalf : totals)
#pragma unroll
      for (auto &one : ofHalf)
        one = {};
  }

  const P &x;
  const int multiplier;
  /// Parts of a tile whose sums are stored together.
  static constexpr int sumParts = Tiles::sumColumns / Tiles::partColumns;
  static_assert(P::sums == 0 || P::columns % Tiles::sumColumns == 0);
  static constexpr int sumRows = Tiles::sumRows;
  static_assert(!P::addsColumns || (P::sums == 0 && P::rows % sumRows == 0));
  static_assert(P::maxima == 0 || (P::sums == 0 && (!P::addsColumns || Stages::addsUp) &&
                                   P::rows % sumRows == 0 && P::columns % Tiles::partColumns == 0));
  static_assert(P::turned == 0 ||
                (Stages::addsUp && P::rows % sumRows == 0 && P::turned <= 2 * Tiles::heldParts));

  Vec<uint32_t, 4> chunks[P::products][2][2]; ///< of two halves
  typename P::Others others[Stages::copied > 0 ? 1 : ahead];
  typename P::Columns columns;
  typename RowOf<P>::Row rows[2][2]; ///< of a lane's rows of the tile, as `row` has them
  Vec<float, P::sums == 0 ? 1 : P::sums> totals[2][2] = {}; ///< of a lane's rows, as `row` has them
  Vec<float, 8> ofColumns = {};                             ///< of a lane's columns of a part
  Vec<float, P::maxima == 0 ? 1 : P::maxima> largest = {};  ///< of a lane's elements of a part
  int firstRow = 0, firstColumn = 0;
  [[no_unique_address]] Edge edge;
};

/// The epilogue of f32 of a warp's 16 rows of tiles, in parts of 32 columns: four rows at once, 128
/// bytes of each by eight lanes.
template <class P> class WideEpilogue {
  using Tiles = MatmulTiles;
  using Stages = MatmulStages<P>;
  using Edge = typename Work<P>::Edge;
  /// Rows of 8 bits that were turned come in pairs: see HeldRows.
  static constexpr bool rowsInPairs = P::transposeA && Stages::isScaled;
  static constexpr int columns = Tiles::rowBytes / 4, parts = Tiles::columns / columns;
  static constexpr int ahead = 4; ///< parts whose operands are on their way

public:
  /// `warp` is the one that multiplies.
  NANO_DEVICE WideEpilogue(const P &x, int warp) : x(x), warp(warp) {
    if constexpr (Stages::isScaled)
      scale = x.scale(0);
  }
  /// The warp's rows of that tile are next, and operands of the first parts come.
  NANO_DEVICE void begin(const TilePlace<Edge> &tile) {
    edge = tile;
    firstRow = tile.row + warp * 16 + laneIndex() / 8;
    firstColumn = tile.column + laneIndex() % 8 * 4;
#pragma unroll
    for (int part = 0; part < ahead; ++part)
      load(part);
  }
  NANO_DEVICE void finish(const TileSums<P> &sums) {
    share(0, sums);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      syncWarp(); // the part is there, and the one before has been read
      Vec<float, 4> chunks[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        chunks[i] = shared(part, i);
      if (part + 1 < parts)
        share(part + 1, sums);
      typename P::Columns ofRows = {};
      if (exists(part, 0))
        ofRows = x.loadColumns(column(part));
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (exists(part, i))
          x.store(row(i), column(part), chunks[i], others[part % ahead][i], ofRows);
      if (part + ahead < parts)
        load(part + ahead);
    }
  }

private:
  /// Where row `row` of a part begins: bits 5 and 6 of places in its 128 bytes are XORed with bits
  /// 1 and 2 of row ^ 2 · row, so that neither those who write two neighbours nor those who read
  /// rows meet in a bank. What lies 32 bytes, or some rows, from a lane's first place has its
  /// address but for these bits.
  static NANO_DEVICE int place(int row) {
    return row * Tiles::rowBytes + 16 * ((row ^ 2 * row) & 6);
  }
  NANO_DEVICE void share(int part, const TileSums<P> &sums) const {
    const int group = laneIndex() / 4, pair = laneIndex() % 4;
    const int first = place(rowsInPairs ? 2 * group : group) + pair * 8;
#pragma unroll
    for (int i = 0; i < columns / 8; ++i)
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        constexpr int inPiece = TileSums<P>::columns / 2;
        const int at = (part * columns / 8 + i) * 4 + 2 * second;
        const float *const sum = &sums.piece[at / inPiece][at % inPiece];
        const int there = rowsInPairs ? (first ^ 32 * (i ^ second)) + second * Tiles::rowBytes
                                      : (first ^ 32 * i) + second * 8 * Tiles::rowBytes;
        *reinterpret_cast<Vec<float, 2> *>(Stages::part(warp, part) + there) = {sum[0] * scale,
                                                                                sum[1] * scale};
      }
  }
  /// Of row i of the lane's four.
  NANO_DEVICE Vec<float, 4> shared(int part, int i) const {
    const int first = place(laneIndex() / 8) ^ laneIndex() % 8 * 16;
    return *reinterpret_cast<const Vec<float, 4> *>(
        Stages::part(warp, part) + ((first ^ 64 * (i % 2)) + 4 * i * Tiles::rowBytes));
  }
  NANO_DEVICE int row(int i) const { return firstRow + 4 * i; }
  NANO_DEVICE int column(int part) const { return firstColumn + part * columns; }
  NANO_DEVICE bool exists(int part, int i) const { return edge.exists(row(i), column(part)); }
  /// What does not exist is set too: else it would keep registers while the next tile is made.
  NANO_DEVICE void load(int part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      others[part % ahead][i] = {};
      if (exists(part, i))
        others[part % ahead][i] = x.load(row(i), column(part));
    }
  }

  const P &x;
  const int warp;
  float scale = 1;
  int firstRow = 0, firstColumn = 0;
  [[no_unique_address]] Edge edge;
  typename P::Others others[ahead][4];
};

} // namespace hopper
} // namespace nano
