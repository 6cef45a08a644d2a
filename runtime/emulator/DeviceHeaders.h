// The emulator's versions of the device library's headers, embedded.
#pragma once

#include <string_view>
#include <vector>

namespace nano::emulator {

struct DeviceHeader {
  const char *name;
  std::string_view text;
};

/// They replace those of the same name that a plan brings along.
std::vector<DeviceHeader> deviceHeaders();

} // namespace nano::emulator
