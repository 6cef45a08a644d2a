// Linear recurrences h[n, t, c] = a[n, t, c]·h[n, t−1, c] + b[n, t, c] (nano.recurrence), by maps
// h ↦ factor·h + term, which compose: a thread's elements are one, a warp's, a block's.
//
// A generated kernel describes the op with a struct:
//
//   struct Recurrence {
//     using Element = float; // of a, b and h: nano::bf16 or float
//     static constexpr int sequences = 2, length = 4096, channels = 768; // N, T, C
//     static constexpr int vector = 4, multiprocessors = 132; // see RecurrenceShape
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
// which maps are composed depends on the shape alone, of which the GPU's multiprocessors are one.
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
                                     int(S::hasFactor) + int(S::hasTerm),
                                     S::multiprocessors};

/// The states that the warps of a sequence begin a step with, from what each does to the state
/// before it. Channels are the block's, from 0 on. A step's order: set, syncThreads, give, begin,
/// syncThreads, start; that of the next one may begin before this one's ends: what they have
/// between them lies in one of two places in turns.
template <class S> class Warps {
public:
  static constexpr RecurrencePlan plan = recurrencePlan(shapeOf<S>);
  static constexpr int channels = plan.across * plan.own, warps = plan.warpsOfSequence,
                       cluster = plan.cluster;
  using Map = sequence::Map<S>;

  /// All threads of the cluster.
  NANO_DEVICE Warps()
      : maps(dynamicShared<Pair>(recurrenceStagedBytes(shapeOf<S>))),
        blocks(maps + 2 * warps * channels),
        starts(reinterpret_cast<float *>(blocks + 2 * cluster * channels)),
        arrived(reinterpret_cast<Mbarrier *>(starts + 2 * warps * channels)),
        rank(cluster > 1 ? int(clusterRank()) : 0), carried(S::initial) {
    if constexpr (cluster > 1) {
      if (threadIdx.x == 0) {
        for (int turn = 0; turn < 2; ++turn)
          mbarrierInit(arrived + turn, 1);
        fenceMbarrierInit();
        for (int turn = 0; turn < 2 && turn < plan.steps; ++turn)
          mbarrierArriveExpect(arrived + turn, givenBytes);
      }
      clusterSync();
    }
  }

  /// What this warp does to a channel's state in step `turn`, by one lane.
  NANO_DEVICE void set(int turn, int channel, const Map &map) {
    maps[(turn % 2 * warps + warpIndex()) * channels + channel] = {map.factor, map.term};
  }

  /// What the block does in step `turn`, to all blocks. By all threads, once all is set.
  NANO_DEVICE void give(int turn) {
    const int channel = int(threadIdx.x);
    if (cluster == 1 || channel >= channels)
      return;
    Map block;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp)
      block = read(maps, turn, warps, warp, channel).after(block);
    // No other writes this place before all blocks have begun the step.
    Pair *const place = blocks + (turn % 2 * cluster + rank) * channels + channel;
#pragma unroll
    for (int other = 0; other < cluster; ++other)
      storeAsyncRemote(place, Pair{block.factor, block.term}, arrived + turn % 2, uint32_t(other));
  }

  /// Waits for what all blocks do in step `turn`, and goes from the state before it to that behind.
  NANO_DEVICE void begin(int turn) {
    const int channel = int(threadIdx.x);
    if (channel >= channels)
      return;
    float h = carried;
    if constexpr (cluster > 1) {
      mbarrierWait(arrived + turn % 2, uint32_t(turn / 2 % 2));
      if (channel == 0 && turn + 2 < plan.steps)
        mbarrierArriveExpect(arrived + turn % 2, givenBytes);
#pragma unroll
      for (int other = 0; other < cluster; ++other) {
        if (other == rank)
          h = carried;
        carried = read(blocks, turn, cluster, other, channel)(carried);
      }
    }
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) {
      starts[(turn % 2 * warps + warp) * channels + channel] = h;
      h = read(maps, turn, warps, warp, channel)(h);
    }
    if constexpr (cluster == 1)
      carried = h;
  }

  /// The state of a channel before this warp's part of step `turn`.
  NANO_DEVICE float start(int turn, int channel) const {
    return starts[(turn % 2 * warps + warpIndex()) * channels + channel];
  }
  NANO_DEVICE int rankInCluster() const { return rank; }

