// Products along a band on tensor cores, of rows of bf16. Weights that are f32 go in as several
// bf16 each, so that nothing but the sums is rounded, or what results in bf16 do not show. Included
// by nano_band.h.
#pragma once

#include "nano_band_walk.h"
#include "nano_hopper.h"

namespace nano::band {

/// A tile's scores on their way from fragments to whole rows: of each token those with the keys of
/// its group's window.
template <class S> struct Turned {
  using Walk = band::Walk<S, true>;
  static constexpr BandMatrixPlan plan = Walk::plan;
  float *const scores; ///< of a group

  /// Sums of eight keys, the first of which is number `key` of the part.
  NANO_DEVICE void set(const Lane &lane, const float (&sums)[4], int key) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Vec<float, 2> pair;
      pair[0] = sums[2 * half];
      pair[1] = sums[2 * half + 1];
      store<2, 8>(scores + (lane.group + 8 * half) * plan.stride + key + 2 * lane.pair, pair);
    }
  }
  /// Stores the part's scores of some of a group's tokens.
  template <class Operands>
  NANO_DEVICE void leave(const Walk &walk, const Operands &x, int group, int across) const {
    // Key j of token t is number j − t + W − 1 of its band.
    constexpr int rows = 16 / plan.across;
    const int keys = 16 * walk.steps();
#pragma unroll 4
    for (int i = 0; i < rows; ++i) {
      const int row = rows * across + i, t = walk.token + 16 * group + row,
                first = walk.ahead() + S::width - 1 - row; // number of key 0
      if (t >= S::tokens)
        break;
      const float *const of = scores + row * plan.stride - first;
#pragma unroll
      for (int begin = 0; begin < S::width; begin += 32) {
        const int w = begin + laneIndex();
        if (w >= S::width || (!Walk::isWhole && (w < first || w >= first + keys)))
          continue;
        // What is no token is no zero times an infinity either.
        const float score = w + t < S::width - 1 ? 0.0f : of[w];
        for (const auto &y : x.y)
          y.at(t, walk.head, w) = typename S::Result(score);
      }
    }
  }
};

/// A warp's 16 queries in registers.
template <class S> struct Queries {
  static constexpr int depth = int(divideUp(S::size, 16)), steps = 2;
  uint32_t left[depth][4];

  template <class Tile> NANO_DEVICE void load(const uint8_t *tile, const Lane &lane, int row) {
#pragma unroll
    for (int k = 0; k < depth; ++k)
      loadMatrix<4>(left[k], tile + Tile::block(lane.left, row, 2 * k));
  }
  /// Adds products with the keys of so many steps, of which rows[i] is the first row in the ring.
  template <class Keys, int tiles, int count>
  NANO_DEVICE void multiply(float (&sums)[tiles][4], const Lane &lane, const uint8_t *keys,
                            const int (&rows)[count]) const {
#pragma unroll
    for (int k = 0; k < depth; ++k)
#pragma unroll
      for (int i = 0; i < count; ++i) {
        uint32_t right[4];
        loadMatrix<4>(right, keys + Keys::block(lane.right, rows[i], 2 * k));
        const uint32_t first[2] = {right[0], right[1]}, second[2] = {right[2], right[3]};
        matrixMultiply<bf16, bf16>(sums[2 * i], left[k], first);
        matrixMultiply<bf16, bf16>(sums[2 * i + 1], left[k], second);
      }
  }
};

/// Tiles of scores: iteration i of bandScoresLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void scoresByMatrices(long long iteration, const BandOperands<S, yCount> &x) {
  using Walk = band::Walk<S, true>;
  constexpr BandMatrixPlan plan = Walk::plan;
  using Keys = mma::Tile<Walk::ringRows, plan.columns>;
  using OfQueries = mma::Tile<Walk::tokens, plan.columns>;
  constexpr int most = int(divideUp(plan.part, plan.across)), // steps of a warp
      atOnce = most < Queries<S>::steps ? most : Queries<S>::steps;
  const Lane lane;
  const int group = lane.warp / plan.across, across = lane.warp % plan.across;
  uint8_t *const keys = dynamicShared<uint8_t>(), *const ofQueries = keys + Walk::ringBytes;
  const Turned<S> turned{reinterpret_cast<float *>(ofQueries + plan.firstBytes) +
                         16 * group * plan.stride};
  auto syncGroup = [&] {
    if constexpr (Walk::plan.across == 1)
      syncWarp();
    else
      barrierSync(1 + group, 32 * Walk::plan.across);
  };
  auto startQueries = [&](const Walk &walk) {
    Walk::template startLines<OfQueries, 32 * Walk::plan.across>(
        32 * across + lane.lane, 16, x.first, walk.head, 0, walk.token + 16 * group,
        [&](int row, int chunk) { return ofQueries + OfQueries::offset(16 * group + row, chunk); });
  };
  Walk walk(iteration);
  walk.template startRows<Keys>(keys, x.second, true);
  startQueries(walk);
  copyAsyncCommit();
  Queries<S> queries;
  for (bool isMore = true; isMore;) {
    copyAsyncWait<0>();
    syncThreads();
    const Walk next = walk.next();
    isMore = next.isThere();
    if (walk.part == 0) {
      queries.template load<OfQueries>(ofQueries, lane, 16 * group);
      syncGroup();
    }
    if (isMore) {
      next.template startRows<Keys>(keys, x.second, false);
      if (next.part == 0)
        startQueries(next);
      copyAsyncCommit();
    }
    const int end = walk.steps() < most * (across + 1) ? walk.steps() : most * (across + 1);
#pragma unroll 1
    for (int step = most * across; step < end; step += atOnce) {
      float sums[2 * atOnce][4] = {};
      int rows[atOnce];
#pragma unroll
      for (int i = 0; i < atOnce; ++i)
        rows[i] = 16 * walk.slotOf(group + (step + i < end ? step + i : step));
      queries.template multiply<Keys>(sums, lane, keys, rows);
#pragma unroll
      for (int i = 0; i < 2 * atOnce; ++i)
        if (step + i / 2 < end)
          turned.set(lane, sums[i], 16 * step + 8 * i);
    }
    syncGroup();
    turned.leave(walk, x, group, across);
    walk = next;
  }
}

