// Reads NANO_EMULATOR, NANO_EMULATOR_SEED and NANO_EMULATOR_SUMS.
#include "runtime/emulator/Options.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

namespace nano::emulator {

Result<Options> Options::fromEnvironment() {
  Options options;
  if (const char *mode = std::getenv("NANO_EMULATOR"); mode && *mode) {
    options.checked = std::strcmp(mode, "checked") == 0;
    if (!options.checked && std::strcmp(mode, "fast") != 0)
      return badInput(std::string("NANO_EMULATOR is '") + mode + "'; it can be checked or fast");
  }
  if (const char *seed = std::getenv("NANO_EMULATOR_SEED"); seed && *seed) {
    auto [rest, error] = std::from_chars(seed, seed + std::strlen(seed), options.seed);
    if (error != std::errc() || *rest)
      return badInput(std::string("NANO_EMULATOR_SEED is '") + seed +
                      "'; it can be a whole number from 0 to 2^64 - 1");
  }
  if (const char *sums = std::getenv("NANO_EMULATOR_SUMS"); sums && *sums) {
    options.exactSums = std::strcmp(sums, "exact") == 0;
    if (!options.exactSums && std::strcmp(sums, "cut") != 0)
      return badInput(std::string("NANO_EMULATOR_SUMS is '") + sums + "'; it can be cut or exact");
  }
  return options;
}

} // namespace nano::emulator
