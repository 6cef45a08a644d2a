// Boxes of matrices that bulk loads bring, and the tensor maps that describe them.
#pragma once

#include "codegen/device/emulator/nano_machine.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace nano::emulator {

/// The map as a kernel's parameter, of the matrix that starts at `matrix`.
TensorMap encode(const plan::TensorMap &map, const void *matrix);

/// Bytes of a box's row, and of all of them, in shared memory.
inline uint32_t boxRowBytes(const TensorMap &map) { return map.boxColumns * map.elementBytes; }
inline uint32_t boxBytes(const TensorMap &map) { return boxRowBytes(map) * map.boxRows; }

/// What addresses of boxes in shared memory are multiples of: 128 bytes, and what the swizzle's
/// pattern repeats after.
uint32_t boxAlignment(const TensorMap &map);

/// Calls `part(offset, from, bytes)` for each row of the box that begins at (column, row), as far
/// as it lies within the matrix: where it comes within the box, before it is permuted, and from.
template <typename Fn> void forRows(const TensorMap &map, int column, int row, Fn part) {
  const int64_t firstColumn = column < 0 ? -int64_t(column) : 0;
  const int64_t endColumn =
      std::min<int64_t>(map.boxColumns, int64_t(map.columns) - int64_t(column));
  if (firstColumn >= endColumn)
    return;
  for (int64_t r = 0; r < int64_t(map.boxRows); ++r) {
    const int64_t matrixRow = row + r;
    if (matrixRow < 0 || matrixRow >= int64_t(map.rows))
      continue;
    const std::byte *from = static_cast<const std::byte *>(map.matrix) +
                            uint64_t(matrixRow) * map.rowBytes +
                            uint64_t(column + firstColumn) * map.elementBytes;
    part(uint32_t(r) * boxRowBytes(map) + uint32_t(firstColumn) * map.elementBytes, from,
         uint32_t(endColumn - firstColumn) * map.elementBytes);
  }
}

/// Copies the box that begins at (column, row) to `to`, a multiple of boxAlignment, permuted as the
/// map's swizzle says; what lies outside of the matrix becomes zero.
void copyBox(std::byte *to, const TensorMap &map, int column, int row);

} // namespace nano::emulator
