// How the attention and scatter templates cut their work into thread blocks: threads, iterations
// and bytes of memory. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

/// What decides which template computes an attention op.
struct AttentionShape {
  long long tokens, heads; ///< T, H
  long long keyHeads;      ///< Hk, a divisor of H: H/Hk neighbouring heads of queries share one
  int headSize;            ///< Dh, of queries and keys
  int valueSize;           ///< Dv, of values and results
  bool isBf16;             ///< the element type: bf16, else f32
  /// Every row of a head of q, k, v, dy and of y, dq, dk, dv is contiguous and begins at a multiple
  /// of 16 bytes.
  bool vectorRows;
  bool hasScore = false;     ///< the op has a score region
  int multiprocessors = 132; ///< of the GPU: for its speed, not for the results
  int tiles = 0; ///< which of the candidates for tiles; 0 is the rule's: for its speed alone
  /// There are tensor maps of q, k, v and dy, and tickets of the forward pass.
  bool hasMaps = false;
  bool hasTickets = false; ///< of the gradients in seven products
  /// Of the forward pass with tensor maps: a query sees the tokens of its own row of so many up to
  /// itself, whatever the ranges of keys say; 0: what they say.
  long long row = 0;
};

/// The columns that a head of `size` has in a tile: whole bands of 64.
NANO_BOTH constexpr int attentionTileSize(int size) { return (size + 63) / 64 * 64; }

/// Tokens that one row of the sums of the gradients' columns is of: those of a warpgroup.
constexpr int attentionSumRows = 64;

/// Tiles of the gradients on Hopper: two warpgroups of 64 rows that compute and one that copies
/// blocks of columns, `Stages` of them ahead. A block of tokens as keys comes `Lead` blocks after
/// it as queries. With two `Slots` of rows a block of threads stays for many blocks of tokens,
/// whose rows come while the one before is computed.
template <int Columns, int Stages, int Lead = 8, int Slots = 1> struct HopperTiles {
  static constexpr int rows = 128, threads = 384, columns = Columns, stages = Stages, lead = Lead,
                       slots = Slots, turnBytes = slots > 1 ? 32 * slots : 0;
  /// Of blocks of queries and of keys; these need more.
  static NANO_BOTH constexpr int sharedBytes(int headSize, int valueSize) {
    const int both = attentionTileSize(headSize) + attentionTileSize(valueSize);
    return 2 * both * (slots * rows + stages * columns) + 16 * stages + 8 * slots +
           12 * stages * columns + turnBytes;
  }
};

/// Tiles of the gradients in five products: a block of 128 keys walks over tiles of `Columns`
/// queries, which are copied to `Stages` stages. `Ahead`: the next tile's scores come with the last
/// products of a tile, and dv before the gradients of the scores; registers allow it for tiles of
/// 64 queries, stages for three of them.
template <int Columns, int Stages, bool Ahead> struct ChainTiles {
  static constexpr int rows = 128, threads = 384, columns = Columns, stages = Stages,
                       scoreStages = 2, unitsOfBlock = 24;
  static constexpr bool ahead = Ahead;
  /// f32 that a warpgroup adds to the sums of a tile's queries: there are two such units a tile.
  static constexpr int unit = 64 * 64;
  static constexpr int barrierBytes = 16 * stages + 80;
  static NANO_BOTH constexpr int sharedBytes(int headSize) {
    return 2 * headSize * (2 * rows + 2 * stages * columns) + scoreStages * 2 * rows * columns +
           2 * 4 * unit + barrierBytes + 12 * stages * columns;
  }
  static NANO_BOTH constexpr long long blocks(const AttentionShape &s) {
    return s.keyHeads * divideUp(s.tokens, rows) + divideUp(units(s), unitsOfBlock);
  }
  static NANO_BOTH constexpr long long units(const AttentionShape &s) {
    return 2 * s.heads * divideUp(s.tokens, columns);
  }
};

/// Tiles of the gradients of short causal rows in five products: two warpgroups have 64 keys each,
/// a third one adds up the gradients of queries, one copies. The sums of the last `keptTiles` tiles
/// of a row, for which there is memory, stay in shared memory.
struct RowTiles {
  static constexpr int rows = 128, columns = 64, threads = 512, stages = 4, slots = 2,
                       scoreStages = 2, keptTiles = 3, tilesOfBlock = rows / columns,
                       barrierBytes = 16 * (stages + slots + scoreStages) + 16;
  static constexpr int sharedBytes = 2 * 64 * (2 * rows * slots + 2 * columns * stages + columns) +
                                     2 * rows * columns * scoreStages +
                                     4 * 64 * columns * keptTiles + barrierBytes +
                                     8 * columns * stages;
  /// f32 of a block of threads: sums for dq of a row that it ends and of one that it begins.
  static NANO_BOTH constexpr long long sums(long long row) { return 2 * row * 64; }
  /// Blocks of threads for the rows of all heads; none shares one with more than one neighbour.
  static NANO_BOTH constexpr int resident(long long items, int multiprocessors) {
    return int(items < multiprocessors ? items : multiprocessors);
  }
};

