// Why a schedule waits: what each wait for an event keeps in order.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace nano::explore {

/// The command behind a wait must not begin before the one in front of the record has ended, since
/// both touch a buffer's bytes.
struct WaitReason {
  size_t wait = 0;          ///< the waiting command, an index of the program
  size_t before, after = 0; ///< the commands that it keeps in order
  uint32_t buffer = 0;      ///< that of `after` that both touch
  enum class Kind : uint8_t { ReadsWritten, OverwritesRead, OverwritesWritten } kind;
};

/// Of every wait of the program the nearest such pair; none for a wait that keeps only what other
/// programs or the host do in order.
std::vector<WaitReason> waitReasons(const plan::Plan &plan, const plan::Program &program);

} // namespace nano::explore
