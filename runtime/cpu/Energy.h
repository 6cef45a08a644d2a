// The joules that processors count: RAPL, as Linux shows it below /sys/class/powercap.
#pragma once

#include "runtime/Device.h"

#include <string>

namespace nano::cpu {

/// The counter of all packages of this machine and of their memory, where that counts apart, as one
/// number that goes on when a counter begins again. `folder`: where the zones lie. None where there
/// are no zones, as in most virtual machines, or where one is for root alone.
EnergyCounter raplCounter(const std::string &folder = "/sys/class/powercap");

} // namespace nano::cpu
