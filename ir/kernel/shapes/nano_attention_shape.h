// How the attention and scatter templates cut their work into thread blocks: threads, iterations
// and bytes of memory. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

/// What decides which template computes an attention op.
struct AttentionShape {
  long long tokens, heads; ///< T, H
  long long keyHeads;      ///< Hk, a divisor of H: H/Hk neighbouring heads of queries share one
  int headSize;            ///< Dh
  bool isBf16;             ///< the element type: bf16, else f32
  /// Every row of Dh elements of q, k, v, dy and of y, dq, dk, dv is contiguous and begins at a
  /// multiple of 16 bytes.
  bool vectorRows;
  bool hasScore = false;     ///< the op has a score region
  int multiprocessors = 132; ///< of the GPU: for its speed, not for the results
};

/// The launches of an attention op that runs on tensor cores: rows of tiles are queries and columns
/// keys in the first two, the other way round in the last.
enum class AttentionPart { Forward, Queries, Keys };

/// Tiles of one thread block: every warp owns `WarpRows` rows and walks over blocks of `Columns`
/// columns, which are double buffered.
template <int WarpRows, int Warps, int Columns> struct AttentionTiles {
  static constexpr bool useWarpgroups = false;
  static constexpr int warpRows = WarpRows, warps = Warps, columns = Columns;
  static constexpr int rows = WarpRows * Warps, threads = 32 * Warps;
  static NANO_BOTH constexpr long long blocks(long long tiles, int) { return tiles; }
  /// Tiles of rows, two stages of two tiles of columns, and ranges of the queries among the rows or
  /// statistics of those among the columns.
  static NANO_BOTH constexpr int sharedBytes(AttentionPart part, int headSize) {
    const int rowTiles = part == AttentionPart::Forward ? 1 : 2;
    return 2 * headSize * (rowTiles * rows + 4 * columns) +
           (part == AttentionPart::Keys ? 32 * columns : 8 * rows);
  }
};

/// Tiles of the gradients on Hopper: two warpgroups of 64 rows that compute and one that copies
/// blocks of columns, `Stages` of them ahead. A block of tokens as keys comes `Lead` blocks after
/// it as queries.
template <int Columns, int Stages, int Lead = 8> struct HopperTiles {
  static constexpr bool useWarpgroups = true;
  static constexpr int rows = 128, threads = 384, columns = Columns, stages = Stages, lead = Lead;
  /// Of a launch of so many tiles of rows.
  static NANO_BOTH constexpr long long blocks(long long tiles, int) { return tiles; }
  static NANO_BOTH constexpr int sharedBytes(AttentionPart part, int headSize) {
    return 2 * headSize * (2 * rows + 2 * stages * columns) + 16 * stages +
           (part == AttentionPart::Keys ? 12 * stages * columns : 0);
  }
};

/// Tiles of the forward pass on Hopper: likewise, but one block for each multiprocessor, which
/// share all tiles; queries are copied to `Slots` slots, keys and values to `Stages` stages.
template <int Columns, int Stages, int Slots> struct HopperRuns {
  static constexpr bool useWarpgroups = true;
  static constexpr int rows = 128, threads = 384, columns = Columns, stages = Stages, slots = Slots,
                       unitBytes = 256;
  static NANO_BOTH constexpr long long blocks(long long tiles, int multiprocessors) {
    return tiles < multiprocessors ? tiles : multiprocessors;
  }
  static NANO_BOTH constexpr int sharedBytes(AttentionPart, int headSize) {
    return 2 * headSize * (slots * rows + 2 * stages * columns) + 16 * (stages + slots) +
           unitBytes + (32 + 8 * rows) * slots;
  }
};

/// The tiles that are fastest, by head size, of kernels with no score function; with one, smaller
/// tiles leave registers for it.
template <int headSize, bool hasScore> struct AttentionTileChoice;
template <> struct AttentionTileChoice<128, false> {
  using Forward = HopperRuns<64, 4, 2>;
  using Queries = HopperTiles<64, 4>;
  using Keys = HopperTiles<64, 4>;
};
template <> struct AttentionTileChoice<64, false> {
  using Forward = HopperRuns<128, 5, 2>;
  using Queries = HopperTiles<64, 4>;
  using Keys = HopperTiles<64, 4>;
};
template <> struct AttentionTileChoice<192, false> {
  using Forward = AttentionTiles<16, 6, 64>;
  using Queries = AttentionTiles<16, 6, 32>;
  using Keys = AttentionTiles<16, 6, 16>;
};
template <> struct AttentionTileChoice<192, true> : AttentionTileChoice<192, false> {};
template <int headSize> struct AttentionTileChoice<headSize, true> {
  using Forward = AttentionTiles<16, 4, 64>;
  using Queries = AttentionTiles<16, 4, 32>;
  using Keys = AttentionTiles<16, 4, 32>;
};

