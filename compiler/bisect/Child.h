// Runs code that may crash, as a faulty kernel does, in a process of its own.
#pragma once

#include "base/Status.h"

#include <functional>
#include <string>

namespace nano::bisect {

/// Runs `work` in a child process, whose output goes nowhere, and returns what it returns. Failed:
/// its error, a crash, or no end within `seconds`. The caller has no other threads.
Result<std::string> inChild(const std::function<Result<std::string>()> &work, unsigned seconds);

} // namespace nano::bisect
