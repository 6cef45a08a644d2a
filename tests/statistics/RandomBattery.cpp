// TestU01's battery SmallCrush (L'Ecuyer and Simard 2007) on the random bits that models draw: the
// bits of randomBits, as numbers follow each other along each of what they are keyed by. Exit
// status 1 where a p-value is outside [0.001, 0.999], as TestU01 itself reports them.
#include "runtime/Random.h"

#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" {
#include <TestU01.h>
}

namespace {

/// Where a number stands: what randomBits makes the counter and the key of.
struct Place {
  uint32_t column = 0, row = 0, sequence = 0, use = 0, seed = 0;
};

/// As nano.philox: word (column mod 4) of a block.
uint32_t bitsAt(const Place &place) {
  return nano::philox({place.column / 4, place.row, place.sequence, place.use},
                      {place.seed, 0})[place.column % 4];
}

/// Of a tensor [tokens, width] in each sequence of tokens after the other.
Place alongColumns(uint64_t i) {
  constexpr uint64_t width = 768, tokens = 4096;
  return {uint32_t(i % width), uint32_t(i / width % tokens), uint32_t(i / width / tokens), 0, 0};
}

struct Stream {
  const char *name;
  Place (*place)(uint64_t);
  bool isReversed = false; ///< the lowest bit first
};
const Stream streams[] = {
    {"columns, then rows, then sequences", alongColumns},
    {"likewise, the lowest bit first", alongColumns, true},
    {"rows", [](uint64_t i) { return Place{0, uint32_t(i), 0, 0, 0}; }},
    {"sequences: steps and micro-batches",
     [](uint64_t i) { return Place{0, 0, uint32_t(i), 0, 0}; }},
    {"places of the call", [](uint64_t i) { return Place{0, 0, 0, uint32_t(i), 0}; }},
    {"seeds", [](uint64_t i) { return Place{0, 0, 0, 0, uint32_t(i)}; }},
};

const Stream *current = nullptr;
uint64_t position = 0;

unsigned int nextBits() {
  uint32_t bits = bitsAt(current->place(position++));
  if (current->isReversed) {
    uint32_t reversed = 0;
    for (int i = 0; i < 32; ++i, bits >>= 1)
      reversed = reversed << 1 | (bits & 1);
    bits = reversed;
  }
  return bits;
}

/// Whether all p-values of the battery on a stream are as they should be; prints those that are
/// not.
bool passes(const Stream &stream) {
  current = &stream;
  position = 0;
  std::string name = stream.name;
  unif01_Gen *generator = unif01_CreateExternGenBits(name.data(), nextBits);
  swrite_Basic = FALSE;
  bbattery_SmallCrush(generator);
  unif01_DeleteExternGenBits(generator);
  constexpr double suspicious = 0.001;
  double least = 1, most = 0;
  int bad = 0;
  for (int i = 0; i < bbattery_NTests; ++i) {
    const double p = bbattery_pVal[i];
    least = p < least ? p : least;
    most = p > most ? p : most;
    if (!(p >= suspicious && p <= 1 - suspicious)) {
      std::printf("  %s: %s: p = %g\n", stream.name, bbattery_TestNames[i], p);
      ++bad;
    }
  }
  std::printf("%-36s %2d statistics, p from %.4f to %.4f, %llu numbers: %s\n", stream.name,
              bbattery_NTests, least, most, static_cast<unsigned long long>(position),
              bad == 0 ? "passed" : "FAILED");
  std::fflush(stdout);
  return bad == 0 && bbattery_NTests > 0;
}

} // namespace

int main() {
  bool isGood = true;
  for (const Stream &stream : streams)
    isGood &= passes(stream);
  return isGood ? EXIT_SUCCESS : EXIT_FAILURE;
}
