// Linear recurrences h[n, t, c] = a[n, t, c]·h[n, t−1, c] + b[n, t, c] (nano.recurrence), by maps
// h ↦ factor·h + term, which compose: a thread's elements are one, a warp's, a block's.
//
// A generated kernel describes the op with a struct:
//
//   struct Recurrence {
//     using Element = float; // of a, b and h: nano::bf16 or float
//     static constexpr int sequences = 2, length = 4096, channels = 768; // N, T, C
//     static constexpr int vector = 4; // see RecurrenceShape
//     static constexpr bool hasFactor = true, hasTerm = true, reverse = false, adjoint = false;
//     static constexpr float initial = 0.0f;
//   };
//   … nano::RecurrenceOperands<Recurrence> x;
//     x.a = {work.template pointer<const float>(0), 3145728, 768, 1}; // strides
//     x.b = {work.template pointer<const float>(1), 3145728, 768, 1};
//     x.h[0] = {work.template pointer<float>(2), 3145728, 768, 1};
//     nano::recurrence<Recurrence>(work.begin, x);
//
// Threads, iterations and dynamic shared bytes are recurrenceLaunch(shape), the blocks of a cluster
// recurrencePlan(shape).cluster; iterationsPerBlock is 1. Every element is read once. The order in
// which maps are composed depends on the shape alone.
#pragma once

#include "nano_hopper.h"
#include "nano_kernels.h"
#include "nano_recurrence_shape.h"

