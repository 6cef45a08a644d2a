// Attention on Hopper's tensor cores: products of warpgroups from shared memory, and with them the
// vector-Jacobian product: one warpgroup only copies, two compute with 64 rows each. Included by
// nano_attention.h.
#pragma once

#include "nano_attention_tiles.h"
#include "nano_hopper.h"

namespace nano::hopper {

using mma::Lane;
using mma::log2e;
using mma::Place;
using mma::Tile;

constexpr int warpgroupThreads = 128, warpgroupRows = 64, computingWarpgroups = 2;
static_assert(warpgroupRows == attentionSumRows);
template <class A>
constexpr int boxRows = AttentionTileChoice<attentionTileSize(A::headSize),
                                            attentionTileSize(A::valueSize), false>::gradColumns;
/// Registers of a thread that copies and of one that computes: together those of 384 threads of
/// 168. `many`: for the largest sums, dk and dv of heads of 256 columns together.
template <bool many> constexpr int copyRegisters = many ? 24 : 40;
template <bool many> constexpr int computeRegisters = many ? 240 : 232;

/// Starts copying x[first + r, head, :] to row r of the tile by a thread, in boxes of 64 columns
/// and `boxRows` rows of a map of x; rows behind the last token become zero, and columns behind the
/// head's what is there in memory, or zero. The barrier gets the tile's bytes.
template <int rows, int size, int boxRows, class View>
NANO_DEVICE void loadBoxes(uint8_t *tile, const TensorMap &map, const View &x, int head, int first,
                           Mbarrier &full) {
#pragma unroll
  for (int band = 0; band < Tile<rows, size>::bands; ++band)
#pragma unroll
    for (int row = 0; row < rows; row += boxRows)
      bulkTensorLoad(tile + (band * rows + row) * 128, map, head * int(x.head) + band * 64,
                     first + row, &full);
}

/// Two barriers a stage: full is waited for by those who compute, empty by those who copy. And one
/// of each slot of rows, where they come by a tensor map.
template <int stages, int slots = 1> struct Barriers {
  Mbarrier full[stages], empty[stages], rows[slots];

  /// `copying`: threads that fill a stage.
  NANO_DEVICE void init(int copying) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) {
        mbarrierInit(&full[i], copying);
        mbarrierInit(&empty[i], computingWarpgroups * warpgroupThreads);
      }
      for (int i = 0; i < slots; ++i)
        mbarrierInit(&rows[i], 1);
      fenceMbarrierInit();
    }
    syncThreads();
  }
  /// The thread has finished reading the stage. Every thread arrives: one for its warp would do,
  /// and takes as long, but compute-sanitizer's racecheck does not follow it.
  NANO_DEVICE void release(int stage) { mbarrierArrive(&empty[stage]); }
  NANO_DEVICE void waitFull(int tile) {
    mbarrierWait(&full[tile % stages], uint32_t(tile / stages) & 1);
  }

  /// Waits until those who compute have finished with the tile that was in this one's stage before.
  NANO_DEVICE void waitEmpty(int tile) {
    if (tile >= stages)
      mbarrierWait(&empty[tile % stages], uint32_t(tile / stages - 1) & 1);
  }

  /// Makes `count` tiles by load(tile, stage), which starts a thread's copies: one tile more than
  /// those that are known to have come is on its way (none when there are but two stages, because
  /// the release of a tile takes the next one).
  template <class Load> NANO_DEVICE void produce(int count, Load load) {
    constexpr int ahead = stages > 2 ? 1 : 0;
    int arrived = 0;
    for (int tile = 0; tile < count; ++tile) {
      waitEmpty(tile);
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
  const uint64_t left = matrixDescriptor(a + aRow * 128, 16, 1024, Swizzle::Bytes128);
  const uint64_t right = matrixDescriptor(b, 16, 1024, Swizzle::Bytes128);
  // Of the largest heads the places of all steps take more registers than there are.
  constexpr int atOnce = size <= 128 || size == 192 ? size / 16 : size % 64 == 0 ? 4 : 1;
#pragma unroll atOnce
  for (int k = 0; k < size / 16; ++k) {
    const int band = k / 4, byte = k % 4 * 32;
    warpgroupMultiply<bf16, bf16>(flat(scores), advanced(left, band * aRows * 128 + byte),
                                  advanced(right, band * bRows * 128 + byte), k > 0);
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

/// Starts sums += fragments times tile b [bRows, size]; without `keep` what was in sums is left
/// out.
template <int size, int bRows>
NANO_DEVICE void accumulate(float (&sums)[1][size / 8][4],
                            const uint32_t (&fragments)[bRows / 16][4], const uint8_t *b,
                            bool keep = true) {
  const uint64_t right = matrixDescriptor(b, bRows * 128, 1024, Swizzle::Bytes128);
#pragma unroll
  for (int k = 0; k < bRows / 16; ++k)
    warpgroupMultiply<bf16, bf16, Major::MN>(flat(sums), fragments[k],
                                             advanced(right, k * 16 * 128), k > 0 || keep);
}

/// What belongs to the queries of a block of columns: to the base 2 the logarithm of the sum of a
/// query's weights.
template <int columns> struct QueryStatistics {
  float logarithm[columns], delta[columns];
};
/// And which of a tile's keys a query sees, `count` from the `first` on.
template <int columns> struct QueryColumns : QueryStatistics<columns> {
  uint32_t seen[columns]; ///< first + count · 2¹⁶
  NANO_DEVICE static int first(uint32_t seen) { return int(seen & 0xffff); }
  NANO_DEVICE static int count(uint32_t seen) { return int(seen >> 16); }

  /// Column i of queries begin … end − 1 and keys firstKey … firstKey + rows − 1. Columns without a
  /// query see nothing.
  template <int rows, class Operands>
  NANO_DEVICE void load(const Operands &x, int head, int begin, int end, int firstKey, int i) {
    const int query = smaller(begin + i, end - 1);
    this->logarithm[i] = *x.lse.row(query, head) * log2e;
    this->delta[i] = *x.delta.row(query, head);
    const int behind = larger(smaller(x.last[query] + 1 - firstKey, rows), 0),
              first = larger(smaller(x.first[query] - firstKey, behind), 0);
    seen[i] = begin + i < end ? uint32_t(first) | uint32_t(behind - first) << 16 : behind;
  }
};

/// Shared memory of a block: the slots' two tiles of rows and the stages' two tiles of columns
/// each, the barriers, and what belongs to each stage's queries.
template <class Tiles, int size, int valueSize> struct Shared {
  using RowTile = Tile<Tiles::rows, size>;
  using ColumnTile = Tile<Tiles::columns, size>;
  static constexpr int rowBytes = RowTile::bytes + Tile<Tiles::rows, valueSize>::bytes,
                       stageBytes = ColumnTile::bytes + Tile<Tiles::columns, valueSize>::bytes;
  using AllBarriers = Barriers<Tiles::stages, Tiles::slots>;
  static NANO_DEVICE uint8_t *rows(int i, int slot = 0) {
    return dynamicShared<uint8_t>(slot * rowBytes + i * RowTile::bytes);
  }
  static NANO_DEVICE uint8_t *columns(int stage, int i) {
    return dynamicShared<uint8_t>(Tiles::slots * rowBytes + stage * stageBytes +
                                  i * ColumnTile::bytes);
  }
  static NANO_DEVICE AllBarriers &barriers() {
    return *reinterpret_cast<AllBarriers *>(columns(Tiles::stages, 0));
  }
  static NANO_DEVICE QueryColumns<Tiles::columns> &queries(int stage) {
    return reinterpret_cast<QueryColumns<Tiles::columns> *>(&barriers() + 1)[stage];
  }
};

/// What a computing thread of a tile of queries knows of its two rows and of its warpgroup's; of
/// keys it needs nothing.
template <bool ofQueries> struct OwnRows {
  template <class... Any> NANO_DEVICE explicit OwnRows(const Any &...) {}
};
template <> struct OwnRows<true> {
  float logarithm[2], delta[2];
  int first[2], last[2];
  int firstOfFirst, firstOfLast, lastOfFirst, lastOfLast;

  OwnRows() = default;
  /// Of the warpgroup's rows from query `begin` on; `warpRow`: the warp's first one among them.
  template <class Operands>
  NANO_DEVICE OwnRows(const Operands &x, int head, int tokens, int begin, int warpRow,
                      const Lane &lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = smaller(begin + warpRow + 8 * i + lane.group, tokens - 1);
      logarithm[i] = *x.lse.row(query, head) * log2e;
      delta[i] = *x.delta.row(query, head);
      first[i] = x.first[query];
      last[i] = x.last[query];
    }
    const int from = smaller(begin, tokens - 1), to = smaller(begin + warpgroupRows, tokens) - 1;
    firstOfFirst = x.first[from];
    firstOfLast = x.first[to];
    lastOfFirst = x.last[from];
    lastOfLast = begin < tokens ? x.last[to] : -1;
  }
};

/// A thread that computes: its warpgroup's first row and its warp's.
struct Computing {
  Lane lane;
  int groupRow = shuffle(lane.warp, 0) / 4 * warpgroupRows, warpRow = lane.warp * 16;
};

/// What a block computes: dq; dk and dv, or one of them.
enum class Grads { Queries, KeysAndValues, Keys, Values };

/// dq of a block of queries of a head, or dk, dv or both of a block of keys of a head: rows of
/// tiles are the block's own (q and dy, or k and v), columns tokens of the other kind, those of one
/// head of queries after the other.
template <class A, class Tiles, Grads grads> struct Gradient {
  static constexpr int size = A::headSize, valueSize = A::valueSize, tokens = A::tokens,
                       rows = Tiles::rows, columns = Tiles::columns;
  static constexpr bool ofQueries = grads == Grads::Queries, ofScores = grads != Grads::Values,
                        ofValues = grads == Grads::Values || grads == Grads::KeysAndValues;
  static constexpr int sumColumns = ofScores ? attentionTileSize(size) : 0,
                       valueColumns = ofValues ? attentionTileSize(valueSize) : 0;
  static constexpr bool many = ofScores && ofValues && sumColumns + valueColumns > 192;
  static constexpr int columnHeads = ofQueries ? 1 : sharing<A>; // heads that columns are of
  using S = Shared<Tiles, size, valueSize>;

  static NANO_DEVICE int firstColumnHead(int head) {
    return ofQueries ? head / sharing<A> : head * sharing<A>;
  }
  /// Blocks of columns that are of tokens from … to − 1.
  static NANO_DEVICE int blocksOf(int from, int to) { return divideUp(to - from, columns); }
  /// Tokens `from` … `to` − 1 that columns are of for rows begin … end − 1, by a warp. Returns
  /// their blocks.
  template <class Operands>
  static NANO_DEVICE int findColumns(const Operands &x, int begin, int end, int &from, int &to) {
    if constexpr (ofQueries) {
      from = larger(x.first[begin], 0);
      to = x.last[end - 1] + 1;
    } else {
      // Under a causal mask they begin with the keys; few windows are longer than 1024.
      from = countBelow(x.last, tokens, begin, begin - 31, 1);
      to = countBelow(x.first, tokens, end, end - 1, 33);
    }
    return blocksOf(from, to);
  }
  /// Starts copying rows to a slot by tensor maps, by a thread.
  template <class Operands>
  static NANO_DEVICE void startRows(const Operands &x, int head, int begin, int slot);
  /// Starts copying a tile of columns to a stage by tensor maps, by a thread.
  template <class Operands>
  static NANO_DEVICE void startColumns(const Operands &x, int columnHead, int column, int stage);
  /// Reads what belongs to a tile's queries, where these are columns, by a warp.
  template <class Operands>
  static NANO_DEVICE void readQueries(const Operands &x, int columnHead, int column, int to,
                                      int begin, int stage) {
    if constexpr (!ofQueries)
#pragma unroll 1
      for (int i = laneIndex(); i < columns; i += 32)
        S::queries(stage).template load<rows>(x, columnHead, column, to, begin, i);
  }
  /// What a computing thread knows of its own rows.
  template <class Operands>
  static NANO_DEVICE OwnRows<ofQueries> ownRows(const Operands &x, int head, int begin,
                                                const Computing &thread) {
    return OwnRows<ofQueries>(x, head, int(tokens), begin + thread.groupRow,
                              thread.warpRow - thread.groupRow, thread.lane);
  }
  /// Computes the block that where() tells, whose rows are in a slot, by a computing thread;
  /// `passed`: tiles of columns before its own. Calls beforeStoring() when everything is computed.
  template <class Operands, class Where, class BeforeStoring>
  static NANO_DEVICE void compute(const Operands &x, Where where, int from, int columnBlocks,
                                  const Computing &thread, OwnRows<ofQueries> own, int slot,
                                  uint32_t parity, int passed, BeforeStoring beforeStoring);
};
/// A block of rows: its first token and its head.
struct Rows {
  int begin, head;
};

template <class A, class Tiles, Grads grads>
template <class Operands>
NANO_DEVICE void Gradient<A, Tiles, grads>::startRows(const Operands &x, int head, int begin,
                                                      int slot) {
  Mbarrier &come = S::barriers().rows[slot];
  mbarrierArriveExpect(&come, ofScores ? S::rowBytes : S::RowTile::bytes);
  loadBoxes<rows, size, boxRows<A>>(S::rows(0, slot), x.maps[ofQueries ? 0 : 1],
                                    ofQueries ? x.q : x.k, head, begin, come);
  if constexpr (ofScores)
    loadBoxes<rows, valueSize, boxRows<A>>(S::rows(1, slot), x.maps[ofQueries ? 3 : 2],
                                           ofQueries ? x.dy : x.v, head, begin, come);
}

template <class A, class Tiles, Grads grads>
template <class Operands>
NANO_DEVICE void Gradient<A, Tiles, grads>::startColumns(const Operands &x, int columnHead,
                                                         int column, int stage) {
  Mbarrier &full = S::barriers().full[stage];
  loadBoxes<columns, size, boxRows<A>>(S::columns(stage, 0), x.maps[ofQueries ? 1 : 0],
                                       ofQueries ? x.k : x.q, columnHead, column, full);
  loadBoxes<columns, valueSize, boxRows<A>>(S::columns(stage, 1), x.maps[ofQueries ? 2 : 3],
                                            ofQueries ? x.v : x.dy, columnHead, column, full);
}

template <class A, class Tiles, Grads grads>
template <class Operands, class Where, class BeforeStoring>
NANO_DEVICE void
Gradient<A, Tiles, grads>::compute(const Operands &x, Where where, int from, int columnBlocks,
                                   const Computing &thread, OwnRows<ofQueries> own, int slot,
                                   uint32_t parity, int passed, BeforeStoring beforeStoring) {
  auto &barriers = S::barriers();
  const int count = columnHeads * columnBlocks;
  const Lane &lane = thread.lane;
  const int groupRow = thread.groupRow, warpRow = thread.warpRow;
  constexpr int least = 8; // of what is not computed
  float sums[1][(ofScores ? sumColumns : least) / 8]
            [4] = {},
          valueSums[1][(ofValues ? valueColumns : least) / 8][4] = {};
  float scores[1][columns / 8][4], products[1][columns / 8][4];
  uint32_t weights[columns / 16][4], gradients[columns / 16][4];
  int pending = -1; // of queries: the stage whose last products have not been waited for
  if constexpr (attentionHasMaps<A>)
    mbarrierWait(&barriers.rows[slot], parity);

#pragma unroll 1
  for (int tile = 0; tile < count; ++tile) {
    const int stage = (passed + tile) % Tiles::stages,
              column = from + (columnHeads > 1 ? tile % columnBlocks : tile) * columns;
    const auto &queries = S::queries(stage);
    barriers.waitFull(passed + tile);
    // Whether some of the warpgroup's rows meet some of the columns, and all of them all.
    bool meet, contain;
    if constexpr (ofQueries) {
      meet = column <= own.lastOfLast && column + columns > own.firstOfFirst;
      contain = column >= own.firstOfLast && column + columns <= own.lastOfFirst + 1;
    } else {
      const uint32_t first = queries.seen[0], last = queries.seen[columns - 1];
      meet = queries.first(first) < groupRow + warpgroupRows &&
             queries.first(last) + queries.count(last) > groupRow;
      contain = queries.first(last) <= groupRow && queries.count(last) > 0 &&
                queries.first(first) + queries.count(first) >= groupRow + warpgroupRows;
    }
    if (!meet) {
      warpgroupWait<0>();
      if (ofQueries && pending >= 0)
        barriers.release(pending);
      pending = -1;
      barriers.release(stage);
      continue;
    }
    warpgroupRegisters(flat(scores));
    if constexpr (ofScores)
      warpgroupRegisters(flat(products));
    warpgroupFence();
    multiply<size, rows, columns>(scores, S::rows(0, slot), groupRow, S::columns(stage, 0));
    warpgroupCommit();
    if constexpr (ofScores) {
      multiply<valueSize, rows, columns>(products, S::rows(1, slot), groupRow,
                                         S::columns(stage, 1));
      warpgroupCommit();
    }
    warpgroupWait<ofScores ? 1 : 0>();
    warpgroupRegisters(flat(scores));
    if (ofQueries && pending >= 0)
      barriers.release(pending);
    pending = stage;

    const auto [begin, head] = where(); // for the score function
    const int queryHead = ofQueries ? head : firstColumnHead(head) + tile / columnBlocks;
    // Of an element: what belongs to its query, and whether that sees its key.
    auto logarithm = [&](Place at) {
      if constexpr (ofQueries)
        return own.logarithm[at.half];
      else
        return queries.logarithm[at.column];
    };
    auto delta = [&](Place at) {
      if constexpr (ofQueries)
        return own.delta[at.half];
      else
        return queries.delta[at.column];
    };
    // Weights of what is not seen become zero, and their gradients, whatever the operands are.
    auto hideUnseen = [&] {
      if (contain)
        return;
      mma::forElements(scores, lane, [&](float &s, Place at) {
        if constexpr (ofQueries) {
          const int key = column + at.column;
          s = (key >= own.first[at.half]) & (key <= own.last[at.half]) ? s : 0;
        } else {
          const uint32_t seen = queries.seen[at.column];
          s = uint32_t(warpRow + at.row - queries.first(seen)) < (seen >> 16) ? s : 0;
        }
      });
    };
    auto hideProducts = [&] {
      if (ofScores && !contain)
        mma::forElements(scores, products, lane,
                         [](float &s, float &p, Place) { p = s == 0 ? 0 : p; });
    };
    if constexpr (!ofScores) {
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s = mma::weight<A>(s, logarithm(at), column + at.column, begin + warpRow + at.row,
                           queryHead);
      });
      hideUnseen();
    } else if constexpr (A::hasScore) {
      warpgroupWait<0>();
      warpgroupRegisters(flat(products));
      mma::forElements(scores, products, lane, [&](float &s, float &p, Place at) {
        const int row = begin + warpRow + at.row, other = column + at.column;
        mma::weightAndGradient<A>(s, p, logarithm(at), delta(at), ofQueries ? row : other,
                                  ofQueries ? other : row, queryHead);
      });
      hideUnseen();
    } else {
      mma::forElements(scores, lane, [&](float &s, Place at) {
        s = approximateExp2(fma(s, A::scale * log2e, -logarithm(at)));
      });
      hideUnseen();
      warpgroupWait<0>();
      warpgroupRegisters(flat(products));
      mma::forElements(scores, products, lane,
                       [&](float &s, float &p, Place at) { p = s * (p - delta(at)); });
    }
    hideProducts();
    if constexpr (ofScores)
      pack(gradients, products);
    if constexpr (ofValues) {
      pack(weights, scores);
      warpgroupRegisters(flat(valueSums));
    }
    if constexpr (ofScores)
      warpgroupRegisters(flat(sums));
    warpgroupFence();
    if constexpr (ofValues)
      accumulate<valueColumns, columns>(valueSums, weights, S::columns(stage, 1));
    if constexpr (ofScores)
      accumulate<sumColumns, columns>(sums, gradients, S::columns(stage, 0));
    warpgroupCommit();
    if constexpr (!ofQueries) {
      warpgroupWait<0>();
      if constexpr (ofScores)
        warpgroupRegisters(flat(sums));
      if constexpr (ofValues)
        warpgroupRegisters(flat(valueSums));
      barriers.release(stage);
    }
  }
  warpgroupWait<0>();
  if constexpr (ofScores)
    warpgroupRegisters(flat(sums));
  if (ofQueries && pending >= 0)
    barriers.release(pending);
  mma::forElements(sums, lane, [&](float &sum, Place) { sum *= A::scale; });
  if (count == 0 && !attentionHasMaps<A>)
    barrierSync(3, Tiles::threads); // the rows have come, over which the results are written
  const auto [begin, head] = where();
  const int end = smaller(begin + rows, tokens);
  beforeStoring();
  barrierSync(1 + lane.warp / 4, warpgroupThreads); // all warps have read the rows
  if constexpr (ofQueries)
    mma::storeTile<size, rows, Operands::dqPlaces>(sums, lane, S::rows(0, slot), warpRow, x.dq,
                                                   head, begin, end);
  else if constexpr (ofScores)
    mma::storeTile<size, rows, Operands::dkPlaces>(sums, lane, S::rows(0, slot), warpRow, x.dk,
                                                   head, begin, end);
  if constexpr (ofValues)
    mma::storeTile<valueSize, rows, Operands::dvPlaces>(valueSums, lane, S::rows(1, slot), warpRow,
                                                        x.dv, head, begin, end);
  if (begin + groupRow >= tokens)
    return;
  const int part = (begin + groupRow) / warpgroupRows, barrier = 1 + lane.warp / 4;
  if constexpr (ofQueries && attentionSumsQueries<A>)
    mma::storeColumnSums<size, rows>(lane, S::rows(0, slot), warpRow, x.dqSums, part, head,
                                     barrier);
  if constexpr (!ofQueries && ofScores && attentionSumsKeys<A>)
    mma::storeColumnSums<size, rows>(lane, S::rows(0, slot), warpRow, x.dkSums, part, head,
                                     barrier);
  if constexpr (ofValues && attentionSumsValues<A>)
    mma::storeColumnSums<valueSize, rows>(lane, S::rows(1, slot), warpRow, x.dvSums, part, head,
                                          barrier);
}

