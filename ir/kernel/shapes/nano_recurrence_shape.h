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
  int multiprocessors; ///< of the GPU: for its speed, and the order in which maps are composed
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

/// As many blocks of a sequence as have room on a GPU where each multiprocessor has `blocks`, up to
/// 8, which step together.
NANO_BOTH constexpr void shareSequences(const RecurrenceShape &s, int blocks, RecurrencePlan &p) {
  p.threads = 32 * p.warpsOfSequence * p.sequencesOfBlock;
  p.stepLength = (long long)(32 * p.warpsOfSequence / p.across) * p.items;
  p.cluster = 1;
  while (p.sequencesOfBlock == 1 && p.cluster < 8 &&
         2 * p.cluster * s.sequences * p.strips <= (long long)blocks * s.multiprocessors &&
         p.cluster * p.stepLength < s.length)
    p.cluster *= 2;
  p.steps = divideUp(s.length, p.cluster * p.stepLength);
}

/// Of sequences of one channel.
NANO_BOTH constexpr RecurrencePlan recurrenceAlongRows(const RecurrenceShape &s) {
  constexpr int mostWarps = 8;
  RecurrencePlan p{};
  p.isAlongRows = true;
  p.own = p.across = 1;
  p.items = s.vector * int(least(divideUp(s.length, 32 * s.vector), 32 / s.vector));
  const bool isWarpEach = s.sequences >= 1024;
  p.warpsOfSequence = isWarpEach ? 1 : powerOfTwo(divideUp(s.length, 32 * p.items), mostWarps);
  p.sequencesOfBlock = isWarpEach ? mostWarps : 1;
  p.strips = 1;
  shareSequences(s, 2, p);
  return p;
}

/// How blocks walk several channels: bytes of a row that a block has, and of a thread in a step of
/// two operands; most warps of a block, and blocks of a multiprocessor.
struct RecurrenceStrips {
  int bytes, stageBytes, warps, blocks;
};
NANO_BOTH constexpr RecurrencePlan recurrenceOfStrips(const RecurrenceShape &s,
                                                      const RecurrenceStrips &strips) {
  const int accessBytes = s.vector * s.elementBytes;
  RecurrencePlan p{};
  p.own = s.vector;
  // With one operand steps are as long, and twice as many are on their way.
  p.stages = accessBytes < 4 ? 0 : 6 / s.operands;
  p.items = int(least(16, strips.stageBytes / (2 * (accessBytes < 8 ? 8 : accessBytes))));
  p.across = powerOfTwo(divideUp(s.channels, s.vector), int(least(32, strips.bytes / accessBytes)));
  p.warpsOfSequence = powerOfTwo(divideUp(s.length * p.across, 32 * p.items), strips.warps);
  p.sequencesOfBlock = 1;
  p.strips = divideUp(s.channels, p.across * s.vector);
  p.residentBlocks = strips.blocks;
  shareSequences(s, strips.blocks, p);
  return p;
}

/// By measurement. In f32 long sequences that few blocks go over want wide rows and a
/// multiprocessor's memory for one block; many sequences want two blocks, since the begin and end
/// of one hide behind the other. bf16 wants more of a sequence in a step.
NANO_BOTH constexpr RecurrencePlan recurrencePlan(const RecurrenceShape &s) {
  if (s.channels == 1)
    return recurrenceAlongRows(s);
  if (s.elementBytes == 2)
    return recurrenceOfStrips(s, {128, 256, 8, 1});
  const RecurrencePlan wide = recurrenceOfStrips(s, {256, 128, 16, 1});
  return wide.cluster > 1 ? wide : recurrenceOfStrips(s, {128, 128, 8, 2});
}

/// Bytes of shared memory for elements on their way.
NANO_BOTH constexpr int recurrenceStagedBytes(const RecurrenceShape &s) {
  const RecurrencePlan p = recurrencePlan(s);
  return p.stages * p.items * s.operands * p.threads * s.vector * s.elementBytes;
}
NANO_BOTH constexpr TemplateLaunch recurrenceLaunch(const RecurrenceShape &s) {
  const RecurrencePlan p = recurrencePlan(s);
  // Two turns' maps of warps and of blocks, states, and mbarriers.
  const int channels = p.across * p.own,
            exchanged = 2 * (4 * channels * (3 * p.warpsOfSequence + 2 * p.cluster) + 8);
  return {p.threads, divideUp(s.sequences, p.sequencesOfBlock) * p.strips * p.cluster,
          recurrenceStagedBytes(s) + exchanged};
}

} // namespace nano