namespace nano {

/// A tensor of three dimensions in memory: element (n, t, c) is at
/// base[n·sequence + t·row + c·element].
template <class T> struct SequenceView {
  T *base;
  long long sequence, row, element = 1;
  NANO_DEVICE T &at(long long n, long long t, long long c) const {
    return base[n * sequence + t * row + c * element];
  }
};

template <class S, int hCount = 1> struct RecurrenceOperands {
  SequenceView<const typename S::Element> a, b; ///< read where the op has them
  SequenceView<typename S::Element> h[hCount];
};

namespace sequence {

/// h ↦ factor·h + term; what the op lacks is 1 or 0.
template <class S> struct Map {
  float factor = 1, term = 0;
  /// This map behind `before`.
  NANO_DEVICE Map after(const Map &before) const {
    Map map;
    if constexpr (S::hasFactor)
      map.factor = factor * before.factor;
    if constexpr (S::hasTerm)
      map.term = (*this)(before.term);
    return map;
  }
  NANO_DEVICE float operator()(float h) const {
    if constexpr (!S::hasFactor)
      return h + term;
    else if constexpr (!S::hasTerm)
      return factor * h;
    else
      return fma(factor, h, term);
  }
  /// That of the lane `distance` before.
  NANO_DEVICE Map up(int distance) const {
    Map map;
    if constexpr (S::hasFactor)
      map.factor = shuffleUp(factor, distance);
    if constexpr (S::hasTerm)
      map.term = shuffleUp(term, distance);
    return map;
  }
  /// Of the lanes up to this one that are a multiple of `step` away.
  template <int step> NANO_DEVICE Map upTo() const {
    Map map = *this;
#pragma unroll
    for (int distance = step; distance < 32; distance *= 2) {
      const Map before = map.up(distance);
      if (laneIndex() >= distance)
        map = map.after(before);
    }
    return map;
  }
};

template <class S>
constexpr RecurrenceShape shapeOf = {S::sequences,
                                     S::length,
                                     S::channels,
                                     S::vector,
                                     int(sizeof(typename S::Element)),
                                     int(S::hasFactor) + int(S::hasTerm)};

/// The states that the warps of a sequence begin with, from what each does to the state before it.
/// Channels are the block's, from 0 on.
template <class S> class Warps {
public:
  static constexpr RecurrencePlan plan = recurrencePlan(shapeOf<S>);
  static constexpr int channels = plan.across * plan.own, warps = plan.warpsOfSequence,
                       cluster = plan.cluster;
  using Map = sequence::Map<S>;

  NANO_DEVICE Warps()
      : maps(dynamicShared<float>(recurrenceStagedBytes(shapeOf<S>))),
        starts(maps + warps * 2 * channels), blocks(starts + warps * channels),
        rank(cluster > 1 ? int(clusterRank()) : 0), carried(S::initial) {}

  /// What this warp does to a channel's state, by one lane.
  NANO_DEVICE void set(int channel, const Map &map) { write(maps, warpIndex(), channel, map); }

  /// All threads of the cluster, once every channel is set.
  NANO_DEVICE void exchange() {
    const int channel = int(threadIdx.x);
    syncThreads();
    // In turns, since other blocks may still read what they were given last.
    float *const given = blocks + turn * cluster * 2 * channels;
    turn = 1 - turn;
    if constexpr (cluster > 1) {
      if (channel < channels) {
        Map block;
#pragma unroll
        for (int warp = 0; warp < warps; ++warp)
          block = read(maps, warp, channel).after(block);
#pragma unroll
        for (int other = 0; other < cluster; ++other)
          write(clusterShared(given, uint32_t(other)), rank, channel, block);
      }
      clusterSync();
    }
    if (channel < channels) {
      float h = carried;
      if constexpr (cluster > 1) {
#pragma unroll
        for (int other = 0; other < cluster; ++other) {
          if (other == rank)
            h = carried;
          carried = read(given, other, channel)(carried);
        }
      }
#pragma unroll
      for (int warp = 0; warp < warps; ++warp) {
        starts[warp * channels + channel] = h;
        h = read(maps, warp, channel)(h);
      }
      if constexpr (cluster == 1)
        carried = h;
    }
    syncThreads();
  }

  /// The state of a channel before this warp's part.
  NANO_DEVICE float start(int channel) const { return starts[warpIndex() * channels + channel]; }
  NANO_DEVICE int rankInCluster() const { return rank; }

private:
  static NANO_DEVICE Map read(const float *from, int i, int channel) {
    return {from[i * 2 * channels + channel], from[(i * 2 + 1) * channels + channel]};
  }
  static NANO_DEVICE void write(float *to, int i, int channel, const Map &map) {
    to[i * 2 * channels + channel] = map.factor;
    to[(i * 2 + 1) * channels + channel] = map.term;
  }

  float *const maps, *const starts, *const blocks;
  const int rank;
  int turn = 0;
  float carried; ///< of the threads that have a channel: its state before the cluster's step
};

/// Where the element is that the recurrence comes to as number `i`.
template <class S> NANO_DEVICE long long placeOf(long long i) {
  return S::reverse != S::adjoint ? S::length - 1 - i : i;
}

/// Neighbouring channels: a thread has `own` of them, and `items` tokens one behind the other.
template <class S, int hCount> class Columns {
public:
  using Element = typename S::Element;
  using Map = sequence::Map<S>;
  using Operands = RecurrenceOperands<S, hCount>;
  static constexpr RecurrenceShape shape = shapeOf<S>;
  static constexpr RecurrencePlan plan = recurrencePlan(shape);
  static constexpr int own = plan.own, items = plan.items, across = plan.across;
  using Row = Held<Element, own>;

  NANO_DEVICE Columns(long long iteration, const Operands &x)
      : x(x), n(iteration / plan.cluster / plan.strips), lane(int(threadIdx.x) % across * own),
        part(int(threadIdx.x) / across),
        channel((iteration / plan.cluster % plan.strips) * across * own + lane),
        isInside(channel < S::channels) {}

  NANO_DEVICE void run() {
    Warps<S> warps;
    constexpr int step = int(plan.cluster * plan.stepLength);
    int first = warps.rankInCluster() * int(plan.stepLength) + part * items, stage = 0;
    if constexpr (plan.stages > 0)
      for (int ahead = 0; ahead < plan.stages; ++ahead)
        fetch(ahead, first + ahead * step);
    for (int turn = 0; turn < plan.steps; ++turn, first += step) {
      if constexpr (plan.stages > 0)
        copyAsyncWait<plan.stages - 1>();
      take(stage, first);
      Map before[own];
#pragma unroll
      for (int c = 0; c < own; ++c) {
        Map map;
#pragma unroll
        for (int i = 0; i < items; ++i)
          map = of(i, first + i, c).after(map);
        map = map.template upTo<across>();
        if (laneIndex() >= 32 - across)
          warps.set(lane + c, map);
        map = map.up(across);
        before[c] = laneIndex() >= across ? map : Map();
      }
      if constexpr (plan.stages > 0) {
        fetch(stage, first + plan.stages * step);
        stage = stage + 1 == plan.stages ? 0 : stage + 1;
      }
      warps.exchange();
      Vec<float, own> h;
#pragma unroll
      for (int c = 0; c < own; ++c)
        h[c] = before[c](warps.start(lane + c));
#pragma unroll
      for (int i = 0; i < items; ++i) {
#pragma unroll
        for (int c = 0; c < own; ++c)
          h[c] = of(i, first + i, c)(h[c]);
        if (isInside && first + i < S::length)
#pragma unroll
          for (int k = 0; k < hCount; ++k)
            store<own, bytes>(&x.h[k].at(n, placeOf<S>(first + i), channel), to<Element>(h));
      }
    }
  }

private:
  static constexpr int bytes = own * int(sizeof(Element)); ///< of an access
  /// The element whose factor element i is multiplied by.
  static NANO_DEVICE int factorOf(int i) { return S::adjoint ? i - 1 : i; }

  /// Of the thread's element i, number `at` of the sequence.
  NANO_DEVICE Map of(int i, int at, int c) const {
    Map map;
    if constexpr (S::hasFactor)
      map.factor = S::adjoint && at == 0 ? 1.0f : float(a[i].elements()[c]);
    if constexpr (S::hasTerm)
      map.term = float(b[i].elements()[c]);
    return map;
  }
  NANO_DEVICE bool isHere(int i) const { return isInside && i >= 0 && i < S::length; }

  /// A thread's own place: nobody else reads it.
  NANO_DEVICE Element *place(int stage, int operand, int i) const {
    return dynamicShared<Element>(
        uint32_t(((stage * shape.operands + operand) * items + i) * plan.threads +
                 int(threadIdx.x)) *
        bytes);
  }
  NANO_DEVICE void fetch(int stage, int first) const {
    auto copy = [&](const SequenceView<const Element> &view, int i, Element *to) {
      const bool is = isHere(i);
      copyAsync<bytes>(to, is ? &view.at(n, placeOf<S>(i), channel) : view.base, is ? bytes : 0);
    };
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if constexpr (S::hasFactor)
        copy(x.a, factorOf(first + i), place(stage, 0, i));
      if constexpr (S::hasTerm)
        copy(x.b, first + i, place(stage, S::hasFactor, i));
    }
    copyAsyncCommit();
  }
  NANO_DEVICE void take(int stage, int first) {
    auto row = [&](const SequenceView<const Element> &view, int at, int operand, int i) {
      if constexpr (plan.stages > 0)
        return Row{loadWords<Access::Load, own, bytes>(place(stage, operand, i))};
      else
        return isHere(at)
                   ? Row{loadWords<Access::Read, own, bytes>(&view.at(n, placeOf<S>(at), channel))}
                   : Row{};
    };
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if constexpr (S::hasFactor)
        a[i] = row(x.a, factorOf(first + i), 0, i);
      if constexpr (S::hasTerm)
        b[i] = row(x.b, first + i, S::hasFactor, i);
    }
  }