/// Tiles of the gradients of causal rows in five products, of heads and values of up to `Size`
/// columns in tiles: as those of short rows, but a block of threads has two blocks of keys of a
/// row, one after the other. `ahead`: registers hold the values, and allow the products of dy with
/// them to be under way while weights are made of scores.
template <int Size> struct EndTiles {
  static constexpr int rows = 128, columns = 64, threads = 512, stages = Size == 64 ? 5 : 3,
                       scoreStages = 3, tilesOfBlock = rows / columns, parts = Size / 64,
                       tilesAtOnce = 16, turns = 4,
                       barrierBytes = 16 * (stages + scoreStages + 1) + 24 * turns + 16;
  static constexpr bool ahead = Size == 64;
  static constexpr int computeRegisters = 208, addRegisters = 64, copyRegisters = 32;
  static constexpr int sharedBytes = 2 * Size * (2 * rows + 2 * columns * stages) +
                                     2 * rows * columns * scoreStages + barrierBytes +
                                     8 * columns * stages;
  /// f32 of a unit of sums for dq, of a tile of queries.
  static constexpr long long unit = Size * columns;
  /// Blocks of threads: of keys, and those that make `tilesAtOnce` tiles of sums results.
  static NANO_BOTH constexpr long long blocks(const AttentionShape &s, long long row) {
    return s.tokens / row * s.keyHeads * divideUp(row / rows, 2) +
           divideUp(s.tokens / columns * s.heads, tilesAtOnce);
  }
  /// Units of sums: one a tile of those that come on second turns, one of those on first turns.
  static NANO_BOTH constexpr long long units(const AttentionShape &s, long long row) {
    return s.tokens / row * s.heads * tilesOfBlock * (row / rows + row / rows / 2);
  }
};

/// Whether in causal rows of so many tokens a block of threads has whole ones of a head, as
/// RowTiles, or two blocks of keys, as EndTiles.
NANO_BOTH constexpr bool attentionHasWholeRows(const AttentionShape &s, long long row) {
  return s.headSize <= 64 && s.valueSize == s.headSize && s.heads == s.keyHeads && row <= 1024;
}

/// Tiles of the forward pass on Hopper: `Groups` warpgroups of 64 rows compute and one copies; one
/// block for each multiprocessor, which share all tiles; queries are copied to `Slots` slots, keys
/// and values to `Stages` stages each. `Bulk`: by tensor maps, and blocks take the next tile when
/// they come to it. `OfRows`: queries see the keys of their causal row, whose ranges are not read.
template <int Columns, int Stages, int Slots, int Groups = 2, bool Bulk = false,
          bool OfRows = false>
struct HopperRuns {
  static constexpr bool isBulk = Bulk, ofRows = OfRows;
  static constexpr int groups = Groups, rows = 64 * groups, threads = 128 * (groups + 1),
                       columns = Columns, stages = Stages, slots = Slots,
                       unitBytes = Bulk ? 0 : 256, barrierBytes = 32 * stages + 16 * slots;
  static NANO_BOTH constexpr long long blocks(long long tiles, int multiprocessors) {
    return tiles < multiprocessors ? tiles : multiprocessors;
  }
  static NANO_BOTH constexpr int sharedBytes(int headSize, int valueSize) {
    const int ofKeys = attentionTileSize(headSize), ofValues = attentionTileSize(valueSize),
              larger = ofKeys > ofValues ? ofKeys : ofValues; // a result takes queries' place
    return 2 * (larger * slots * rows + (ofKeys + ofValues) * stages * columns) + barrierBytes +
           unitBytes + (32 + (ofRows ? 0 : 8 * rows)) * slots;
  }
};

/// One of two types.
template <bool first, class A, class B> struct AttentionEither {
  using Type = A;
};
template <class A, class B> struct AttentionEither<false, A, B> {
  using Type = B;
};

/// Shared memory of a block of a Hopper GPU.
constexpr int attentionSharedBytes = 227 * 1024;

/// Whether dk and dv are of blocks of their own, which compute the scores once more: where a
/// warpgroup has no registers for the sums of both.
NANO_BOTH constexpr bool attentionSplitsKeys(int headSize, int valueSize) {
  return attentionTileSize(headSize) + attentionTileSize(valueSize) > 256;
}

/// The tiles that are fastest, by the columns of heads in tiles, multiples of 64 up to 256: with
/// as many stages of columns as there is memory for.
///
/// What is fastest depends on the rows' lengths too, and on the GPU: other candidates can be
/// measured. Of the forward pass the first has one slot of queries and more stages, the second
/// blocks of the other number of columns; of the gradients blocks of keys come 4 or 16 blocks after
/// those of queries, or blocks of columns in three stages.
///
/// `ofRows`: the forward pass is of causal rows.
template <int keySize, int valueSize, bool hasScore, int candidate = 0, bool hasMaps = false,
          bool ofRows = false>
