// The version that --version prints and the log records.
#pragma once

namespace nano {
inline constexpr const char *version = NANO_VERSION;
} // namespace nano
