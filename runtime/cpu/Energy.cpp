// Zones of RAPL: each a folder with its name and its counter of microjoules.
#include "runtime/cpu/Energy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>
#include <vector>

namespace nano::cpu {
namespace {

namespace fs = std::filesystem;

struct Zone {
  std::string file;
  double range = 0; ///< microjoules at which the counter begins again; 0: not known
  double last = 0;  ///< what it stood at
};

template <typename T> std::optional<T> readValue(const std::string &path) {
  std::ifstream file(path);
  T value = {};
  return file >> value ? std::optional(value) : std::nullopt;
}

/// What is counted, in all the world: this machine since it was started.
std::string machineOf() {
  return "machine " +
         readValue<std::string>("/proc/sys/kernel/random/boot_id").value_or("without a boot id");
}

} // namespace

EnergyCounter raplCounter(const std::string &folder) {
  auto none = [](const std::string &why) { return EnergyCounter{{}, why, ""}; };
  std::vector<Zone> zones;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error)) {
    const std::string zone = entry.path().string(),
                      name = readValue<std::string>(zone + "/name").value_or("");
    // Cores and graphics are parts of their package; psys has all of it again.
    if (!name.starts_with("package") && name != "dram")
      continue;
    const std::string file = zone + "/energy_uj";
    if (::access(file.c_str(), R_OK) != 0)
      return none(file + ": " + std::strerror(errno));
    const std::optional<double> now = readValue<double>(file);
    if (!now)
      return none(file + ": is no number");
    zones.push_back({file, readValue<double>(zone + "/max_energy_range_uj").value_or(0), *now});
  }
  if (zones.empty())
    return none(folder + " has no counter of a processor");
  return {[zones = std::make_shared<std::vector<Zone>>(std::move(zones)),
           total = std::make_shared<double>(0)]() -> std::optional<double> {
            for (Zone &zone : *zones) {
              const std::optional<double> now = readValue<double>(zone.file);
              if (!now)
                return std::nullopt;
              *total += *now - zone.last + (*now < zone.last ? zone.range : 0);
              zone.last = *now;
            }
            return 1e-6 * *total;
          },
          "RAPL", machineOf()};
}

} // namespace nano::cpu
