// How a block on tensor cores goes along the tokens of a head: the rows of a band's window in a
// ring in shared memory, weights of products beside them. Included by nano_band.h.
//
// What a tile needs is on its way while the one before is computed, so that neither waits for the
// other: rows as soon as all warps have left those in whose place they come, weights as soon as
// these are in registers.
#pragma once

#include "nano_matrix_tiles.h"

namespace nano::band {

using mma::Lane;

/// Whether the rows of a [T, H, …] begin at multiples of so many bytes.
template <int bytes, class View> NANO_DEVICE bool hasAlignedRows(const View &x) {
  constexpr long long each = sizeof *x.base;
  return x.element == 1 && (reinterpret_cast<uint64_t>(x.base) | uint64_t(x.sequence * each) |
                            uint64_t(x.row * each)) %
                                   bytes ==
                               0;
}

/// A part of a tile's window, of iteration i of bandScoresLaunch's or bandProductLaunch's.
template <class S, bool isScores> struct Walk {
  static constexpr BandShape shape = {S::tokens,
                                      S::heads,
                                      S::size,
                                      S::width,
                                      true,
                                      int(sizeof(typename S::First)),
                                      S::transpose,
                                      int(sizeof(typename S::Second)),
                                      S::multiprocessors};
  static constexpr BandMatrixPlan plan = bandMatrixPlan(shape, isScores);
  static constexpr int threads = 32 * plan.warps, tokens = 16 * plan.groups,
                       slices = isScores ? 1 : int(divideUp(S::size, plan.columns)),
                       ringRows = 16 * plan.slots,
                       ringBytes = ringRows * plan.columns * int(sizeof(typename S::Second));
  static constexpr bool isWhole = plan.part == plan.window;
  int head, column;       ///< of rows: the first
  int token, end;         ///< the tile's first token, and the one behind the block's last
  int part = 0, slot = 0; ///< its first step, and the ring's slot of its first group of rows

  NANO_DEVICE explicit Walk(long long iteration)
      : head(int(iteration % S::heads)), column(int(iteration / S::heads % slices) * plan.columns),
        token(int(iteration / S::heads / slices * plan.tiles) * tokens),
        end(S::tokens - token < plan.tiles * tokens ? S::tokens
                                                    : token + int(plan.tiles) * tokens) {}
  NANO_DEVICE Walk next() const {
    Walk walk = *this;
    walk.slot = slotOf(plan.moves);
    walk.part += plan.part;
    if (walk.part >= plan.window) {
      walk.part = 0;
      walk.token += tokens;
    }
    return walk;
  }
  NANO_DEVICE bool isThere() const { return token < end; }
  NANO_DEVICE bool isLast() const { return isWhole || part + plan.part >= plan.window; }
  NANO_DEVICE int steps() const {
    return isWhole ? plan.window : isLast() ? plan.window - part : plan.part;
  }
  /// The token of the part's first row, less the tile's first one.
  NANO_DEVICE int ahead() const { return 16 * (part + (S::transpose ? 0 : 1 - plan.window)); }
  /// The ring's slot of a group of rows of the part.
  NANO_DEVICE int slotOf(int group) const {
    const int at = slot + group;
    return at < plan.slots ? at : at - plan.slots;
  }

  /// Starts copying the part's rows, of a whole window those alone that the tile before does not
  /// have, unless there is none. What the tensor does not have becomes zero.
  template <class Tile, class View>
  NANO_DEVICE void startRows(uint8_t *ring, const View &x, bool isFirst) const {
    const int had = isWhole && !isFirst ? plan.itemGroups - plan.groups : 0,
              slot = 16 * slotOf(had);
    startLines<Tile, threads>(threadIdx.x, 16 * (plan.itemGroups - had), x, head, column,
                              token + ahead() + 16 * had, [&](int row, int chunk) {
                                const int at = slot + row;
                                return ring +
                                       Tile::offset(at < ringRows ? at : at - ringRows, chunk);
                              });
  }

  /// Starts copying rows x[first …, head, column …] to where `to` says of a row and its chunk, by
  /// threads `thread`, `thread` + count, …: each has chunks of one column.
  template <class Tile, int count, class View, class To>
  static NANO_DEVICE void startLines(int thread, int rows, const View &x, int head, int column,
                                     int first, To &&to) {
    constexpr int each = 16 / int(sizeof(typename S::Second)),
                  lanes = Tile::chunks < count ? Tile::chunks : count, atOnce = count / lanes;
    if (count % lanes != 0 && thread >= lanes * atOnce)
      return;
    for (int chunk = thread % lanes; chunk < Tile::chunks; chunk += lanes) {
      const int at = column + each * chunk;
      const auto *from = &x.at(first + thread / lanes, head, at);
#pragma unroll 4
      for (int row = thread / lanes; row < rows; row += atOnce) {
        const bool is = unsigned(first + row) < unsigned(S::tokens) && at < S::size;
        copyAsync<16>(to(row, chunk), is ? from : x.base, is ? 16 : 0);
        from += atOnce * x.sequence;
      }
    }
  }
};

/// Lines of weights of a part in shared memory: of each of the tile's tokens those for its rows, or
/// transposed of each row those for the tile's tokens, from a multiple of 16 bytes of memory on.
/// Numbers that come after those of the band are zero; before them may be what comes before the
/// band in memory.
template <class S> struct Weights {
  using T = typename S::First;
  using Walk = band::Walk<S, false>;
  static constexpr BandMatrixPlan plan = Walk::plan;
  static constexpr int each = 16 / int(sizeof(T)), pieces = plan.stride / each,
                       lines = 16 * (S::transpose ? plan.itemGroups : plan.groups);
  T *const weights;
  /// Of line 0, what its first number is behind a multiple of 16 bytes, in numbers; by how much
  /// that of a line differs from the one's before. Tiles and parts begin at multiples of 16 tokens,
  /// so that those of all are alike.
  const int shift, slope;
  const bool isShifted; ///< whether other numbers are before a band's
  /// Bands of whole 16 bytes begin at such multiples, or their numbers are copied one by one.
  static constexpr bool isWhole = S::width % each == 0;

  template <class View>
  NANO_DEVICE Weights(T *weights, const Walk &walk, const View &p)
      : weights(weights),
        shift(int(reinterpret_cast<uint64_t>(&p.at(walk.token, walk.head, S::width - 1)) /
                  sizeof(T) % each)),
        slope(int(p.sequence % each) - 1), isShifted(!isWhole && !hasAlignedRows<16>(p)) {}

  /// The number in its band that a line's first weight has, those of the 16 bytes before it apart.
  static NANO_DEVICE int firstOf(const Walk &walk, int line) {
    return S::transpose ? S::width - 1 - walk.ahead() - line
                        : S::width - 1 + walk.ahead() - line % 16;
  }
  NANO_DEVICE int shiftOf(int line) const {
    return (isWhole ? S::width - 1 - line : shift + line * slope) & (each - 1);
  }

  template <class View> NANO_DEVICE void start(const Walk &walk, const View &p) const {
    if (isWhole ? hasAlignedRows<16>(p)
                : p.element == 1 && reinterpret_cast<uint64_t>(p.base) % 16 == 0)
      forPieces(walk, p, [&](T *to, const T *from, int, int has) {
        copyAsync<16>(to, from, has * int(sizeof(T)));
      });
    else
      forPieces(walk, p, [&](T *to, const T *from, int before, int has) {
#pragma unroll
        for (int j = 0; j < each; ++j) {
          const bool is = j >= before && j < has;
          if constexpr (sizeof(T) == 4)
            copyAsync<4>(to + j, is ? from + j * p.element : p.base, is ? 4 : 0);
          else
            to[j].bits = is ? loadReadOnly(from + j * p.element).bits : uint16_t(0);
        }
      });
  }
  /// copy(to, from, before, has) for a thread's pieces of 16 bytes: numbers before the band's, and
  /// those together with its own.
  template <class View, class Copy>
  NANO_DEVICE void forPieces(const Walk &walk, const View &p, Copy &&copy) const {
    constexpr int count = Walk::threads, lanes = pieces < count ? pieces : count,
                  atOnce = count / lanes;
    const int thread = threadIdx.x, first = walk.token + (S::transpose ? walk.ahead() : 0);
    if (thread >= lanes * atOnce)
      return;
    for (int piece = thread % lanes; piece < pieces; piece += lanes)
#pragma unroll 2
      for (int line = thread / lanes; line < lines; line += atOnce) {
        const int at = first + line, w = firstOf(walk, line) - shiftOf(line) + piece * each;
        const bool is = unsigned(at) < unsigned(S::tokens) &&
                        (isWhole ? unsigned(w) < unsigned(S::width) : w > -each && w < S::width);
        const int has = !is ? 0 : isWhole || S::width - w >= each ? each : S::width - w;
        copy(weights + line * plan.stride + piece * each, is ? &p.at(at, walk.head, w) : p.base,
             w < 0 ? -w : 0, has);
      }
  }

  /// A lane's places in the left 16 × 16 matrix of a step: of matrixMultiply's a, of each word the
  /// lower half, the upper one.
  struct Left {
    T number[4][2];
  };
  /// Of a group's step.
  NANO_DEVICE Left of(const Lane &lane, int group, int step) const {
    Left found;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int t = lane.group + i % 2 * 8, r = 2 * lane.pair + i / 2 * 8 + j,
                  shift = shiftOf(S::transpose ? r : t);
        found.number[i][j] =
            S::transpose ? weights[(16 * (group + step) + r) * plan.stride + 16 * group + t + shift]
                         : weights[(16 * group + t) * plan.stride + 16 * step + r + shift];
      }
    return found;
  }
  /// Whether some of the part's weights are none: those for rows of no token, which is no zero
  /// times an infinity either, or what comes before the band. mask() makes them zero.
  NANO_DEVICE bool hasOthers(const Walk &walk) const {
    return isShifted || (!S::transpose && walk.token + walk.ahead() < 0);
  }
  static NANO_DEVICE void mask(Left &left, const Walk &walk, const Lane &lane, int group,
                               int step) {
    const int row = walk.token + walk.ahead() + 16 * (group + step),
              number = firstOf(walk, S::transpose ? 16 * step : 0) + (S::transpose ? 0 : 16 * step);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int t = lane.group + i % 2 * 8, r = 2 * lane.pair + i / 2 * 8 + j;
        if ((!S::transpose && row + r < 0) || number + (S::transpose ? t - r : r - t) < 0)
          left.number[i][j] = T(0.0f);
      }
  }
};

} // namespace nano::band
