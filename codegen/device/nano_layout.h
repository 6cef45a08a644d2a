// How tiles lie in shared memory for bulk copies and products of a warpgroup: the same on the GPU
// and in the emulator.
#pragma once

#include "nano_types.h"

namespace nano {

/// How rows of 32, 64 or 128 bytes are permuted within shared memory: bits 4 … of the address are
/// XORed with bits 7 … (1, 2 or 3 of them). A tile starts at a multiple of 256, 512 or 1024 bytes.
enum class Swizzle : uint32_t { None = 0, Bytes128 = 1, Bytes64 = 2, Bytes32 = 3 };

/// Where `byte` of a tile lies in a swizzled tile.
template <Swizzle Mode> NANO_DEVICE constexpr uint32_t swizzled(uint32_t byte) {
  if constexpr (Mode == Swizzle::Bytes128)
    return byte ^ ((byte >> 3) & 0x70);
  else if constexpr (Mode == Swizzle::Bytes64)
    return byte ^ ((byte >> 3) & 0x30);
  else if constexpr (Mode == Swizzle::Bytes32)
    return byte ^ ((byte >> 3) & 0x10);
  else
    return byte;
}

/// The descriptor of the matrix at an address of shared memory: see matrixDescriptor.
NANO_DEVICE uint64_t descriptorAt(uint32_t start, uint32_t leadingBytes, uint32_t strideBytes,
                                  Swizzle swizzle) {
  uint64_t address = (start & 0x3ffff) >> 4;
  return address | uint64_t((leadingBytes & 0x3ffff) >> 4) << 16 |
         uint64_t((strideBytes & 0x3ffff) >> 4) << 32 | uint64_t(swizzle) << 62;
}
/// The descriptor of what lies `bytes`, a multiple of 16, behind a tile: it costs one addition.
NANO_DEVICE uint64_t advanced(uint64_t descriptor, uint32_t bytes) {
  return (descriptor & ~uint64_t(0xffffffff)) | (uint32_t(descriptor) + (bytes >> 4));
}

} // namespace nano
