// How the recurrence template cuts its work into thread blocks. Plain constant expressions, which
// the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct RecurrenceShape {
  long long sequences, length, channels; ///< N, T, C
  int vector;       ///< elements of a channel's neighbours, or with one channel of a token's, that
                    ///< one access takes: they divide C or T
  int elementBytes; ///< of a, b and h
  int operands;     ///< of a and b, those that there are
};

NANO_BOTH constexpr long long least(long long a, long long b) { return a < b ? a : b; }
/// The smallest power of two that is at least `number`, at most `most`.
NANO_BOTH constexpr int powerOfTwo(long long number, int most) {
  int power = 1;
  while (power < most && power < number)
    power *= 2;
  return power;
}

/// What one shape comes to. A block goes over its sequences in steps. In a step, each thread has
/// `items` elements of `own` neighbouring channels; `across` threads have the block's channels, and
/// the warps one part of the sequence each. With many sequences of one channel, each warp has one
/// of its own instead. A sequence that few blocks would go over is shared by a cluster: a step is
/// then of all its blocks.
struct RecurrencePlan {
  bool isAlongRows; ///< one channel: neighbouring elements follow each other in the sequence
  int own, items, across, threads;
  int warpsOfSequence;  ///< of a block
  int sequencesOfBlock; ///< more than one where each warp has its own
  int cluster;
  int residentBlocks; ///< of a multiprocessor, that registers and shared memory are for; 0: any
  int stages;         ///< so many next steps' elements are on their way to shared memory meanwhile
  long long stepLength, steps; ///< elements of a sequence in a block's step, and the steps
  long long strips;            ///< blocks side by side for a sequence's channels
};

/// Blocks that a GPU has room for at once, about: two a multiprocessor, since a block waits for the
/// others of its cluster in every step.
constexpr long long recurrenceBlocks = 264;

NANO_BOTH constexpr RecurrencePlan recurrencePlan(const RecurrenceShape &s) {
  constexpr int mostWarps = 8, mostBlocksOfCluster = 8;
  RecurrencePlan p{};
  p.isAlongRows = s.channels == 1;
  if (p.isAlongRows) {
    p.own = p.across = 1;
    p.items = s.vector * int(least(divideUp(s.length, 32 * s.vector), 32 / s.vector));
    const bool isWarpEach = s.sequences >= 1024;
    p.warpsOfSequence = isWarpEach ? 1 : powerOfTwo(divideUp(s.length, 32 * p.items), mostWarps);
    p.sequencesOfBlock = isWarpEach ? mostWarps : 1;
    p.strips = 1;
  } else {
    // By measurement: f32 wants whole lines of a row and copies far ahead, bf16 more of the
    // sequence in a step.
    const bool isF32 = s.elementBytes == 4;
    constexpr int stageBytes = 128;          // of a thread
    const int stripBytes = isF32 ? 128 : 64; // of a row of the block
    const int accessBytes = s.vector * s.elementBytes;
    p.own = s.vector;
    p.stages = accessBytes < 4 ? 0 : isF32 ? 3 : 1;
    p.items = int(least(16, stageBytes / (s.operands * (accessBytes < 8 ? 8 : accessBytes))));
    p.across = powerOfTwo(divideUp(s.channels, s.vector), int(least(32, stripBytes / accessBytes)));
    p.warpsOfSequence = powerOfTwo(divideUp(s.length * p.across, 32 * p.items), mostWarps);
    p.sequencesOfBlock = 1;
    p.strips = divideUp(s.channels, p.across * s.vector);
    p.residentBlocks = 2;
  }
  p.threads = 32 * p.warpsOfSequence * p.sequencesOfBlock;
  p.stepLength = (long long)(32 * p.warpsOfSequence / p.across) * p.items;
  p.cluster = 1;
  while (p.sequencesOfBlock == 1 && p.cluster < mostBlocksOfCluster &&
         2 * p.cluster * s.sequences * p.strips <= recurrenceBlocks &&
         p.cluster * p.stepLength < s.length)
    p.cluster *= 2;
  p.steps = divideUp(s.length, p.cluster * p.stepLength);
  return p;
}

/// Bytes of shared memory for elements on their way.
NANO_BOTH constexpr int recurrenceStagedBytes(const RecurrenceShape &s) {
  const RecurrencePlan p = recurrencePlan(s);
  return p.stages * p.items * s.operands * p.threads * s.vector * s.elementBytes;
}
NANO_BOTH constexpr TemplateLaunch recurrenceLaunch(const RecurrenceShape &s) {
  const RecurrencePlan p = recurrencePlan(s);
  const int channels = p.across * p.own,
            exchanged = 4 * channels * (3 * p.warpsOfSequence + 2 * 2 * p.cluster);
  return {p.threads, divideUp(s.sequences, p.sequencesOfBlock) * p.strips * p.cluster,
          recurrenceStagedBytes(s) + exchanged};
}

} // namespace nano
