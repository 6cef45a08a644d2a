// How the recurrence template cuts its work into thread blocks, and the scratch buffer that its two
// launches share. Plain constant expressions, which the compiler and the kernels both include.
#pragma once

#include "nano_shape.h"

namespace nano {

struct RecurrenceShape {
  long long sequences, length, channels; ///< N, T, C
};

/// Elements of one channel that a thread has, one behind the other: all of them in registers.
constexpr int recurrenceElements = 16;

/// Channels of a block, which its neighbouring threads have: C to a power of two, at most 32.
NANO_BOTH constexpr int recurrenceChannels(const RecurrenceShape &s) {
  int channels = 1;
  while (channels < 32 && channels < s.channels)
    channels *= 2;
  return channels;
}

/// Threads of a block: as many as a sequence has work for, 32 to 512.
NANO_BOTH constexpr int recurrenceThreads(const RecurrenceShape &s) {
  int threads = 32;
  while (threads < 512 && threads / recurrenceChannels(s) < divideUp(s.length, recurrenceElements))
    threads *= 2;
  return threads;
}

/// Parts of a sequence that a block each has; one where the first launch is not needed.
NANO_BOTH constexpr long long recurrenceChunks(const RecurrenceShape &s) {
  return divideUp(s.length, recurrenceThreads(s) / recurrenceChannels(s) * recurrenceElements);
}

/// Bytes of the scratch buffer, aligned to 4: what each chunk multiplies the state before it by,
/// and what it adds, [N, chunks, 2, C] numbers.
NANO_BOTH constexpr long long recurrenceScratchBytes(const RecurrenceShape &s) {
  return 4 * s.sequences * recurrenceChunks(s) * 2 * s.channels;
}

/// Both launches: the first reads a and b and writes the scratch buffer, the second reads all three
/// and writes h.
NANO_BOTH constexpr TemplateLaunch recurrenceLaunch(const RecurrenceShape &s) {
  return {recurrenceThreads(s),
          s.sequences * recurrenceChunks(s) * divideUp(s.channels, recurrenceChannels(s)),
          8 * recurrenceThreads(s)};
}

} // namespace nano