struct AttentionTileChoice {
  static constexpr int larger = keySize > valueSize ? keySize : valueSize,
                       both = keySize + valueSize;
  /// Stages beside so many slots. With two of them alone copies and products wait for each other.
  template <int count>
  static constexpr int fitting =
      (attentionSharedBytes - HopperRuns<64, 0, count>::sharedBytes(keySize, valueSize)) /
      (2 * 64 * both + 16);
  static constexpr int slots = fitting<2> < 3 ? 1 : 2,
                       stages = fitting<slots> < 4 ? fitting<slots> : 4;
  using Rule = HopperRuns<larger == 64 ? 128 : 64, larger == 64 ? 5 : stages, slots>;
  using OneSlot =
      HopperRuns<larger == 64 ? 128 : 64, larger == 64 ? 6 : (fitting<1> < 6 ? fitting<1> : 6), 1>;
  using OtherColumns = HopperRuns<larger == 64 ? 64 : 128, larger == 64 ? 8 : 2, 2>;
  using Runs = typename AttentionEither<
      candidate == 0, Rule,
      typename AttentionEither<candidate == 1, OneSlot, OtherColumns>::Type>::Type;
  /// With tensor maps: as many stages as there is memory for, up to five of 128 columns or eight of
  /// 64, and at least two, for which the largest heads leave one slot of queries. Without a score
  /// function, which takes registers, blocks of 64 columns leave some for the rows of three
  /// warpgroups, and of four where sums are few; there three with 128 columns, candidate 3, are
  /// faster in long rows.
  static constexpr int bulkGroups = hasScore || larger > 128 || keySize != valueSize ? 2
                                    : both == 128 && candidate == 0                  ? 4
                                                                                     : 3,
                       bulkColumns =
                           larger <= 128 && (bulkGroups == 2 || candidate == 3) ? 128 : 64,
                       bulkMost = bulkColumns == 128 ? 5 : 8;
  template <int count>
  static constexpr int bulkFitting =
      (attentionSharedBytes -
       HopperRuns<bulkColumns, 0, count, bulkGroups, true, ofRows>::sharedBytes(keySize,
                                                                                valueSize)) /
      (2 * bulkColumns * both + 32);
  static constexpr int bulkSlots = bulkFitting<2> < 2 ? 1 : 2,
                       bulkStages =
                           bulkFitting<bulkSlots> < bulkMost ? bulkFitting<bulkSlots> : bulkMost;
  using Bulk = HopperRuns<bulkColumns, bulkStages, bulkSlots, bulkGroups, true, ofRows>;
  /// Of the gradients: likewise, in blocks of 32 columns where two of 64 are too large.
  template <int columns>
  static constexpr int gradFitting =
      (attentionSharedBytes - 16 - HopperTiles<columns, 0>::sharedBytes(keySize, valueSize)) /
      (2 * columns * both + 16 + 12 * columns);
  static constexpr int gradColumns = gradFitting<64> < 2 ? 32 : 64,
                       gradStages = gradFitting<gradColumns> < 4 ? gradFitting<gradColumns> : 4;
  using Grads = typename AttentionEither<candidate == 3, HopperTiles<64, 3>,
                                         HopperTiles<gradColumns, gradStages,
                                                     candidate == 1   ? 4
                                                     : candidate == 2 ? 16
                                                                      : 8>>::Type;
  /// By tickets, in the same order of columns.
  using GradsByTickets = HopperTiles<gradColumns, both <= 128 ? 4 : 3, 8, 2>;
  /// Candidates, the rule's included.
  static constexpr int forwardCandidates = hasScore || larger > 128 ? 1 : 3,
                       gradCandidates = hasScore || both > 256 ? 1 : 4;
  using Forward =
      typename AttentionEither<hasMaps && (candidate == 0 || candidate == 3), Bulk, Runs>::Type;
};

/// Of the template with plain multiply-adds: every size of head, any strides, f32 and bf16.
struct AttentionPlainTiles {
  static constexpr int rows = 32, columns = 32, threads = 128;
};

/// Sizes of heads that tensor cores take.
NANO_BOTH constexpr bool attentionFitsTensorCores(int size) {
  return size % 16 == 0 && size <= 256;
}
/// bf16 with such heads of keys and of values runs on the tensor cores, everything else on plain
/// multiply-adds.
NANO_BOTH constexpr bool attentionOnTensorCores(const AttentionShape &s) {
  return s.isBf16 && s.vectorRows && attentionFitsTensorCores(s.headSize) &&
         attentionFitsTensorCores(s.valueSize);
}

/// Whether the gradients take tensor maps of q, k, v and dy: in five products, and in seven but
/// where heads are of 128; those take 1% to 4% longer with maps than without.
NANO_BOTH constexpr bool attentionGradTakesMaps(const AttentionShape &s, bool inChain) {
  const int both = attentionTileSize(s.headSize) + attentionTileSize(s.valueSize);
  return attentionOnTensorCores(s) && (inChain || both == 128 || both > 256);
}

/// The tiles of the gradients in five products, by head size.
template <int headSize> struct AttentionChainChoice;
template <> struct AttentionChainChoice<128> {
  using Tiles = ChainTiles<64, 3, true>;
};
template <> struct AttentionChainChoice<64> {
  using Tiles = ChainTiles<128, 2, false>;
};

} // namespace nano