/// Everything of one block, of which a head and its number there are given.
template <class A, class Tiles, Grads grads, class Operands>
NANO_DEVICE void attentionGrad(int block, int head, const Operands &x) {
  using G = Gradient<A, Tiles, grads>;
  using S = typename G::S;
  constexpr int size = A::headSize, valueSize = A::valueSize, rows = Tiles::rows,
                columns = Tiles::columns, columnHeads = G::columnHeads;
  constexpr bool ofQueries = G::ofQueries, ofScores = G::ofScores;
  auto &barriers = S::barriers();
  const int begin = block * rows, end = smaller(begin + rows, A::tokens);
  int from, to;
  barriers.init(attentionHasMaps<A> ? 32 : warpgroupThreads);

  if (warpIndex() / 4 == computingWarpgroups) {
    decreaseRegisters<copyRegisters<G::many>>();
    if constexpr (attentionHasMaps<A>) {
      const int count = G::findColumns(x, begin, end, from, to);
      const int warp = warpIndex() % 4;
      if (warp == 0 && laneIndex() == 0)
        G::startRows(x, head, begin, 0);
      // A stage is always filled by the same warp.
#pragma unroll 1
      for (int tile = 0; tile < columnHeads * count; ++tile) {
        const int stage = tile % Tiles::stages;
        if (stage % 4 != warp)
          continue;
        const int columnHead = G::firstColumnHead(head) + (columnHeads > 1 ? tile / count : 0),
                  column = from + (columnHeads > 1 ? tile % count : tile) * columns;
        barriers.waitEmpty(tile);
        if (laneIndex() == 0) {
          mbarrierExpect(&barriers.full[stage], S::stageBytes);
          G::startColumns(x, columnHead, column, stage);
        }
        G::readQueries(x, columnHead, column, to, begin, stage);
        mbarrierArrive(&barriers.full[stage]);
      }
      return;
    }
    const int thread = threadIdx.x % warpgroupThreads;
    mma::loadTile<rows, size, warpgroupThreads>(S::rows(0), ofQueries ? x.q : x.k, head, begin, end,
                                                thread);
    if constexpr (ofScores)
      mma::loadTile<rows, valueSize, warpgroupThreads>(S::rows(1), ofQueries ? x.dy : x.v, head,
                                                       begin, end, thread);
    const int count = G::findColumns(x, begin, end, from, to);
    int columnHead = G::firstColumnHead(head), column = from;
    barriers.produce(columnHeads * count, [&](int, int stage) {
      mma::loadTile<columns, size, warpgroupThreads>(S::columns(stage, 0), ofQueries ? x.k : x.q,
                                                     columnHead, column, to, thread);
      mma::loadTile<columns, valueSize, warpgroupThreads>(
          S::columns(stage, 1), ofQueries ? x.v : x.dy, columnHead, column, to, thread);
      if (!ofQueries && thread < columns)
        S::queries(stage).template load<rows>(x, columnHead, column, to, begin, thread);
      column += columns;
      if (columnHeads > 1 && column >= to) {
        column = from;
        ++columnHead;
      }
    });
    if (count == 0) {
      copyAsyncCommit();
      copyAsyncWait<0>();
      barrierSync(3, Tiles::threads);
    }
    return;
  }

  increaseRegisters<computeRegisters<G::many>>();
  const int columnBlocks = G::findColumns(x, begin, end, from, to);
  const Computing thread;
  G::compute(
      x, [&] { return Rows{begin, head}; }, from, columnBlocks, thread,
      G::ownRows(x, head, begin, thread), 0, 0, 0, [] {});
}

