// The table of targets.
#include "base/Target.h"

#include "base/Limits.h"

#include <algorithm>

namespace nano {

static constexpr Target table[] = {
    {.name = "cpu",
     .machine = "cpu",
     .devices = {"cpu"},
     .checkDevice = "cpu",
     .secondDevice = "",
     .hasNativeCode = true,
     .narrowsProducts = true},
    {.name = "cuda",
     .machine = "h100-infiniband",
     .devices = {"cuda", "emulator"},
     .checkDevice = "emulator",
     .secondDevice = "cuda",
     .alignsProducts = true,
     .fusesProducts = true,
     .sumsBothWays = true,
     .mergesProducts = true,
     .sumsGradients = true,
     .copiesKeys = true,
     .batchesCopies = true,
     .isKMajor = true,
     .maxParameterBytes = maxParameterBytes},
};

bool Target::runsOn(std::string_view device) const {
  return !device.empty() && std::find(devices.begin(), devices.end(), device) != devices.end();
}

std::span<const Target> targets() { return table; }

const Target *findTarget(std::string_view name) {
  const auto *found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Target &target) { return target.name == name; });
  return found == std::end(table) ? nullptr : found;
}

const Target &targetOf(std::string_view name) {
  static constexpr Target none = {
      .name = "", .machine = "cpu", .devices = {}, .checkDevice = "", .secondDevice = ""};
  const Target *target = findTarget(name);
  return target ? *target : none;
}

const Target *targetOfDevice(std::string_view device) {
  const auto *found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Target &target) { return target.runsOn(device); });
  return found == std::end(table) ? nullptr : found;
}

/// One name behind the other.
static void add(std::string &text, std::string_view between, std::string_view name) {
  if (!text.empty())
    text += between;
  text += name;
}

std::string targetNames(std::string_view between) {
  std::string text;
  for (const Target &target : table)
    add(text, between, target.name);
  return text;
}

std::string deviceNames(std::string_view between) {
  std::string text;
  for (const Target &target : table)
    for (std::string_view device : target.devices)
      if (!device.empty())
        add(text, between, device);
  return text;
}

} // namespace nano
