// Numbers that programs keep to in IR, in plans and where they run.
#pragma once

#include <cstdint>

namespace nano {

/// Streams of a program at most.
inline constexpr uint32_t mostStreams = 64;

/// Bytes that a CUDA kernel's parameters may have: 32,764 on every GPU of compute capability 7 and
/// above.
inline constexpr int64_t maxParameterBytes = 32764;

} // namespace nano