/// body(Grads of iteration i, its block, its head) for dk and dv: block of keys i / Hk, head i mod
/// Hk; where they are split first dk and then dv of that. Its queries are those of one head after
/// the other. Those that see one of the keys are contiguous: with last ≥ the first key and first ≤
/// the last one.
template <class A, class Body> NANO_DEVICE void keyUnit(int iteration, Body body) {
  if constexpr (attentionSplitsKeys(A::headSize, A::valueSize)) {
    const int unit = iteration / 2;
    if (iteration % 2 == 0)
      body.template operator()<Grads::Keys>(unit / A::keyHeads, unit % A::keyHeads);
    else
      body.template operator()<Grads::Values>(unit / A::keyHeads, unit % A::keyHeads);
  } else {
    body.template operator()<Grads::KeysAndValues>(iteration / A::keyHeads,
                                                   iteration % A::keyHeads);
  }
}

/// body.operator()<Grads>(block, head) of iteration i. A block of tokens as keys comes soon after
/// it as queries, whose operands are then in the cache; not at once, so that under a causal mask
/// the longest blocks of queries are not the last. Where heads share keys, a block of keys takes as
/// long as several of queries: all of them come first, where dk and dv are split too, and then the
/// queries, the last ones first, so that short blocks fill the end.
template <class A, class Tiles, class Body> NANO_DEVICE void forUnit(int iteration, Body body) {
  constexpr int blocks = divideUp(A::tokens, Tiles::rows),
                lead = blocks < Tiles::lead ? blocks : Tiles::lead;
  constexpr bool areSplit = attentionSplitsKeys(A::headSize, A::valueSize);
  if constexpr (areSplit || sharing<A> > 1) {
    const int ofQueries = iteration - (areSplit ? 2 : 1) * blocks * A::keyHeads,
              unit = blocks * A::heads - 1 - ofQueries;
    if (ofQueries < 0)
      keyUnit<A>(iteration, body);
    else
      body.template operator()<Grads::Queries>(unit / A::heads, unit % A::heads);
  } else {
    const int unit = iteration / A::heads, head = iteration % A::heads, paired = unit - lead;
    if (paired < 0 || (paired < 2 * (blocks - lead) && paired % 2 == 1))
      body.template operator()<Grads::Queries>(paired < 0 ? unit : lead + paired / 2, head);
    else
      body.template operator()<Grads::KeysAndValues>(
          paired < 2 * (blocks - lead) ? paired / 2 : unit - blocks, head);
  }
}

/// The gradients of iteration i.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionGrads(int iteration, const Operands &x) {
  forUnit<A, Tiles>(iteration, [&]<Grads grads>(int block, int head) {
    attentionGrad<A, Tiles, grads>(block, head, x);
  });
}

} // namespace nano::hopper
