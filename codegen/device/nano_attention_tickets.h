// The gradients of attention on Hopper by a block of threads for each multiprocessor, which takes
// one block of tokens after the other: what it reads of the next one comes while it computes and
// stores. They are the same to the bit as those of nano_attention_hopper.h. Included by
// nano_attention.h.
#pragma once

#include "nano_attention_hopper.h"

namespace nano::tickets {

using hopper::Computing;
using hopper::computingWarpgroups;
using hopper::Gradient;
using hopper::Grads;
using hopper::OwnRows;
using hopper::Rows;
using hopper::warpgroupThreads;

/// A block of tokens, by its number among all, and tokens from … to − 1 that its columns are of. A
/// number behind the last one: there are no more.
struct alignas(16) Turn {
  int number, from, to;
};
/// Turn i of a block of threads is in slot i mod slots: it is known; everybody has finished with
/// it.
template <int slots> struct Turns {
  Turn turns[slots];
  Mbarrier known[slots], finished[slots];
};

template <class A, class Tiles> struct Blocks {
  static constexpr int rows = Tiles::rows, tokens = A::tokens, slots = Tiles::slots,
                       all = (A::heads + A::keyHeads) * divideUp(tokens, rows),
                       resident = all < A::multiprocessors ? all : A::multiprocessors,
                       readingWarps = 2; ///< read what belongs to columns of queries
  static_assert(!attentionSplitsKeys(A::headSize, A::valueSize) && attentionHasMaps<A>);
  using S = hopper::Shared<Tiles, A::headSize, A::valueSize>;

  static NANO_DEVICE Turns<slots> &turns() {
    static_assert(sizeof(Turns<slots>) == Tiles::turnBytes);
    return *reinterpret_cast<Turns<slots> *>(&S::queries(Tiles::stages));
  }
  static NANO_DEVICE void init() {
    if (threadIdx.x == 0)
      for (int i = 0; i < slots; ++i) {
        mbarrierInit(&turns().known[i], 1);
        mbarrierInit(&turns().finished[i],
                     computingWarpgroups * warpgroupThreads + 1 + 32 * readingWarps);
      }
    S::barriers().init(1 + 32);
  }
  /// Turn i as soon as it is known.
  static NANO_DEVICE Turn known(int i) {
    mbarrierWait(&turns().known[i % slots], uint32_t(i / slots) & 1);
    return turns().turns[i % slots];
  }
  static NANO_DEVICE void finish(int i) { mbarrierArrive(&turns().finished[i % slots]); }

  /// By the warp that takes tickets: finds the columns of each turn and starts copying its rows.
  template <class Operands> static NANO_DEVICE void take(int first, const Operands &x) {
    Turn turn = {first, 0, 0};
#pragma unroll 1
    for (int i = 0;; ++i) {
      const int slot = i % slots;
      // No sooner than it must, so that all blocks of threads end at about the same time.
      if (i >= slots)
        mbarrierWait(&turns().finished[slot], uint32_t(i / slots - 1) & 1);
      if (i > 0)
        turn.number = resident + shuffle(laneIndex() == 0 ? fetchAdd(x.tickets, 1) : 0, 0);
      const bool isLast = turn.number >= all;
      auto unit = [&](auto body) {
        if (!isLast)
          hopper::forUnit<A, Tiles>(turn.number, [&]<Grads grads>(int block, int head) {
            body(Gradient<A, Tiles, grads>(), block * rows, head);
          });
      };
      unit([&]<class G>(G, int begin, int) {
        G::findColumns(x, begin, smaller(begin + rows, tokens), turn.from, turn.to);
      });
      if (laneIndex() == 0) {
        turns().turns[slot] = turn;
        mbarrierArrive(&turns().known[slot]);
        unit([&]<class G>(G, int begin, int head) { G::startRows(x, head, begin, slot); });
      }
      if (isLast)
        return;
    }
  }

  /// tile(Gradient, head of columns, column, end of columns, first row, tiles before) for all
  /// tiles of columns.
  template <class Tile> static NANO_DEVICE void forColumns(Tile tile) {
    int passed = 0;
#pragma unroll 1
    for (int i = 0;; ++i) {
      const Turn turn = known(i);
      finish(i);
      if (turn.number >= all)
        return;
      hopper::forUnit<A, Tiles>(turn.number, [&]<Grads grads>(int block, int head) {
        using G = Gradient<A, Tiles, grads>;
        int columnHead = G::firstColumnHead(head);
        do {
#pragma unroll 1
          for (int column = turn.from; column < turn.to; column += Tiles::columns, ++passed)
            tile(G(), columnHead, column, turn.to, block * rows, passed);
        } while (++columnHead % G::columnHeads != 0);
      });
    }
  }
  /// By a thread that copies columns.
  template <class Operands> static NANO_DEVICE void copy(const Operands &x) {
    forColumns([&]<class G>(G, int columnHead, int column, int, int, int passed) {
      const int stage = passed % Tiles::stages;
      S::barriers().waitEmpty(passed);
      mbarrierArriveExpect(&S::barriers().full[stage], S::stageBytes);
      G::startColumns(x, columnHead, column, stage);
    });
  }
  /// By a warp that reads what belongs to their queries: of a stage it is always the same one.
  template <class Operands> static NANO_DEVICE void read(int warp, const Operands &x) {
    forColumns([&]<class G>(G, int columnHead, int column, int to, int begin, int passed) {
      const int stage = passed % Tiles::stages;
      if (stage % readingWarps != warp)
        return;
      S::barriers().waitEmpty(passed);
      G::readQueries(x, columnHead, column, to, begin, stage);
      mbarrierArrive(&S::barriers().full[stage]);
    });
  }

  /// By the warpgroups that compute. What a thread knows of its next rows is read before the
  /// results at hand are stored.
  template <class Operands> static NANO_DEVICE void compute(const Operands &x) {
    Turn turn;
    OwnRows<true> own;
    auto next = [&](int i) {
      turn = known(i);
      own = {}; // takes no registers with a block of keys
      if (turn.number < all)
        hopper::forUnit<A, Tiles>(turn.number, [&]<Grads grads>(int block, int head) {
          if constexpr (grads == Grads::Queries)
            own = Gradient<A, Tiles, grads>::ownRows(x, head, block * rows, Computing());
        });
    };
    int passed = 0;
    next(0);
#pragma unroll 1
    for (int i = 0; turn.number < all; ++i) {
      const int slot = i % slots;
      // Read once more where it is wanted, so that it takes no registers meanwhile.
      auto where = [&] {
        Rows place;
        hopper::forUnit<A, Tiles>(turns().turns[slot].number, [&]<Grads>(int block, int head) {
          place = Rows{block * rows, head};
        });
        return place;
      };
      hopper::forUnit<A, Tiles>(turn.number, [&]<Grads grads>(int, int) {
        using G = Gradient<A, Tiles, grads>;
        const int before = passed, count = G::blocksOf(turn.from, turn.to);
        passed += G::columnHeads * count;
        G::compute(x, where, turn.from, count, Computing(), OwnRows<G::ofQueries>(own), slot,
                   uint32_t(i / slots) & 1, before, [&] { next(i + 1); });
      });
      fenceProxyAsync(); // the next rows come by bulk copies to where results were written
      finish(i);
    }
  }
};

/// Blocks of tokens, the first of which is number `iteration`.
template <class A, class Tiles, class Operands>
NANO_DEVICE void attentionGrads(int iteration, const Operands &x) {
  using B = Blocks<A, Tiles>;
  constexpr bool many = Gradient<A, Tiles, Grads::KeysAndValues>::many;
  B::init();
  if (warpIndex() / 4 == computingWarpgroups) {
    decreaseRegisters<hopper::copyRegisters<many>>();
    const int warp = warpIndex() % 4;
    if (warp < B::readingWarps)
      B::read(warp, x);
    else if (warp == 3)
      B::take(iteration, x);
    else if (laneIndex() == 0)
      B::copy(x);
  } else {
    increaseRegisters<hopper::computeRegisters<many>>();
    B::compute(x);
  }
}

} // namespace nano::tickets
