// The rules of tensor maps.
#include "runtime/plan/TensorMaps.h"

namespace nano::plan {

const char *brokenRule(const TensorMap &map) {
  constexpr uint64_t mostElements = INT32_MAX; // coordinates are int
  constexpr uint64_t mostRowBytes = uint64_t(1) << 40;
  constexpr uint32_t mostOfBox = 256;
  auto isFrom1 = [](uint64_t value, uint64_t most) { return value >= 1 && value <= most; };
  if (!isFrom1(map.columns, mostElements) || !isFrom1(map.rows, mostElements))
    return "the matrix has not 1 to 2147483647 rows and columns";
  if (map.rowBytes % 16 != 0 || map.rowBytes >= mostRowBytes)
    return "rows are not a multiple of 16 below 2^40 bytes apart";
  if (map.rowBytes < map.columns * sizeOf(map.type))
    return "rows overlap";
  if (!isFrom1(map.boxColumns, mostOfBox) || !isFrom1(map.boxRows, mostOfBox))
    return "a box has not 1 to 256 rows and columns";
  const uint64_t boxRowBytes = map.boxColumns * sizeOf(map.type);
  if (boxRowBytes % 16 != 0)
    return "a box's rows are not a multiple of 16 bytes";
  const uint32_t swizzle = map.swizzleBytes;
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return "it is swizzled by neither 0, 32, 64 nor 128 bytes";
  if (swizzle != 0 && boxRowBytes != swizzle)
    return "a box's rows are not as long as what it is swizzled by";
  return nullptr;
}

uint64_t bytesOf(const TensorMap &map) {
  uint64_t before = 0, end = 0;
  if (map.rows == 0 || __builtin_mul_overflow(map.rows - 1, map.rowBytes, &before) ||
      __builtin_add_overflow(before, map.columns * sizeOf(map.type), &end))
    return map.rows == 0 ? 0 : UINT64_MAX;
  return end;
}

} // namespace nano::plan
