// Reads the first processor of /proc/cpuinfo, which lists what both the processor and the kernel
// support.
#include "runtime/cpu/CpuFeatures.h"

#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <unordered_set>

namespace nano::cpu {
namespace {

/// The text behind "key : " of the first processor that has one of `keys`; empty when none has.
std::string firstEntry(std::initializer_list<std::string_view> keys) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos)
      continue;
    std::string_view key =
        std::string_view(line).substr(0, line.find_last_not_of(" \t:", colon) + 1);
    for (std::string_view wanted : keys)
      if (key == wanted)
        return line.substr(std::min(colon + 2, line.size()));
  }
  return "";
}

/// Asks Linux for AMX's registers for this process, all of its threads.
bool mayUseTiles() {
#if defined(__x86_64__)
  constexpr int requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
#else
  return false;
#endif
}

} // namespace

std::vector<std::string> missingFeatures(const std::vector<std::string> &needed) {
  std::vector<std::string> missing;
  if (needed.empty())
    return missing;
  std::istringstream words(firstEntry({"flags", "Features"}));
  std::unordered_set<std::string> present;
  for (std::string word; words >> word;)
    present.insert(word);
  for (const std::string &feature : needed)
    if (!present.count(feature) || (feature == "amx_tile" && !mayUseTiles()))
      missing.push_back(feature);
  return missing;
}

std::string processorName() {
  std::string name = firstEntry({"model name"});
  return name.empty() ? "unknown processor" : name;
}

int usableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return CPU_COUNT(&set);
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

} // namespace nano::cpu
