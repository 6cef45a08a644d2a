// Products along a band by warpgroups, of rows of f32. A number is the sum of three bf16, each of
// which has the next 8 of its 24 bits, and a product that of six of theirs (forPairs). Sums that an
// infinity or a NaN enters are not finite. Included by nano_band.h.
//
// The rows of a block's windows lie in a ring in shared memory as three planes of bf16, so that
// each row is split once, by a warpgroup that does nothing else. Two others take turns along the
// tokens of a head: while the products of one run, the other writes its last results and splits
// what it multiplies next. All that is read comes to the second-level cache a tile before.
#pragma once

#include "nano_band_matrix.h"

namespace nano::band {

/// Two numbers as three words of two bf16, each of which cuts what those before it leave.
/// (Rounding, as warps do, takes warpgroups longer.)
NANO_DEVICE void cutWords(float x, float y, uint32_t (&words)[bandPlanes]) {
#pragma unroll
  for (int i = 0; i < bandPlanes; ++i) {
    const uint32_t low = bitCast<uint32_t>(x), high = bitCast<uint32_t>(y);
    words[i] = selectBytes(low, high, 0x7632);
    x -= bitCast<float>(low & 0xffff0000u);
    y -= bitCast<float>(high & 0xffff0000u);
  }
}

/// What both ops do with the rows of k or v: iteration i of bandScoresLaunch's or
/// bandProductLaunch's.
template <class S, bool isScores> struct Planes {
  static constexpr BandShape shape = {S::tokens,         S::heads,
                                      S::size,           S::width,
                                      S::onMatrices,     int(sizeof(typename S::First)),
                                      S::transpose,      int(sizeof(typename S::Second)),
                                      S::multiprocessors};
  static constexpr BandPlanesPlan plan = bandPlanesPlan(shape, isScores);
  /// Threads of a warpgroup; rows of a window that come before those of a tile, or transposed after
  /// them; what threads that split have left of the registers.
  static constexpr int one = bandPlaneThreads / 3, ahead = 16 * plan.steps - bandPlaneTokens,
                       splitRegisters = 3 * bandPlaneRegisters - 2 * plan.registers;
  using Rows = mma::Tile<plan.rows, plan.columns>;

  const Lane lane;
  const int warpgroup = shuffle(lane.warp, 0) / 4, warp = lane.warp % 4;
  const int head, column; ///< the block's first
  const int token, tiles; ///< the block's first, and how often it has 64

  NANO_DEVICE explicit Planes(long long iteration)
      : head(int(iteration % S::heads)),
        column(int(iteration / S::heads % plan.slices) * plan.taken),
        token(int(iteration / S::heads / plan.slices * plan.blockTiles) * bandPlaneTokens),
        tiles(int(least(plan.blockTiles, divideUp(S::tokens - token, bandPlaneTokens)))) {}

  /// Calls compute(tile, arrived, left) for the tiles of a warpgroup in order: arrived() waits for
  /// their rows, and after left() these may be overwritten. The threads that split call bring(tile)
  /// some time before.
  template <class View, class Bring, class Compute>
  NANO_DEVICE void run(const View &x, Bring &&bring, Compute &&compute) const {
    constexpr int arrivedAt = 1, leftAt = 3; // barriers, of each warpgroup that multiplies
    write<bandPlaneThreads>(x, 0, ahead + bandPlaneTokens, threadIdx.x, [] {});
    fenceProxyAsync();
    syncThreads(); // the rows of tile 0 are there
    if (warpgroup == 2) {
      decreaseRegisters<splitRegisters>();
      for (int tile = 1; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
          prefetchRows(x, tokenOf(ahead + bandPlaneTokens * (tile + 1)), column,
                       S::size - column < plan.taken ? S::size - column : plan.taken);
          bring(tile + 1);
        }
        // The tile before has none of the rows in whose place these come.
        write<one>(x, ahead + bandPlaneTokens * tile, bandPlaneTokens, threadIdx.x % one, [&] {
          if (tile > 1)
            barrierSync(leftAt + tile % 2, 2 * one);
        });
        fenceProxyAsync();
        barrierArrive(arrivedAt + tile % 2, 2 * one);
      }
    } else {
      increaseRegisters<plan.registers>();
      for (int tile = warpgroup; tile < tiles; tile += 2)
        compute(
            tile,
            [&] {
              if (tile > 0)
                barrierSync(arrivedAt + warpgroup, 2 * one);
            },
            [&] {
              if (tile + 2 < tiles)
                barrierArrive(leftAt + warpgroup, 2 * one);
            });
    }
  }

