// Promises that end the process.
#include "tests/fuzz/Targets.h"

#include <cstdio>
#include <cstdlib>

namespace nano::fuzz {

void require(bool holds, const char *promise) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", promise);
  std::abort();
}

} // namespace nano::fuzz