/// Of the template with plain multiply-adds: every size of head, any strides, f32 and bf16.
struct AttentionPlainTiles {
  static constexpr int rows = 32, columns = 32, threads = 128;
};

/// bf16 with heads of 64, 128 or 192 runs on the tensor cores, everything else on plain
/// multiply-adds.
NANO_BOTH constexpr bool attentionOnTensorCores(const AttentionShape &s) {
  return s.isBf16 && s.vectorRows && (s.headSize == 64 || s.headSize == 128 || s.headSize == 192);
}

/// Padded f32 tiles: `tiles` of Dh elements a row, `scores` of one element a column.
NANO_BOTH constexpr int attentionPlainBytes(int headSize, int tiles, int scores) {
  return 4 * AttentionPlainTiles::rows *
             (tiles * (headSize + 1) + scores * (AttentionPlainTiles::columns + 1)) +
         16 * AttentionPlainTiles::rows;
}

template <class Choice>
NANO_BOTH constexpr TemplateLaunch tiledForwardLaunch(const AttentionShape &s) {
  using Tiles = typename Choice::Forward;
  const long long tiles = s.heads * divideUp(s.tokens, Tiles::rows);
  return {Tiles::threads, Tiles::blocks(tiles, s.multiprocessors),
          Tiles::sharedBytes(AttentionPart::Forward, s.headSize)};
}

template <class Choice>
NANO_BOTH constexpr TemplateLaunch tiledGradLaunch(const AttentionShape &s) {
  using Queries = typename Choice::Queries;
  using Keys = typename Choice::Keys;
  static_assert(Queries::threads == Keys::threads, "they share a launch");
  const int queryBytes = Queries::sharedBytes(AttentionPart::Queries, s.headSize),
            keyBytes = Keys::sharedBytes(AttentionPart::Keys, s.headSize);
  return {Queries::threads,
          s.heads * divideUp(s.tokens, Queries::rows) + s.keyHeads * divideUp(s.tokens, Keys::rows),
          queryBytes > keyBytes ? queryBytes : keyBytes};
}

/// nano.attention. Dynamic shared memory of the plain template is within 227 KB up to Dh = 560.
NANO_BOTH constexpr TemplateLaunch attentionForwardLaunch(const AttentionShape &s) {
  if (attentionOnTensorCores(s))
    return s.headSize == 192  ? tiledForwardLaunch<AttentionTileChoice<192, false>>(s)
           : s.hasScore       ? tiledForwardLaunch<AttentionTileChoice<0, true>>(s)
           : s.headSize == 64 ? tiledForwardLaunch<AttentionTileChoice<64, false>>(s)
                              : tiledForwardLaunch<AttentionTileChoice<128, false>>(s);
  return {AttentionPlainTiles::threads, s.heads * divideUp(s.tokens, AttentionPlainTiles::rows),
          attentionPlainBytes(s.headSize, 3, 1)};
}

/// nano.attention_grad: blocks of queries and blocks of keys. The plain template is within 227 KB
/// up to Dh = 384.
NANO_BOTH constexpr TemplateLaunch attentionGradLaunch(const AttentionShape &s) {
  if (attentionOnTensorCores(s))
    return s.headSize == 192  ? tiledGradLaunch<AttentionTileChoice<192, false>>(s)
           : s.hasScore       ? tiledGradLaunch<AttentionTileChoice<0, true>>(s)
           : s.headSize == 64 ? tiledGradLaunch<AttentionTileChoice<64, false>>(s)
                              : tiledGradLaunch<AttentionTileChoice<128, false>>(s);
  return {AttentionPlainTiles::threads,
          (s.heads + s.keyHeads) * divideUp(s.tokens, AttentionPlainTiles::rows),
          attentionPlainBytes(s.headSize, 4, 2)};
}

} // namespace nano