  /// Of 64 tokens from `first` on, by the threads that split.
  template <class View>
  NANO_DEVICE void prefetchRows(const View &x, int first, int column, int count) const {
    constexpr int line = 128 / int(sizeof *x.base);
    const int lines = (count + line - 1) / line;
    for (int i = threadIdx.x % one; i < bandPlaneTokens * lines; i += one) {
      const int t = first + i / lines, at = column + i % lines * line;
      if (unsigned(t) < unsigned(S::tokens))
        prefetch(&x.at(t, head, at));
    }
  }

  /// The token of row `row` of the block's.
  NANO_DEVICE int tokenOf(int row) const { return token - (S::transpose ? 0 : ahead) + row; }
  /// The place in the ring of row `row`, a multiple of 16.
  static NANO_DEVICE int placeOf(int row) { return row % plan.rows; }

private:
  /// Splits rows into the ring, in which there is room for them after mayStore(); what the tensor
  /// does not have becomes zero.
  template <int threads, class View, class MayStore>
  NANO_DEVICE void write(const View &x, int first, int count, int thread,
                         MayStore &&mayStore) const {
    constexpr int pieces = plan.columns / 4, atOnce = threads / pieces,
                  each = (splitRegisters - 32) / 4 < 12 ? (splitRegisters - 32) / 4 : 12;
    const int piece = thread % pieces, mine = thread / pieces, at = column + 4 * piece;
    const bool isMine = threads % pieces == 0 || mine < atOnce,
               isColumn = at < S::size && 4 * piece < plan.taken;
    uint8_t *const ring = dynamicShared<uint8_t>() + piece % 2 * 8;
#pragma unroll 1
    for (int begin = 0; begin < count; begin += each * atOnce) {
      Vec<float, 4> rows[each];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const int row = begin + mine + i * atOnce, t = tokenOf(first + row);
        rows[i] = isMine && isColumn && row < count && unsigned(t) < unsigned(S::tokens)
                      ? nano::load<4>(&x.at(t, head, at))
                      : Vec<float, 4>{};
      }
      if (begin == 0)
        mayStore();
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const int row = begin + mine + i * atOnce;
        if (!isMine || row >= count)
          break;
        uint32_t left[bandPlanes], right[bandPlanes];
        cutWords(rows[i][0], rows[i][1], left);
        cutWords(rows[i][2], rows[i][3], right);
        uint8_t *const place = ring + Rows::offset(placeOf(first + row), piece / 2);
#pragma unroll
        for (int plane = 0; plane < bandPlanes; ++plane)
          *reinterpret_cast<Vec<uint32_t, 2> *>(place + plane * plan.planeBytes) = {
              {left[plane], right[plane]}};
      }
    }
  }
};

/// The scores of a block's tokens.
template <class S> class PlaneScores {
  using Planes = band::Planes<S, true>;
  static constexpr BandPlanesPlan plan = Planes::plan;
  static constexpr int depth = int(divideUp(S::size, 16)), whole = plan.steps / 4,
                       rest = plan.steps % 4;
  /// Of the window's keys those in 64s, and what is left.
  struct Sums {
    float whole[PlaneScores::whole][32], rest[PlaneScores::rest > 0 ? 8 * PlaneScores::rest : 8];
  };
  const Planes planes;

public:
  NANO_DEVICE explicit PlaneScores(long long iteration) : planes(iteration) {}

  template <int yCount> NANO_DEVICE void run(const BandOperands<S, yCount> &x) const {
    bool areAligned = S::width % 4 == 0;
    for (const auto &y : x.y)
      areAligned &= hasAlignedRows<4 * int(sizeof *y.base)>(y);
    auto bring = [&](int tile) {
      planes.prefetchRows(x.first, planes.token + bandPlaneTokens * tile, 0, S::size);
    };
    planes.run(x.second, bring, [&](int tile, auto &&arrived, auto &&left) {
      uint32_t queries[depth][bandPlanes][4];
      loadQueries(queries, x.first, tile);
      arrived();
      Sums sums;
      multiply(sums, queries, tile);
      left();
      float *const turned =
          dynamicShared<float>(bandPlanes * plan.planeBytes) + planes.lane.warp * 8 * plan.stride;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        turn(turned, sums, half);
        syncWarp(); // the half's scores are there
        if (areAligned)
          leave<4>(x, turned, tile, half);
        else
          leave<1>(x, turned, tile, half);
        syncWarp();
      }
    });
  }