private:
  struct alignas(8) Pair {
    float factor, term;
  };
  static constexpr uint32_t givenBytes = cluster * channels * sizeof(Pair);
  static NANO_DEVICE Map read(const Pair *from, int turn, int count, int i, int channel) {
    const Pair pair = from[(turn % 2 * count + i) * channels + channel];
    return {pair.factor, pair.term};
  }

  Pair *const maps, *const blocks;
  float *const starts;
  Mbarrier *const arrived; ///< a turn's: what all blocks give
  const int rank;
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

  /// While the blocks of the cluster learn of each other's part of a step, each stores the results
  /// of the one before.
  NANO_DEVICE void run() {
    Warps<S> warps;
    constexpr int step = int(plan.cluster * plan.stepLength);
    int first = warps.rankInCluster() * int(plan.stepLength) + part * items;
    if constexpr (plan.stages > 0)
      for (int ahead = 0; ahead < plan.stages; ++ahead)
        fetch(ahead, first + ahead * step);
    Map next[own];
    enter(warps, 0, first, next);
    syncThreads();
    warps.give(0);
    for (int turn = 0; turn < plan.steps; ++turn, first += step) {
      Map before[own];
#pragma unroll
      for (int c = 0; c < own; ++c)
        before[c] = next[c];
      Elements elements;
      if constexpr (plan.stages == 0)
        elements = entered;
      if (turn + 1 < plan.steps)
        enter(warps, turn + 1, first + step, next);
      warps.begin(turn);
      syncThreads();
      if (turn + 1 < plan.steps)
        warps.give(turn + 1);
      const int stage = turn % stages;
      if constexpr (plan.stages > 0)
        elements = staged(stage);
      Vec<float, own> h;
#pragma unroll
      for (int c = 0; c < own; ++c)
        h[c] = before[c](warps.start(turn, lane + c));
#pragma unroll
      for (int i = 0; i < items; ++i) {
#pragma unroll
        for (int c = 0; c < own; ++c)
          h[c] = elements.of(i, first + i, c)(h[c]);
        if ((areAllInside || isInside) && (isWhole || first + i < S::length))
#pragma unroll
          for (int k = 0; k < hCount; ++k)
            store<own, bytes>(x.h[k].base + offsetOf(x.h[k], first) + i * forward * x.h[k].row,
                              to<Element>(h));
      }
      if constexpr (plan.stages > 0)
        fetch(stage, first + plan.stages * step);
    }
  }

