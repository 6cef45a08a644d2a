// nano-random-bits NUMBER: the bits of one of the streams of tests/statistics/Streams.h to standard
// output, 4 bytes a number, until nobody reads them; without NUMBER the streams' names, one a line.
#include "tests/statistics/Streams.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>

int main(int count, char **words) {
  using namespace nano::test;
  if (count < 2) {
    for (const Stream &stream : streams)
      std::puts(stream.name);
    return EXIT_SUCCESS;
  }
  char *end = nullptr;
  const unsigned long number = std::strtoul(words[1], &end, 10);
  if (count > 2 || *end != '\0' || end == words[1] || number >= std::size(streams)) {
    std::fprintf(stderr, "nano-random-bits: %s: streams are numbered from 0 to %zu\n", words[1],
                 std::size(streams) - 1);
    return 2;
  }
  std::signal(SIGPIPE, SIG_DFL);
  std::array<uint32_t, 16384> numbers;
  for (uint64_t i = 0;;) {
    for (uint32_t &each : numbers)
      each = numberOf(streams[number], i++);
    if (std::fwrite(numbers.data(), sizeof numbers, 1, stdout) != 1)
      return EXIT_SUCCESS;
  }
}
