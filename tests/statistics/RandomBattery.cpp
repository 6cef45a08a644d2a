// TestU01's battery SmallCrush (L'Ecuyer and Simard 2007) on the random bits that models draw: the
// bits of randomBits, as numbers follow each other along each of what they are keyed by. Exit
// status 1 where a p-value is outside [0.001, 0.999], as TestU01 itself reports them.
#include "tests/statistics/Streams.h"

#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" {
#include <TestU01.h>
}

namespace nano::test {
namespace {

const Stream *current = nullptr;
uint64_t position = 0;

unsigned int nextBits() { return numberOf(*current, position++); }

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
} // namespace nano::test

int main() {
  bool isGood = true;
  for (const nano::test::Stream &stream : nano::test::streams)
    isGood &= nano::test::passes(stream);
  return isGood ? EXIT_SUCCESS : EXIT_FAILURE;
}
