// How the emulator runs, as the environment says.
#pragma once

#include "base/Status.h"

#include <cstdint>

namespace nano::emulator {

/// See README.md.
struct Options {
  bool checked = true;    ///< NANO_EMULATOR=checked or fast
  uint64_t seed = 1;      ///< NANO_EMULATOR_SEED
  bool exactSums = false; ///< NANO_EMULATOR_SUMS=cut or exact

  /// BadInput when a variable has a value that means nothing.
  static Result<Options> fromEnvironment();
};

} // namespace nano::emulator
