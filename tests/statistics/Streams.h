// The random bits that models draw, as streams of numbers for statistical tests: those of
// randomBits, one after the other along each of what they are keyed by.
#pragma once

#include "runtime/Random.h"

#include <cstdint>

namespace nano::test {

/// Where a number stands: what randomBits makes the counter and the key of.
struct Place {
  uint32_t column = 0, row = 0, sequence = 0, use = 0, seed = 0;
};

/// As nano.philox: word (column mod 4) of a block.
inline uint32_t bitsAt(const Place &place) {
  return nano::philox({place.column / 4, place.row, place.sequence, place.use},
                      {place.seed, 0})[place.column % 4];
}

/// Of a tensor [tokens, width] in each sequence of tokens after the other.
inline Place alongColumns(uint64_t i) {
  constexpr uint64_t width = 768, tokens = 4096;
  return {uint32_t(i % width), uint32_t(i / width % tokens), uint32_t(i / width / tokens), 0, 0};
}

struct Stream {
  const char *name;
  Place (*place)(uint64_t);
  bool isReversed = false; ///< the lowest bit first
};
inline const Stream streams[] = {
    {"columns, then rows, then sequences", alongColumns},
    {"likewise, the lowest bit first", alongColumns, true},
    {"rows", [](uint64_t i) { return Place{0, uint32_t(i), 0, 0, 0}; }},
    {"sequences: steps and micro-batches",
     [](uint64_t i) { return Place{0, 0, uint32_t(i), 0, 0}; }},
    {"places of the call", [](uint64_t i) { return Place{0, 0, 0, uint32_t(i), 0}; }},
    {"seeds", [](uint64_t i) { return Place{0, 0, 0, 0, uint32_t(i)}; }},
};

/// Number i of a stream.
inline uint32_t numberOf(const Stream &stream, uint64_t i) {
  uint32_t bits = bitsAt(stream.place(i));
  if (!stream.isReversed)
    return bits;
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit, bits >>= 1)
    reversed = reversed << 1 | (bits & 1);
  return reversed;
}

} // namespace nano::test