  const Operands &x;
  const long long n;
  const int lane, part;
  const long long channel;
  const bool isInside;
  Row a[items], b[items];
};

/// One channel: a warp has tiles of 32 vectors, a lane one vector of each.
template <class S, int hCount> class Rows {
public:
  using Element = typename S::Element;
  using Map = sequence::Map<S>;
  using Operands = RecurrenceOperands<S, hCount>;
  static constexpr RecurrencePlan plan = recurrencePlan(shapeOf<S>);
  static constexpr int vector = S::vector, tiles = plan.items / vector;
  static constexpr bool isWarpEach = plan.sequencesOfBlock > 1;
  using Piece = Vec<Element, vector>;

  NANO_DEVICE Rows(long long iteration, const Operands &x)
      : x(x),
        n(isWarpEach ? iteration * plan.sequencesOfBlock + warpIndex() : iteration / plan.cluster) {
  }

  NANO_DEVICE void run() {
    if constexpr (isWarpEach) {
      float h = S::initial;
      if (n < S::sequences)
        for (long long first = 0; first < S::length; first += plan.stepLength) {
          loadAll(first);
          h = results(first, h);
        }
    } else {
      Warps<S> warps;
      long long first = warps.rankInCluster() * plan.stepLength +
                        warpIndex() * (plan.stepLength / plan.warpsOfSequence);
      for (int turn = 0; turn < plan.steps; ++turn, first += plan.cluster * plan.stepLength) {
        loadAll(first);
        if (laneIndex() == 31)
          warps.set(0, whole);
        warps.exchange();
        results(first, warps.start(0));
      }
    }
  }

private:
  static NANO_DEVICE long long beginOf(long long first, int tile) {
    return first + (tile * 32 + laneIndex()) * vector;
  }
  /// Elements i, i + 1, … in order of the recurrence; they all are in the sequence or none is.
  NANO_DEVICE Piece piece(const SequenceView<const Element> &view, long long i) const {
    if (i >= S::length)
      return Piece{};
    if constexpr (S::reverse == S::adjoint)
      return read<vector, bytes>(&view.at(n, i, 0));
    const Piece reversed = read<vector, bytes>(&view.at(n, S::length - vector - i, 0));
    Piece piece;
#pragma unroll
    for (int j = 0; j < vector; ++j)
      piece[j] = reversed[vector - 1 - j];
    return piece;
  }

  /// The elements of a step, and what the tiles' lanes do to the state.
  NANO_DEVICE void loadAll(long long first) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const long long i = beginOf(first, tile);
      if constexpr (S::hasFactor) {
        a[tile] = piece(x.a, i);
        if constexpr (S::adjoint)
          ahead[tile] = i > 0 && i < S::length ? float(x.a.at(n, placeOf<S>(i - 1), 0)) : 1.0f;
      }
      if constexpr (S::hasTerm)
        b[tile] = piece(x.b, i);
    }
    whole = Map();
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      Map map;
#pragma unroll
      for (int j = 0; j < vector; ++j)
        map = of(tile, j).after(map);
      upTo[tile] = map.template upTo<1>();
      whole = upTo[tile].after(whole);
    }
  }
  NANO_DEVICE Map of(int tile, int j) const {
    Map map;
    if constexpr (S::hasFactor) {
      if constexpr (S::adjoint)
        map.factor = j == 0 ? ahead[tile] : float(a[tile][j - 1]);
      else
        map.factor = float(a[tile][j]);
    }
    if constexpr (S::hasTerm)
      map.term = float(b[tile][j]);
    return map;
  }

  /// Stores the results from the state before the step; the state after it.
  NANO_DEVICE float results(long long first, float start) const {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const long long i = beginOf(first, tile);
      const float up = shuffleUp(upTo[tile](start), 1);
      float h = laneIndex() == 0 ? start : up;
      start = shuffle(upTo[tile](start), 31);
      Vec<float, vector> all;
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        h = of(tile, j)(h);
        all[S::reverse == S::adjoint ? j : vector - 1 - j] = h;
      }
      if (i < S::length)
#pragma unroll
        for (int k = 0; k < hCount; ++k)
          store<vector, bytes>(
              &x.h[k].at(n, S::reverse == S::adjoint ? i : S::length - vector - i, 0),
              to<Element>(all));
    }
    return start;
  }

  static constexpr int bytes = vector * int(sizeof(Element)); ///< of an access
  const Operands &x;
  const long long n;
  Piece a[tiles], b[tiles];
  float ahead[tiles]; ///< an adjoint's: the factor of the element before a vector
  Map upTo[tiles];    ///< of the tile's lanes up to this one
  Map whole;          ///< of the last lane: the warp's
};

} // namespace sequence

/// Iteration i of recurrenceLaunch's. All threads of the cluster call it.
template <class S, int hCount>
NANO_DEVICE void recurrence(long long iteration, const RecurrenceOperands<S, hCount> &x) {
  if constexpr (S::channels == 1)
    sequence::Rows<S, hCount>(iteration, x).run();
  else
    sequence::Columns<S, hCount>(iteration, x).run();
}

} // namespace nano