private:
  static constexpr int bytes = own * int(sizeof(Element)); ///< of an access
  /// Whether no result is beyond the ends. Of f32, which waits for bytes and not for comparisons,
  /// nobody asks: it would take registers.
  static constexpr bool isBf16 = sizeof(Element) == 2,
                        isWhole = isBf16 && S::length % (plan.cluster * plan.stepLength) == 0,
                        areAllInside = isBf16 && S::channels % (across * own) == 0;
  /// An adjoint's first element has no factor, which is read as 0: that matters to a state before
  /// it alone.
  static constexpr bool hasNone = S::adjoint && S::initial != 0;
  /// The element whose factor element i is multiplied by.
  static NANO_DEVICE int factorOf(int i) { return S::adjoint ? i - 1 : i; }

  /// A thread's of a step.
  struct Elements {
    Row a[items], b[items];
    /// Element i, number `at` of the sequence.
    NANO_DEVICE Map of(int i, int at, int c) const {
      Map map;
      if constexpr (S::hasFactor)
        map.factor = hasNone && at == 0 ? 1.0f : float(a[i].elements()[c]);
      if constexpr (S::hasTerm)
        map.term = float(b[i].elements()[c]);
      return map;
    }
  };
  static constexpr int stages = plan.stages > 0 ? plan.stages : 2;

  /// Takes the elements of step `turn`: `before` becomes what the warp's threads before this one do
  /// to the state.
  NANO_DEVICE void enter(Warps<S> &warps, int turn, int first, Map (&before)[own]) {
    if constexpr (plan.stages > 0) {
      // The steps behind it whose elements have been asked for; that before it frees its stage
      // later.
      static_assert(stages > 1);
      if (turn == 0)
        copyAsyncWait<stages - 1>();
      else
        copyAsyncWait<stages - 2>();
    }
    Elements elements;
    if constexpr (plan.stages > 0)
      elements = staged(turn % stages);
    else
      entered = elements = loaded(first);
#pragma unroll
    for (int c = 0; c < own; ++c) {
      Map map;
#pragma unroll
      for (int i = 0; i < items; ++i)
        map = elements.of(i, first + i, c).after(map);
      map = map.template upTo<across>();
      if (laneIndex() >= 32 - across)
        warps.set(turn, lane + c, map);
      map = map.up(across);
      before[c] = laneIndex() >= across ? map : Map();
    }
  }

  /// Where the thread's channels of element `i` lie from a view's base on, and in which direction
  /// those of the next one.
  template <class T> NANO_DEVICE long long offsetOf(const SequenceView<T> &view, int i) const {
    return n * view.sequence + placeOf<S>(i) * view.row + channel * view.element;
  }
  static constexpr int forward = S::reverse != S::adjoint ? -1 : 1;
  NANO_DEVICE bool isHere(int i) const { return isInside && i >= 0 && i < S::length; }

  /// A thread's own place: nobody else reads it.
  NANO_DEVICE Element *place(int stage, int operand, int i) const {
    return dynamicShared<Element>(
        uint32_t(((stage * shape.operands + operand) * items + i) * plan.threads +
                 int(threadIdx.x)) *
        bytes);
  }
  NANO_DEVICE void fetch(int stage, int first) const {
    if constexpr (isWhole && areAllInside) {
      // Steps are whole and beyond the end or not: addresses differ by a constant.
      if (first < S::length)
        fetchWhole(stage, first);
    } else {
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
    }
    copyAsyncCommit();
  }
  NANO_DEVICE void fetchWhole(int stage, int first) const {
    auto copy = [&](const SequenceView<const Element> &view, int at, int operand) {
      const Element *from = view.base + offsetOf(view, at);
#pragma unroll
      for (int i = 0; i < items; ++i) {
        Element *const to = place(stage, operand, i);
        if (S::adjoint && operand < S::hasFactor && i == 0)
          copyAsync<bytes>(to, at < 0 ? view.base : from, at < 0 ? 0 : bytes);
        else
          copyAsync<bytes>(to, from + i * forward * view.row);
      }
    };
    if constexpr (S::hasFactor)
      copy(x.a, factorOf(first), 0);
    if constexpr (S::hasTerm)
      copy(x.b, first, S::hasFactor);
  }
  NANO_DEVICE Elements staged(int stage) const {
    Elements elements;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if constexpr (S::hasFactor)
        elements.a[i] = Row{loadWords<Access::Load, own, bytes>(place(stage, 0, i))};
      if constexpr (S::hasTerm)
        elements.b[i] = Row{loadWords<Access::Load, own, bytes>(place(stage, S::hasFactor, i))};
    }
    return elements;
  }
  NANO_DEVICE Elements loaded(int first) const {
    auto row = [&](const SequenceView<const Element> &view, int at) {
      return isHere(at)
                 ? Row{loadWords<Access::Read, own, bytes>(&view.at(n, placeOf<S>(at), channel))}
                 : Row{};
    };
    Elements elements;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if constexpr (S::hasFactor)
        elements.a[i] = row(x.a, factorOf(first + i));
      if constexpr (S::hasTerm)
        elements.b[i] = row(x.b, first + i);
    }
    return elements;
  }

  const Operands &x;
  const long long n;
  const int lane, part;
  const long long channel;
  const bool isInside;
  Elements entered; ///< of the step that was entered last, without stages
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
          warps.set(turn, 0, whole);
        syncThreads();
        warps.give(turn);
        warps.begin(turn);
        syncThreads();
        results(first, warps.start(turn, 0));
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