private:
  template <class View>
  NANO_DEVICE void loadQueries(uint32_t (&left)[depth][bandPlanes][4], const View &q,
                               int tile) const {
    const Lane &lane = planes.lane;
    const int first = planes.token + bandPlaneTokens * tile + 16 * planes.warp + lane.group;
#pragma unroll
    for (int k = 0; k < depth; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = first + i % 2 * 8, d = 16 * k + i / 2 * 8 + 2 * lane.pair;
        const auto pair = t < S::tokens && (S::size % 16 == 0 || d < S::size)
                              ? nano::load<2>(&q.at(t, planes.head, d))
                              : Vec<float, 2>{};
        uint32_t words[bandPlanes];
        cutWords(pair[0], pair[1], words);
#pragma unroll
        for (int term = 0; term < bandPlanes; ++term)
          left[k][term][i] = words[term];
      }
  }

  NANO_DEVICE void multiply(Sums &sums, const uint32_t (&left)[depth][bandPlanes][4],
                            int tile) const {
    const uint64_t keys = matrixDescriptor(dynamicShared<uint8_t>(), 16, 1024, Swizzle::Bytes128);
    uint64_t place[whole + 1];
#pragma unroll
    for (int i = 0; i <= whole; ++i)
      place[i] = advanced(keys, 128 * Planes::placeOf(bandPlaneTokens * (tile + i)));
    warpgroupFence();
    bool accumulate = false;
    auto add = [&](int k, int term, int plane) {
      const int at = plane * plan.planeBytes + k / 4 * plan.rows * 128 + k % 4 * 32;
#pragma unroll
      for (int i = 0; i < whole; ++i)
        warpgroupMultiply<bf16, bf16>(sums.whole[i], left[k][term], advanced(place[i], at),
                                      accumulate);
      if constexpr (rest > 0)
        warpgroupMultiply<bf16, bf16>(sums.rest, left[k][term], advanced(place[whole], at),
                                      accumulate);
      accumulate = true;
    };
    // The products of the highest terms after all others: see forPairs.
#pragma unroll
    for (int k = 0; k < depth; ++k)
      forSmallPairs<bandPlanes>([&](int term, int plane) { add(k, term, plane); });
#pragma unroll
    for (int k = 0; k < depth; ++k)
      add(k, 0, 0);
    warpgroupCommit();
    warpgroupWait<0>();
    keep(sums);
  }
  static NANO_DEVICE void keep(Sums &sums) {
#pragma unroll
    for (int i = 0; i < whole; ++i)
      warpgroupRegisters(sums.whole[i]);
    if constexpr (rest > 0)
      warpgroupRegisters(sums.rest);
  }

  /// Scores of the warp's tokens 8·half … 8·half + 7 become rows in shared memory.
  NANO_DEVICE void turn(float *turned, const Sums &sums, int half) const {
    const Lane &lane = planes.lane;
    // Key j of the window is number j − ahead + W − 1 − t of token t's band.
    const int first =
        S::width - 1 - Planes::ahead - 16 * planes.warp - 8 * half - lane.group + 2 * lane.pair;
    float *const row = turned + lane.group * plan.stride + first;
    auto set = [&](int j, float score) {
      if (unsigned(first + j) < unsigned(S::width))
        row[j] = score;
    };
#pragma unroll
    for (int i = 0; i < whole; ++i)
#pragma unroll
      for (int j = 0; j < 16; ++j)
        set(64 * i + j / 2 * 8 + j % 2, sums.whole[i][j / 2 * 4 + 2 * half + j % 2]);
    if constexpr (rest > 0)
#pragma unroll
      for (int j = 0; j < 4 * rest; ++j)
        set(64 * whole + j / 2 * 8 + j % 2, sums.rest[j / 2 * 4 + 2 * half + j % 2]);
  }
  /// Stores them, `each` by one access.
  template <int each, class Operands>
  NANO_DEVICE void leave(const Operands &x, const float *turned, int tile, int half) const {
    using Result = typename S::Result;
    constexpr int accesses = int(divideUp(S::width, each));
    const int first = planes.token + bandPlaneTokens * tile + 16 * planes.warp + 8 * half;
#pragma unroll 4
    for (int i = planes.lane.lane; i < 8 * accesses; i += 32) {
      const int row = i / accesses, w = i % accesses * each, t = first + row;
      if (t >= S::tokens)
        break;
      auto scores = nano::load<each>(turned + row * plan.stride + w);
      // What is no token is no zero times an infinity either.
      if (t < S::width - 1)
#pragma unroll
        for (int j = 0; j < each; ++j)
          scores[j] = w + j + t < S::width - 1 ? 0.0f : scores[j];
      for (const auto &y : x.y)
        store<each, each *int(sizeof(Result))>(&y.at(t, planes.head, w), to<Result>(scores));
    }
  }
};

