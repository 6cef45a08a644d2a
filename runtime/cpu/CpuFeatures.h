// What the processor can do and is called, as the kernel reports it.
#pragma once

#include <string>
#include <vector>

namespace nano::cpu {

/// The names in `needed` (spelled as in /proc/cpuinfo) that this machine's processor does not have,
/// or Linux does not let this process use: AMX's registers are asked for.
std::vector<std::string> missingFeatures(const std::vector<std::string> &needed);

/// The processor's name, e.g. "AMD EPYC"; "unknown processor" where the kernel does not say.
std::string processorName();

/// The number of cores that this process may use.
int usableCores();

} // namespace nano::cpu
