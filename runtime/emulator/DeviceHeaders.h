// The emulator's versions of the device library's headers, embedded.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace nano::emulator {

/// They replace those of the same name that a plan brings along.
std::vector<plan::Source> deviceHeaders();

} // namespace nano::emulator
