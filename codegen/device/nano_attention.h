// Attention of every head over a packed sequence and its vector-Jacobian product (nano.attention,
// nano.attention_grad): what a generated kernel passes, and the two entry points.
//
// A generated kernel describes its op with a struct, `A` below, and makes one call. For
//   %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.2e-01 : … { soft cap of 15 }
// with q, k, v views of one buffer [T, 3, H, Dh] it reads:
//
//   #include "nano_kernels.h"
//   #include "nano_attention.h"
//   struct Attention {
//     using Element = nano::bf16;        // of q, k, v, y, dy, dq, dk, dv: nano::bf16 or float
//     static constexpr int tokens = 49152, heads = 6, keyHeads = 6;                 // T, H, Hk
//     static constexpr int headSize = 128, valueSize = 128;                         // Dh, Dv
//     static constexpr bool vectorRows = true;    // as in AttentionShape
//     static constexpr int multiprocessors = 132; // likewise
//     static constexpr float scale = 0.12f;
//     static constexpr bool hasScore = true;      // false: the functions below may be left out
//     // The score region: f(scale·q·k). No memory, no state: a function of its arguments.
//     static NANO_DEVICE float score(float s, int query, int key, int head) {
//       return 15.0f * nano::tanh(s / 15.0f);
//     }
//     // The score_grad region: the gradient before f from that behind it (backward only).
//     static NANO_DEVICE float scoreGrad(float s, int query, int key, int head, float gradient) {
//       const float f = nano::tanh(s / 15.0f);
//       return gradient * (1.0f - f * f);
//     }
//   };
//   extern "C" __global__ void __launch_bounds__(128, 1)
//   attention_2cfa(const __grid_constant__ nano::Launch<7, 1> launch) {
//     const auto work = launch.find(blockIdx.x, 1);
//     nano::AttentionOperands<Attention> x;
//     x.q = {work.template pointer<const nano::bf16>(0), 3 * 768, 128}; // strides: token, head
//     x.k = {work.template pointer<const nano::bf16>(1), 3 * 768, 128};
//     x.v = {work.template pointer<const nano::bf16>(2), 3 * 768, 128};
//     x.first = {work.template pointer<const int>(3)};
//     x.last = {work.template pointer<const int>(4)};
//     x.y[0] = {work.template pointer<nano::bf16>(5), 768, 128};
//     x.lse[0] = {work.template pointer<float>(6), 6, 1};
//     nano::attentionForward<Attention>(work.begin, x);
//   }
//
// Threads, iterations and dynamic shared bytes of a launch are attentionForwardLaunch(shape) and
// attentionGradLaunch(shape) of nano_attention_launch.h; iterationsPerBlock is 1, iterations of a
// segment count from 0. The kernel is declared with __launch_bounds__(threads, 1), without which
// setmaxnreg has no effect. A result has as many places in memory as the template arguments of the
// operands say (0: not wanted). Operands and results do not overlap.
//
// The mask is data: query t sees keys first[t] … last[t], both included, both never decreasing.
// From these each block finds the range of its tiles by itself (forward: first of its first query
// to last of its last one; keys: by a search in `last` and `first`), leaves out tiles that a warp's
// rows do not see, and masks element by element only tiles that they see in part.
//
// The forward pass on Hopper runs one block for each multiprocessor, which share the blocks of
// queries (nano_attention_runs.h); else an iteration is one block of queries or of keys.
//
// On Hopper operands come by tensor maps where the struct says
//     static constexpr bool hasMaps = true;
// Forward: maps of q, k and v with boxes of attentionBoxes(shape) and 64 columns, and tickets.
// Where its rows are causal (attentionForwardOfRows) the struct may say so as below; nothing reads
// first and last then.
// Gradients: of q, k, v and dy with boxes of attentionGradBoxRows(shape) rows. A map is of the
// matrix whose rows hold all heads of a token. Keys and values behind those that a block's queries
// see may then be read with them; their weights are 0.
//
// Gradients in seven products whose struct says
//     static constexpr bool hasTickets = true;
// have x.tickets, too, and a block for each multiprocessor, which takes one block of queries or of
// keys after the other (nano_attention_tickets.h).
//
// The gradients of long rows come in five products instead of seven (attentionInChain), and so do
// those of causal ones (attentionOfRows, attentionFromEnds), whose struct says
//     static constexpr int row = 512; // a query sees the tokens of its row up to itself
// Then the call is attentionBackwardInFive, with x.partial, x.counts and the launch of
// attentionInFive(shape, row).
//
// With dq, dk or dv on tensor cores, of a multiple of 64 tokens, come the sums of their columns,
// over each attentionSumRows tokens, where the struct says
//     static constexpr bool sumsQueries = true; // or sumsKeys, sumsValues
//
// Every sum has an order that depends on the shapes and on first and last alone: what atomics add
// to a sum they add one after the other, in an order that counts keep.
// Dao 2023 (FlashAttention-2) for the blocked form. Which template runs is decided by
// attentionOnTensorCores(shape).
#pragma once

