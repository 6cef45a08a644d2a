// NVML's counter of millijoules.
#include "runtime/cuda/Energy.h"

namespace nano::cuda {

EnergyCounter energyOf(const NvmlApi &api, const std::string &identifier) {
  std::string uuid = "GPU-" + identifier;
  for (size_t dash : {12, 17, 22, 27}) // 8, 4, 4, 4 and 12 digits
    if (dash < uuid.size())
      uuid.insert(dash, "-");
  auto none = [&](const char *call, nvml::Outcome outcome) {
    const char *text = api.nvmlErrorString(outcome);
    return EnergyCounter{
        {}, std::string("NVML: ") + (text ? text : "error") + " in " + call + " of " + uuid, ""};
  };
  if (nvml::Outcome outcome = api.nvmlInit_v2(); outcome != nvml::success)
    return none("nvmlInit", outcome);
  nvml::Device device = nullptr;
  if (nvml::Outcome outcome = api.nvmlDeviceGetHandleByUUID(uuid.c_str(), &device);
      outcome != nvml::success)
    return none("nvmlDeviceGetHandleByUUID", outcome);
  unsigned long long first = 0;
  if (nvml::Outcome outcome = api.nvmlDeviceGetTotalEnergyConsumption(device, &first);
      outcome != nvml::success)
    return none("nvmlDeviceGetTotalEnergyConsumption", outcome);
  unsigned milliwatts = 0;
  if (api.nvmlDeviceGetEnforcedPowerLimit(device, &milliwatts) != nvml::success)
    milliwatts = 0;
  return {[&api, device]() -> std::optional<double> {
            unsigned long long millijoules = 0;
            if (api.nvmlDeviceGetTotalEnergyConsumption(device, &millijoules) != nvml::success)
              return std::nullopt;
            return 1e-3 * double(millijoules);
          },
          "NVML", uuid, 1e-3 * double(milliwatts), api.now};
}

} // namespace nano::cuda
