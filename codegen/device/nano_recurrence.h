// Linear recurrences h[n, t, c] = a[n, t, c]·h[n, t−1, c] + b[n, t, c] (nano.recurrence), by maps
// h ↦ factor·h + term, which compose: a thread's elements are one, a block's, a chunk's.
//
// Where a sequence has several chunks there are two kernels, in this order, with a scratch buffer
// of recurrenceScratchBytes(shape) between them. A generated kernel describes the op with a struct:
//
//   struct Recurrence {
//     using Element = float; // of a, b and h: nano::bf16 or float
//     static constexpr int sequences = 2, length = 4096, channels = 768; // N, T, C
//     static constexpr bool hasFactor = true, hasTerm = true, reverse = false, adjoint = false;
//     static constexpr float initial = 0.0f;
//   };
//   … nano::RecurrenceOperands<Recurrence> x;
//     x.a = {work.template pointer<const float>(0), 3145728, 768, 1}; // strides
//     x.b = {work.template pointer<const float>(1), 3145728, 768, 1};
//     nano::recurrenceTotals<Recurrence>(work.begin, x, work.template pointer<float>(2));
//   … x.scratch = work.template pointer<const float>(2);
//     x.h[0] = {work.template pointer<float>(3), 3145728, 768, 1};
//     nano::recurrence<Recurrence>(work.begin, x);
//
// Threads, iterations and dynamic shared bytes are recurrenceLaunch(shape); iterationsPerBlock
// is 1. The order in which maps are composed depends on the shape alone.
#pragma once

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
  const float *scratch;                         ///< of results, where there are several chunks
  SequenceView<typename S::Element> h[hCount];
};

namespace sequence {

/// h ↦ factor·h + term.
struct Map {
  float factor = 1, term = 0;
  /// This map behind `before`.
  NANO_DEVICE Map after(const Map &before) const {
    return {factor * before.factor, fma(factor, before.term, term)};
  }
  NANO_DEVICE float operator()(float h) const { return fma(factor, h, term); }
};

/// A thread's place, and its elements.
template <class S> struct Elements {
  static constexpr RecurrenceShape shape = {S::sequences, S::length, S::channels};
  static constexpr int lanes = recurrenceChannels(shape), parts = recurrenceThreads(shape) / lanes,
                       count = recurrenceElements, chunks = int(recurrenceChunks(shape)),
                       tiles = int(divideUp(S::channels, lanes));

  template <class Operands>
  NANO_DEVICE Elements(long long iteration, const Operands &x)
      : n(iteration / tiles / chunks), chunk(int(iteration / tiles % chunks)),
        lane(int(threadIdx.x) % lanes), part(int(threadIdx.x) / lanes),
        channel(int(iteration % tiles) * lanes + lane), first((chunk * parts + part) * count) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int factor = S::adjoint ? first + i - 1 : first + i;
      if constexpr (S::hasFactor)
        maps[i].factor = isHere(i) && factor >= 0 ? float(x.a.at(n, place(factor), channel)) : 1.0f;
      if constexpr (S::hasTerm)
        maps[i].term = isHere(i) ? float(x.b.at(n, place(first + i), channel)) : 0.0f;
    }
  }

  /// Whether the sequence has element i of this thread.
  NANO_DEVICE bool isHere(int i) const { return channel < S::channels && first + i < S::length; }
  /// Where the element is that the recurrence comes to as number `i`.
  static NANO_DEVICE int place(int i) { return S::reverse != S::adjoint ? S::length - 1 - i : i; }

  NANO_DEVICE Map whole() const {
    Map map;
#pragma unroll
    for (int i = 0; i < count; ++i)
      map = maps[i].after(map);
    return map;
  }

  /// The composition of the maps of this channel's parts up to this one; all are in shared memory
  /// when it returns.
  NANO_DEVICE Map upTo(Map map) const {
    Map *const shared = dynamicShared<Map>();
    shared[threadIdx.x] = map;
    syncThreads();
#pragma unroll
    for (int distance = 1; distance < parts; distance *= 2) {
      Map before;
      if (part >= distance)
        before = shared[threadIdx.x - distance * lanes];
      syncThreads();
      map = map.after(before);
      shared[threadIdx.x] = map;
      syncThreads();
    }
    return map;
  }

  long long n;
  int chunk, lane, part, channel, first;
  Map maps[count];
};

} // namespace sequence

/// What a chunk of a sequence does to the state before it, into the scratch buffer: iteration i of
/// recurrenceLaunch's. All threads of the block call it.
template <class S, int hCount>
NANO_DEVICE void recurrenceTotals(long long iteration, const RecurrenceOperands<S, hCount> &x,
                                  float *scratch) {
  using Elements = sequence::Elements<S>;
  const Elements elements(iteration, x);
  const sequence::Map map = elements.upTo(elements.whole());
  if (elements.part != Elements::parts - 1 || elements.channel >= S::channels)
    return;
  float *const to = scratch + (elements.n * Elements::chunks + elements.chunk) * 2 * S::channels;
  to[elements.channel] = map.factor;
  to[S::channels + elements.channel] = map.term;
}

/// A chunk's results: iteration i of recurrenceLaunch's, the last one first, since what the first
/// launch has read last may still be in the cache. All threads of the block call it.
template <class S, int hCount>
NANO_DEVICE void recurrence(long long iteration, const RecurrenceOperands<S, hCount> &x) {
  using Elements = sequence::Elements<S>;
  using sequence::Map;
  const Elements elements(recurrenceLaunch(Elements::shape).iterations - 1 - iteration, x);
  const Map *const shared = dynamicShared<Map>();
  float h = S::initial;
  if constexpr (Elements::chunks > 1) {
    // The parts of a block have some of the chunks before it each.
    const int from = elements.chunk * elements.part / Elements::parts,
              to = elements.chunk * (elements.part + 1) / Elements::parts;
    Map map;
    if (elements.channel < S::channels)
      for (int chunk = from; chunk < to; ++chunk) {
        const float *const total =
            x.scratch + (elements.n * Elements::chunks + chunk) * 2 * S::channels;
        map = Map{total[elements.channel], total[S::channels + elements.channel]}.after(map);
      }
    elements.upTo(map);
    h = shared[(Elements::parts - 1) * Elements::lanes + elements.lane](h);
    syncThreads();
  }
  elements.upTo(elements.whole());
  if (elements.part > 0)
    h = shared[threadIdx.x - Elements::lanes](h);
#pragma unroll
  for (int i = 0; i < Elements::count; ++i) {
    h = elements.maps[i](h);
    if (elements.isHere(i))
#pragma unroll
      for (int k = 0; k < hCount; ++k)
        x.h[k].at(elements.n, Elements::place(elements.first + i), elements.channel) =
            typename S::Element(h);
  }
}

} // namespace nano