#include "nano_attention_shape.h"
#include "nano_hopper.h"
#include "nano_primitives.h"
#include "nano_views.h"

namespace nano {

/// An operand [T, H, Dh], [T, H, Dv] or [T, H] in memory: element (t, h, d) is at base[t·token +
/// h·head + d·element]. A stride of elements other than 1 is for `vectorRows` = false only.
template <class T> struct HeadView {
  T *base;
  long long token, head, element = 1;
  NANO_DEVICE T *row(long long t, int h) const { return base + t * token + h * head; }
};

/// Operands of attentionForward; yCount and lseCount places for the results.
template <class A, int yCount = 1, int lseCount = 1> struct AttentionOperands {
  using Element = typename A::Element;
  static constexpr int yPlaces = yCount, lsePlaces = lseCount;
  HeadView<const Element> q, k, v;
  TokenView first, last;
  HeadView<Element> y[yCount > 0 ? yCount : 1];
  HeadView<float> lse[lseCount > 0 ? lseCount : 1]; ///< natural logarithm
  // With A::hasMaps.
  const TensorMap *maps = nullptr; ///< of q, k and v: the heads of a token are a row
  int32_t *tickets = nullptr;      ///< zero before the launch
};

/// Operands of attentionBackward.
template <class A, int dqCount = 1, int dkCount = 1, int dvCount = 1> struct AttentionGradOperands {
  using Element = typename A::Element;
  static constexpr int dqPlaces = dqCount, dkPlaces = dkCount, dvPlaces = dvCount;
  HeadView<const Element> q, k, v;
  TokenView first, last;
  HeadView<const float> lse, delta;
  HeadView<const Element> dy;
  HeadView<Element> dq[dqCount > 0 ? dqCount : 1], dk[dkCount > 0 ? dkCount : 1],
      dv[dvCount > 0 ? dvCount : 1];
  /// [T / attentionSumRows, H or Hk, Dh or Dv], with A::sumsQueries, A::sumsKeys, A::sumsValues.
  HeadView<float> dqSums, dkSums, dvSums;
  const TensorMap *maps = nullptr; ///< with A::hasMaps, of q, k, v and dy
  int32_t *tickets = nullptr;      ///< with A::hasTickets, zero before the launch
  // Of attentionBackwardInFive, as many as attentionInFive(shape, row) says.
  float *partial = nullptr;  ///< sums for dq
  int32_t *counts = nullptr; ///< zeros: one, and the counts
};

/// A::tiles, where the struct has it: which of the candidates for tiles; else the rule's.
template <class A>
constexpr int attentionTiles = []() -> int {
  if constexpr (requires { A::tiles; })
    return A::tiles;
  return 0;
}();

/// A::hasMaps, where the struct has it: the forward pass has tensor maps.
template <class A>
constexpr bool attentionHasMaps = []() -> bool {
  if constexpr (requires { A::hasMaps; })
    return A::hasMaps;
  return false;
}();

/// A::hasTickets, where the struct has it: the gradients have tickets.
template <class A>
constexpr bool attentionHasTickets = []() -> bool {
  if constexpr (requires { A::hasTickets; })
    return A::hasTickets;
  return false;
}();

/// A::sumsQueries, A::sumsKeys and A::sumsValues, where the struct has them: sums of columns of dq,
/// dk and dv are wanted.
template <class A>
constexpr bool attentionSumsQueries = []() -> bool {
  if constexpr (requires { A::sumsQueries; })
    return A::sumsQueries;
  return false;
}();
template <class A>
constexpr bool attentionSumsKeys = []() -> bool {
  if constexpr (requires { A::sumsKeys; })
    return A::sumsKeys;
  return false;
}();
template <class A>
constexpr bool attentionSumsValues = []() -> bool {
  if constexpr (requires { A::sumsValues; })
    return A::sumsValues;
  return false;
}();

/// A::row, where the struct has it: the tokens of causal rows; else 0.
template <class A>
constexpr int attentionRow = []() -> int {
  if constexpr (requires { A::row; })
    return A::row;
  return 0;
}();

template <class A>
constexpr AttentionShape attentionShapeOf =
    AttentionShape{A::tokens,           A::heads,
                   A::keyHeads,         A::headSize,
                   A::valueSize,        sizeof(typename A::Element) == 2,
                   A::vectorRows,       A::hasScore,
                   A::multiprocessors,  attentionTiles<A>,
                   attentionHasMaps<A>, attentionHasTickets<A>,
                   attentionRow<A>};

/// Heads of queries that share a head of keys: head h of queries has keys of head h / sharing.
template <class A> constexpr int sharing = A::heads / A::keyHeads;

NANO_DEVICE int larger(int a, int b) { return a > b ? a : b; }
NANO_DEVICE int smaller(int a, int b) { return a < b ? a : b; }

/// The number of elements below `bound` of a view of `count` elements that never decrease, by a
/// warp: 32 probes at a time, those of the first time `step` apart from `start` on.
NANO_DEVICE int countBelow(const TokenView &view, int count, int bound, int start, int step) {
  int low = 0, high = count;
  auto probe = [&](int first, int step, int end) {
    const int place = first + laneIndex() * step;
    return warpSum(int32_t(place < 0 || (place < end && view[place] < bound)));
  };
  const int found = probe(start, step, count);
  if (found > 0)
    low = smaller(larger(start + (found - 1) * step + 1, 0), count);
  if (found < 32)
    high = larger(smaller(start + found * step, count), low);
  while (low < high) {
    step = (high - low + 31) / 32;
    low += probe(low + step - 1, step, high) * step;
    high = smaller(high, low + step - 1);
  }
  return low;
}
NANO_DEVICE int countBelow(const TokenView &view, int count, int bound) {
  return countBelow(view, count, bound, 0, int(divideUp(count, 32)));
}

} // namespace nano