/// Makes tiles of sums one after the other: multiply(tile, steps, isLast) adds a part, whose
/// weights it reads before it calls left(), once; leave(tile) stores.
template <class S, class Rows, int yCount, class Multiply, class Leave>
NANO_DEVICE void walkProducts(long long iteration, const BandOperands<S, yCount> &x, uint8_t *rows,
                              const Weights<S> &weights, Multiply &&multiply, Leave &&leave) {
  using Walk = band::Walk<S, false>;
  Walk walk(iteration);
  walk.template startRows<Rows>(rows, x.second, true);
  weights.start(walk, x.first);
  copyAsyncCommit();
  for (bool isMore = true; isMore;) {
    copyAsyncWait<0>();
    fenceProxyAsync();
    syncThreads();
    const Walk next = walk.next();
    isMore = next.isThere();
    if (isMore)
      next.template startRows<Rows>(rows, x.second, false);
    multiply(walk, [&] {
      if (isMore) {
        syncThreads();
        weights.start(next, x.first);
        copyAsyncCommit();
      }
    });
    if (walk.isLast())
      leave(walk);
    walk = next;
  }
}

/// Words of bf16 of a step's weights: f32 as three, which have all of its bits, or for results in
/// bf16 as two, which have twice theirs.
template <class S> struct Terms {
  using T = typename S::First;
  static constexpr int count = !isSame<T, float> ? 1 : isSame<typename S::Result, float> ? 3 : 2;
  uint32_t left[count][4];

  NANO_DEVICE void set(const typename Weights<S>::Left &weights) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto &number = weights.number[i];
      if constexpr (count == 1) {
        left[0][i] = uint32_t(number[0].bits) | uint32_t(number[1].bits) << 16;
      } else {
        // 8 bits of the significand each. An infinity has no rest.
        float rest[2] = {number[0], number[1]};
#pragma unroll
        for (int term = 0; term < count; ++term) {
          const uint32_t low = bitCast<uint32_t>(rest[0]), high = bitCast<uint32_t>(rest[1]);
          left[term][i] = selectBytes(low, high, 0x7632);
#pragma unroll
          for (float &number : rest)
            number = abs(number) == infinity
                         ? 0.0f
                         : number - bitCast<float>(bitCast<uint32_t>(number) & 0xffff0000u);
        }
      }
    }
  }
};

/// Calls multiply(term, plane) for the pairs of a left number's terms and a right one's three whose
/// products are not below 2^-24 of theirs, but that of the highest ones.
template <int terms, class Multiply> NANO_DEVICE void forSmallPairs(Multiply &&multiply) {
#pragma unroll
  for (int order = bandPlanes - 1; order > 0; --order)
#pragma unroll
    for (int term = 0; term <= order; ++term)
      if (term < terms)
        multiply(term, order - term);
}
/// And that one, last: the units cut sums at each product, which costs as many bits fewer as the
/// sums are smaller yet.
template <int terms, class Multiply> NANO_DEVICE void forPairs(Multiply &&multiply) {
  forSmallPairs<terms>(multiply);
  multiply(0, 0);
}

/// Of four lanes each has word `pair` of four rows of words; then it has the words of row `pair`.
NANO_DEVICE void turnWords(uint32_t (&words)[4], int pair) {
#pragma unroll
  for (int across = 1; across <= 2; across *= 2) {
    const bool isUpper = pair & across;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & across)
        continue;
      const uint32_t other = shuffleXor(isUpper ? words[i] : words[i + across], across);
      words[i] = isUpper ? other : words[i];
      words[i + across] = isUpper ? words[i + across] : other;
    }
  }
}

