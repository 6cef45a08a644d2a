// Where a program has most bytes of its own buffers in use, and which of these it only waits with.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nano::inspect {

/// A program's own buffer that is in use at the peak, from the first to the last command that
/// touches it.
struct Held {
  uint32_t buffer = 0;
  size_t before = 0; ///< the last command up to the peak that touches it
  size_t after = 0;  ///< the first one from the peak on; `before` where that is the peak itself
  bool waits() const { return before != after; }
};

struct Peak {
  size_t command = 0; ///< the first one where so much is in use
  uint64_t bytes = 0;
  std::vector<Held> held;
};

/// The peak of a program of the plan; of one without buffers of its own no bytes.
Peak peakOf(const plan::Plan &plan, const plan::Program &program);

} // namespace nano::inspect