#include "nano_attention_chain.h"
#include "nano_attention_ends.h"
#include "nano_attention_hopper.h"
#include "nano_attention_plain.h"
#include "nano_attention_rows.h"
#include "nano_attention_runs.h"
#include "nano_attention_tickets.h"

namespace nano {

template <class A>
using AttentionTilesOf =
    AttentionTileChoice<attentionTileSize(A::headSize), attentionTileSize(A::valueSize),
                        A::hasScore, attentionTiles<A>, attentionHasMaps<A>, (attentionRow<A> > 0)>;

/// y and lse of some queries: iteration i of attentionForwardLaunch's. All threads of the block
/// call it.
template <class A, int yCount, int lseCount>
NANO_DEVICE void attentionForward(long long iteration,
                                  const AttentionOperands<A, yCount, lseCount> &x) {
  if constexpr (attentionOnTensorCores(attentionShapeOf<A>))
    runs::attentionForward<A, typename AttentionTilesOf<A>::Forward>(iteration, x);
  else
    plain::attentionForward<A>(iteration, x);
}

/// dq of one block of queries, or dk and dv of one block of keys, or of several by tickets:
/// iteration i of attentionGradLaunch's. All threads of the block call it.
template <class A, int dqCount, int dkCount, int dvCount>
NANO_DEVICE void attentionBackward(long long iteration,
                                   const AttentionGradOperands<A, dqCount, dkCount, dvCount> &x) {
  if constexpr (attentionHasTickets<A>)
    tickets::attentionGrads<A, typename AttentionTilesOf<A>::GradsByTickets>(int(iteration), x);
  else if constexpr (attentionOnTensorCores(attentionShapeOf<A>))
    hopper::attentionGrads<A, typename AttentionTilesOf<A>::Grads>(iteration, x);
  else
    plain::attentionBackward<A>(iteration, x);
}

/// dq, dk and dv in five products: iterations of attentionInFive's launch, in the order in which
/// they start. All threads of the block call it.
template <class A, int dqCount, int dkCount, int dvCount>
NANO_DEVICE void
attentionBackwardInFive(const AttentionGradOperands<A, dqCount, dkCount, dvCount> &x) {
  if constexpr (attentionRow<A> > 0 && attentionHasWholeRows(attentionShapeOf<A>, attentionRow<A>))
    rows::attentionGrads<A, RowTiles>(x);
  else if constexpr (attentionRow<A> > 0)
    ends::attentionGrads<A, EndTiles<attentionTileSize(A::headSize)>>(x);
  else
    chain::attentionGrads<A, typename AttentionChainChoice<A::headSize>::Tiles>(x);
}

} // namespace nano