/// Stores a warp's sums of 16 tokens from `first` on, of columns from `column` on.
template <class S, int yCount, int count>
NANO_DEVICE void leaveSums(const BandOperands<S, yCount> &x, const float (&sums)[count],
                           const Lane &lane, int first, int head, int column) {
  using Result = typename S::Result;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int t = first + lane.group + 8 * half;
    if constexpr (sizeof(Result) == 4 || S::size % 8 != 0) {
#pragma unroll
      for (int c = 0; c < count / 4; ++c) {
        Vec<float, 2> pair;
        pair[0] = sums[4 * c + 2 * half];
        pair[1] = sums[4 * c + 2 * half + 1];
        const int d = column + 8 * c + 2 * lane.pair;
        if (t < S::tokens && d < S::size)
#pragma unroll
          for (int k = 0; k < yCount; ++k)
            store<2, 2 * int(sizeof(Result))>(&x.y[k].at(t, head, d), to<Result>(pair));
      }
    } else {
      // Four lanes turn their words of four tiles, so that each has 16 bytes of a row.
#pragma unroll
      for (int c = 0; c < count / 4; c += 4) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = packBf16(sums[4 * (c + i) + 2 * half], sums[4 * (c + i) + 2 * half + 1]);
        turnWords(words, lane.pair);
        const int d = column + 8 * (c + lane.pair);
        if (t < S::tokens && d < S::size)
#pragma unroll
          for (int k = 0; k < yCount; ++k)
            storeWhole(reinterpret_cast<mma::Vector16 *>(&x.y[k].at(t, head, d)),
                       mma::Vector16{{words[0], words[1], words[2], words[3]}});
      }
    }
  }
}

/// Tiles of sums: iteration i of bandProductLaunch's. All threads of the block call it.
template <class S, int yCount>
NANO_DEVICE void productByMatrices(long long iteration, const BandOperands<S, yCount> &x) {
  using Walk = band::Walk<S, false>;
  constexpr BandMatrixPlan plan = Walk::plan;
  constexpr int most = plan.itemGroups < bandSteps ? plan.itemGroups : bandSteps;
  using Rows = mma::Tile<Walk::ringRows, plan.columns>;
  const Lane lane;
  uint8_t *const rows = dynamicShared<uint8_t>();
  const Weights<S> weights(reinterpret_cast<typename S::First *>(rows + Walk::ringBytes),
                           Walk(iteration), x.first);
  const uint64_t right = matrixDescriptor(rows, Walk::ringRows * 128, 1024, Swizzle::Bytes128);
  float sums[plan.taken / 2] = {};
  bool isFirst = true;
  auto multiply = [&](const Walk &walk, auto &&left) {
    // A warp's group has rows from its own place among the warpgroup's on; the others' weights are
    // zero.
    const int groups = walk.steps() + plan.groups - 1;
#pragma unroll 1
    for (int begin = 0; begin < groups; begin += most) {
      Terms<S> terms[most];
      auto set = [&](bool hasOthers) {
#pragma unroll
        for (int i = 0; i < most; ++i) {
          const int step = begin + i - lane.warp;
          if (step >= 0 && step < walk.steps()) {
            auto weight = weights.of(lane, lane.warp, step);
            if (hasOthers)
              Weights<S>::mask(weight, walk, lane, lane.warp, step);
            terms[i].set(weight);
          } else {
            terms[i] = {};
          }
        }
      };
      if (weights.hasOthers(walk))
        set(true);
      else
        set(false);
      if (begin + most >= groups)
        left();
      warpgroupRegisters(sums);
      warpgroupFence();
      auto add = [&](int i, const uint32_t (&left)[4]) {
        if (most < plan.itemGroups && begin + i >= groups)
          return;
        warpgroupMultiply<bf16, bf16, Major::MN>(
            sums, left, advanced(right, walk.slotOf(begin + i) * 16 * 128), !isFirst);
        isFirst = false;
      };
      // Of f32 results the smaller products of all steps come first: the units cut sums at each
      // product. It takes longer.
      constexpr int apart = isSame<typename S::Result, float> ? 1 : 0;
#pragma unroll
      for (int small = apart; small >= 0; --small)
#pragma unroll
        for (int i = 0; i < most; ++i)
#pragma unroll
          for (int term = Terms<S>::count - 1; term >= 0; --term)
            if (!apart || (term > 0) == (small > 0))
              add(i, terms[i].left[term]);
      warpgroupCommit();
      warpgroupWait<0>();
      warpgroupRegisters(sums);
    }
  };
  auto leave = [&](const Walk &walk) {
    isFirst = true;
    leaveSums(x, sums, lane, walk.token + 16 * lane.warp, walk.head, walk.column);
  };
  walkProducts<S, Rows>(iteration, x, rows, weights, multiply, leave);
}

} // namespace nano::band