/// The sums of some columns of a block's tokens.
template <class S> class PlaneProducts {
  using Planes = band::Planes<S, false>;
  using T = typename S::First;
  static constexpr BandPlanesPlan plan = Planes::plan;
  static constexpr int most = plan.batch, terms = sizeof(T) == 4 ? bandPlanes : 1,
                       lowTerms = terms > 1 ? terms - 1 : 1;
  const Planes planes;

public:
  NANO_DEVICE explicit PlaneProducts(long long iteration) : planes(iteration) {}

  template <int yCount> NANO_DEVICE void run(const BandOperands<S, yCount> &x) const {
    // Of the tile's tokens, or transposed of the rows that its window adds.
    auto bring = [&](int tile) {
      planes.prefetchRows(
          x.first, planes.token + bandPlaneTokens * tile + (S::transpose ? Planes::ahead : 0), 0,
          S::width);
    };
    planes.run(x.second, bring, [&](int tile, auto &&arrived, auto &&left) {
      float sums[plan.taken / 2];
      uint32_t high[plan.steps][4];
      const uint64_t rows =
          matrixDescriptor(dynamicShared<uint8_t>(), plan.rows * 128, 1024, Swizzle::Bytes128);
      bool accumulate = false;
      auto add = [&](const uint32_t (&weights)[4], int step, int plane) {
        const int row = bandPlaneTokens * tile + 16 * step;
        warpgroupMultiply<bf16, bf16, Major::MN>(
            sums, weights, advanced(rows, plane * plan.planeBytes + 128 * Planes::placeOf(row)),
            accumulate);
        accumulate = true;
      };
      auto finish = [&] {
        warpgroupCommit();
        warpgroupWait<0>();
        warpgroupRegisters(sums);
      };
#pragma unroll
      for (int begin = 0; begin < plan.steps; begin += most) {
        uint32_t low[most][lowTerms][4];
        loadWeights(high, low, x.first, tile, begin);
        if (begin == 0)
          arrived();
        else
          warpgroupRegisters(sums);
        warpgroupFence();
#pragma unroll
        for (int i = 0; i < most; ++i)
          if (begin + i < plan.steps)
            forSmallPairs<terms>([&](int term, int plane) {
              add(term == 0 ? high[begin + i] : low[i][term - 1], begin + i, plane);
            });
        if (begin + most < plan.steps)
          finish();
      }
#pragma unroll
      for (int step = 0; step < plan.steps; ++step)
        add(high[step], step, 0);
      finish();
      left();
      leaveSums(x, sums, planes.lane, planes.token + bandPlaneTokens * tile + 16 * planes.warp,
                planes.head, planes.column);
    });
  }

private:
  /// Of the steps of the window from `begin` on; those that the warp's tokens do not have are zero.
  template <class View>
  NANO_DEVICE void loadWeights(uint32_t (&high)[plan.steps][4], uint32_t (&low)[most][lowTerms][4],
                               const View &p, int tile, int begin) const {
    const Lane &lane = planes.lane;
    constexpr int forward = S::transpose ? -1 : 1;
    const int first = planes.token + bandPlaneTokens * tile, row = 16 * begin + 2 * lane.pair;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 16 * planes.warp + lane.group + 8 * half;
      // Number w ± r of a band is for row r of the window, and of a token's band not all are of
      // rows that there are.
      const int w =
          (S::transpose ? S::width - 1 + t : S::width - 1 - t - Planes::ahead) + forward * row;
      const int behind = S::transpose ? first + t + S::width - S::tokens : S::width - 1 - first - t;
      const int lowest = behind > 0 ? behind : 0;
      const unsigned count = first + t < S::tokens && lowest < S::width ? S::width - lowest : 0;
      const T *const from =
          S::transpose ? &p.at(first + row, planes.head, w) : &p.at(first + t, planes.head, w);
      const long long step = S::transpose ? p.sequence - p.element : p.element;
#pragma unroll
      for (int i = 0; i < most; ++i)
#pragma unroll
        for (int right = 0; right < 2; ++right) {
          if (begin + i >= plan.steps)
            break;
          float pair[2];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int r = 16 * i + 8 * right + j;
            pair[j] = unsigned(w + forward * r - lowest) < count ? float(from[step * r]) : 0.0f;
          }
          uint32_t words[bandPlanes];
          cutWords(pair[0], pair[1], words);
          high[begin + i][2 * right + half] = words[0];
#pragma unroll
          for (int term = 1; term < terms; ++term)
            low[i][term - 1][2 * right + half] = words[term];
        }
    }
  }
};

} // namespace nano::band
