// Which of the attention templates' launches and maps an op gets, by its shape, for the compiler:
// every choice of tiles is made here, and a kernel knows its own.
#pragma once

#include "nano_attention_shape.h"

namespace nano {

/// Padded f32 tiles: two of Dh elements a row, `valueTiles` of Dv, `scores` of one element a
/// column.
NANO_BOTH constexpr int attentionPlainBytes(const AttentionShape &s, int valueTiles, int scores) {
  return 4 * AttentionPlainTiles::rows *
             (2 * (s.headSize + 1) + valueTiles * (s.valueSize + 1) +
              scores * (AttentionPlainTiles::columns + 1)) +
         16 * AttentionPlainTiles::rows;
}

template <class Choice>
NANO_BOTH constexpr TemplateLaunch tiledForwardLaunch(const AttentionShape &s) {
  using Tiles = typename Choice::Forward;
  const long long row = s.row > 0 ? s.row : s.tokens,
                  tiles = s.heads * (s.tokens / row) * divideUp(row, Tiles::rows);
  return {Tiles::threads, Tiles::blocks(tiles, s.multiprocessors),
          Tiles::sharedBytes(s.headSize, s.valueSize)};
}

template <class Choice>
NANO_BOTH constexpr TemplateLaunch tiledGradLaunch(const AttentionShape &s) {
  using Tiles = typename Choice::Grads;
  const int ofKeys = attentionSplitsKeys(s.headSize, s.valueSize) ? 2 : 1;
  const long long blocks = (s.heads + ofKeys * s.keyHeads) * divideUp(s.tokens, Tiles::rows);
  if (s.hasTickets)
    return {Tiles::threads, blocks < s.multiprocessors ? blocks : s.multiprocessors,
            Choice::GradsByTickets::sharedBytes(s.headSize, s.valueSize)};
  return {Tiles::threads, blocks, Tiles::sharedBytes(s.headSize, s.valueSize)};
}

/// select(choice) of the tiles of a shape on tensor cores.
template <int keySize, int valueSize, bool hasScore, int candidate, class Select>
NANO_BOTH constexpr auto ofTileChoice(const AttentionShape &s, Select select) {
  return !s.hasMaps ? select(AttentionTileChoice<keySize, valueSize, hasScore, candidate>())
         : s.row == 0
             ? select(AttentionTileChoice<keySize, valueSize, hasScore, candidate, true>())
             : select(AttentionTileChoice<keySize, valueSize, hasScore, candidate, true, true>());
}
template <int keySize, int valueSize, class Select>
NANO_BOTH constexpr auto ofTileChoice(const AttentionShape &s, Select select) {
  return s.hasScore     ? ofTileChoice<keySize, valueSize, true, 0>(s, select)
         : s.tiles == 0 ? ofTileChoice<keySize, valueSize, false, 0>(s, select)
         : s.tiles == 1 ? select(AttentionTileChoice<keySize, valueSize, false, 1>())
         : s.tiles == 2 ? select(AttentionTileChoice<keySize, valueSize, false, 2>())
                        : ofTileChoice<keySize, valueSize, false, 3>(s, select);
}
template <int keySize, class Select>
NANO_BOTH constexpr auto ofTileChoice(const AttentionShape &s, Select select) {
  return s.valueSize <= 64    ? ofTileChoice<keySize, 64>(s, select)
         : s.valueSize <= 128 ? ofTileChoice<keySize, 128>(s, select)
         : s.valueSize <= 192 ? ofTileChoice<keySize, 192>(s, select)
                              : ofTileChoice<keySize, 256>(s, select);
}
template <class Select>
NANO_BOTH constexpr auto ofTileChoice(const AttentionShape &s, Select select) {
  return s.headSize <= 64    ? ofTileChoice<64>(s, select)
         : s.headSize <= 128 ? ofTileChoice<128>(s, select)
         : s.headSize <= 192 ? ofTileChoice<192>(s, select)
                             : ofTileChoice<256>(s, select);
}

/// Rows of the boxes of the gradients' maps, which have 64 columns.
NANO_BOTH constexpr int attentionGradBoxRows(const AttentionShape &s) {
  return ofTileChoice(s, []<class Choice>(Choice) constexpr { return Choice::gradColumns; });
}
/// Rows of the boxes of the forward pass's maps.
struct AttentionBoxes {
  int queries, keys;
};
NANO_BOTH constexpr AttentionBoxes attentionBoxes(const AttentionShape &s) {
  return ofTileChoice(s, []<class Choice>(Choice) constexpr {
    return AttentionBoxes{Choice::Bulk::rows, Choice::Bulk::columns};
  });
}

/// The tiles of the forward pass with tensor maps, where queries see the keys of their own row of
/// so many tokens; 0: it is not known how many. On an H200, with heads of 64, three warpgroups take
/// 1.03, 1.00, 0.94 and 0.89 of the time of four in rows of 1,024, 2,048, 4,096 and 8,192, where
/// tiles are of causal rows 1.05 to 1.10 in the last three.
NANO_BOTH constexpr int attentionForwardTiles(const AttentionShape &s, long long row) {
  return s.hasMaps && s.row == 0 && !s.hasScore && s.headSize <= 64 && s.valueSize <= 64 &&
                 row > 2048
             ? 3
             : 0;
}

/// Whether the forward pass, with tensor maps, is of causal rows of so many tokens, to which
/// `row` of its shape is set then; 0: it is not known how many. A tile of queries ends with a row:
/// the first one of a row may be shorter, which is to cost little. On an H200, of 16,384 tokens, it
/// takes by that of any ranges 0.95, 0.94, 0.96, 0.98 and 1.01 in rows of 1,024, 2,048, 4,096,
/// 8,192 and 16,384 with 32 heads of 64, 0.92, 0.92, 0.94, 0.98 and 0.97 with 16 heads of 128.
NANO_BOTH constexpr bool attentionForwardOfRows(const AttentionShape &s, long long row) {
  if (!attentionOnTensorCores(s) || row == 0 || row % 64 != 0 || s.tokens % row != 0)
    return false;
  const long long rows = attentionBoxes(s).queries;
  return 8 * row >= 7 * divideUp(row, rows) * rows;
}

/// How many candidates there are for the tiles of the forward pass and of the gradients.
NANO_BOTH constexpr int attentionForwardCandidates(const AttentionShape &s) {
  if (!attentionOnTensorCores(s))
    return 1;
  return ofTileChoice(s, []<class Choice>(Choice) constexpr { return Choice::forwardCandidates; });
}
NANO_BOTH constexpr int attentionGradCandidates(const AttentionShape &s) {
  if (!attentionOnTensorCores(s))
    return 1;
  return ofTileChoice(s, []<class Choice>(Choice) constexpr { return Choice::gradCandidates; });
}

/// Whether the gradients come in five products, where queries see the keys of their own row of so
/// many tokens; 0: it is not known how many. Five products need sums in memory and an order in
/// which blocks add to them. On an H200, of 16,384 tokens, with 32 heads of 64 they take 0.96, 0.91
/// and 0.87 of the time of seven in rows of 4,096, 8,192 and 16,384, with 16 heads of 128 0.98 of
/// it in the last two, and more in shorter ones and where heads share keys. The longest blocks come
/// last, and the operands of fewer heads stay in the cache that seven products read them from
/// twice: with 12 heads of 64 or 8 of 128 they take 1.07 to 1.11. 2,048 blocks of keys on 132
/// multiprocessors are enough.
NANO_BOTH constexpr bool attentionInChain(const AttentionShape &s, long long row) {
  return attentionOnTensorCores(s) && (s.headSize == 64 || s.headSize == 128) &&
         s.valueSize == s.headSize && !s.hasScore && s.heads == s.keyHeads &&
         row >= (s.headSize == 64 ? 4096 : 8192) &&
         s.heads * divideUp(s.tokens, 128) >= 15LL * s.multiprocessors;
}

/// Whether the gradients in seven products come by tickets, where queries see the keys of their own
/// row of so many tokens; 0: it is not known how many. On an H100 they take, by those without, of
/// 49,152 tokens with 12 heads of 64 0.82, 0.89, 0.96, 1.00 and 1.04 in rows of 512, 1,024, 2,048,
/// 4,096 and 16,384, and 0.74, 0.77, 0.91 and 0.94 with documents and windows of 1, 2, 7 and 14
/// blocks of 128 keys; with 6 heads of 128 0.85, 0.95, 0.97 in the first three, and 0.81, 0.81,
/// 0.93 and 0.96 with the windows. Where heads share keys, whose blocks of keys are long and few,
/// 0.87 to 0.95 in rows of 512, but up to 1.03 of 1,024. With 3 blocks a multiprocessor they
/// take 1.02 to 1.06, with 6 0.94 to 0.98. Heads of 65 to 127 have no registers for it.
NANO_BOTH constexpr bool attentionByTickets(const AttentionShape &s, long long row) {
  const int both = attentionTileSize(s.headSize) + attentionTileSize(s.valueSize);
  return attentionOnTensorCores(s) && !s.hasScore &&
         (both == 128 || (both <= 256 && s.headSize % 64 == 0)) &&
         (s.heads == s.keyHeads ? row <= 2048 : row > 0 && row <= 512) &&
         (s.heads + s.keyHeads) * divideUp(s.tokens, 128) >= 5LL * s.multiprocessors;
}

/// Whether the gradients come in five products of causal rows of so many tokens; 0: it is not known
/// how many. A block of threads computes whole rows of a head, so that their number must be a few
/// times that of multiprocessors, and their sums for dq are to stay in the cache. On an H200, of
/// 49,152 tokens with 12 heads of 64, they take by seven products with tickets 0.76, 0.68, 0.72 and
/// 0.82 in rows of 128, 256, 512 and 1,024.
NANO_BOTH constexpr bool attentionOfRows(const AttentionShape &s, long long row) {
  return attentionOnTensorCores(s) && s.headSize <= 64 && s.valueSize == s.headSize &&
         !s.hasScore && s.heads == s.keyHeads && row > 0 && row <= 1024 &&
         row % RowTiles::rows == 0 && s.tokens % row == 0 &&
         s.tokens / row * s.heads >= 2LL * s.multiprocessors;
}
/// Likewise of longer rows, and of heads of 65 to 128 or narrower ones that share keys: a block of
/// threads has a block of keys from either end of a row. All take equally long, but the middle one
/// of an odd number, which has half the work, so that they must fill the multiprocessors evenly. On
/// an H200, of 16,384 tokens, 16 heads of 128 take by the faster form of seven products 0.94, 0.85,
/// 0.86, 0.76 and 0.71 in rows of 1,024, 2,048, 4,096, 8,192 and 16,384, 8 heads that share 2 heads
/// of keys 0.92, 0.88 and 0.84 in rows of 1,024, 2,048 and 8,192, 16 heads of 96 0.82 and 0.86 and
/// 32 heads of 64 that share 8 0.83 in rows of 2,048. 32 heads of 64 take by the faster of seven
/// products and five in a chain 0.84, 0.89, 0.94 and 0.97 in rows of 2,048 to 16,384.
NANO_BOTH constexpr bool attentionFromEnds(const AttentionShape &s, long long row) {
  const int size = attentionTileSize(s.headSize);
  if (!attentionOnTensorCores(s) || s.hasScore || size > 128 ||
      size != attentionTileSize(s.valueSize) || attentionHasWholeRows(s, row) || row < 1024 ||
      row % 128 != 0 || s.tokens % row != 0)
    return false;
  const long long ofRow = row / 128, rows = s.tokens / row * s.keyHeads,
                  rounds = divideUp(rows * divideUp(ofRow, 2), s.multiprocessors);
  return 16 * rows * ofRow >= 15 * 2 * rounds * s.multiprocessors; // in blocks of keys
}

/// The gradients in five products: the launch, and what it adds to in memory, f32 of sums for dq
/// and counts, zeros, which begin behind one number.
struct AttentionInFive {
  TemplateLaunch launch;
  long long sums, counts;
};
template <class Tiles>
NANO_BOTH constexpr AttentionInFive inFiveFromEnds(const AttentionShape &s, long long row) {
  return {{Tiles::threads, Tiles::blocks(s, row), Tiles::sharedBytes},
          Tiles::units(s, row) * Tiles::unit,
          Tiles::units(s, row)};
}
template <class Tiles> NANO_BOTH constexpr AttentionInFive inFiveInChain(const AttentionShape &s) {
  return {{Tiles::threads, Tiles::blocks(s), Tiles::sharedBytes(s.headSize)},
          Tiles::units(s) * Tiles::unit,
          Tiles::units(s)};
}
/// Of causal rows of so many tokens; 0: of any.
NANO_BOTH constexpr AttentionInFive attentionInFive(const AttentionShape &s, long long row) {
  if (row > 0 && attentionHasWholeRows(s, row)) {
    const int blocks = RowTiles::resident(s.tokens / row * s.heads, s.multiprocessors);
    return {
        {RowTiles::threads, blocks, RowTiles::sharedBytes}, blocks * RowTiles::sums(row), blocks};
  }
  if (row > 0)
    return s.headSize <= 64 ? inFiveFromEnds<EndTiles<64>>(s, row)
                            : inFiveFromEnds<EndTiles<128>>(s, row);
  return s.headSize <= 64 ? inFiveInChain<AttentionChainChoice<64>::Tiles>(s)
                          : inFiveInChain<AttentionChainChoice<128>::Tiles>(s);
}

/// nano.attention. Dynamic shared memory of the plain template is within 227 KB up to Dh = Dv =
/// 560.
NANO_BOTH constexpr TemplateLaunch attentionForwardLaunch(const AttentionShape &s) {
  if (attentionOnTensorCores(s))
    return ofTileChoice(
        s, [&]<class Choice>(Choice) constexpr { return tiledForwardLaunch<Choice>(s); });
  return {AttentionPlainTiles::threads, s.heads * divideUp(s.tokens, AttentionPlainTiles::rows),
          attentionPlainBytes(s, 1, 1)};
}

/// nano.attention_grad: blocks of queries and blocks of keys. The plain template is within 227 KB
/// up to Dh = Dv = 384.
NANO_BOTH constexpr TemplateLaunch attentionGradLaunch(const AttentionShape &s) {
  if (attentionOnTensorCores(s))
    return ofTileChoice(s,
                        [&]<class Choice>(Choice) constexpr { return tiledGradLaunch<Choice>(s); });
  return {AttentionPlainTiles::threads,
          (s.heads + s.keyHeads) * divideUp(s.tokens, AttentionPlainTiles::rows),
          attentionPlainBytes(s, 2, 2)};
}

} // namespace nano
