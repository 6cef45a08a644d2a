// Loads of boxes: bulk loads whose source is a part of a matrix.
#include "runtime/emulator/Boxes.h"
#include "runtime/emulator/Cluster.h"
#include "runtime/plan/TensorMaps.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace nano::emulator {

static_assert(sizeof(TensorMap) == plan::encodedMapBytes);

TensorMap encode(const plan::TensorMap &map, const void *matrix) {
  TensorMap encoded = {};
  encoded.matrix = matrix;
  encoded.columns = map.columns;
  encoded.rows = map.rows;
  encoded.rowBytes = map.rowBytes;
  encoded.boxColumns = map.boxColumns;
  encoded.boxRows = map.boxRows;
  encoded.elementBytes = uint32_t(plan::sizeOf(map.type));
  encoded.swizzleBytes = map.swizzleBytes;
  return encoded;
}

uint32_t boxAlignment(const TensorMap &map) { return std::max(128u, 8 * map.swizzleBytes); }

void copyBox(std::byte *to, const TensorMap &map, int column, int row) {
  const uint32_t bytes = boxBytes(map);
  if (map.swizzleBytes == 0) {
    std::memset(to, 0, bytes);
    forRows(map, column, row, [&](uint32_t offset, const std::byte *from, uint32_t count) {
      std::memcpy(to + offset, from, count);
    });
    return;
  }
  // The manual's modes: within 8 rows of the width, bits 4 … of an address are XORed with bits 7 ….
  std::vector<std::byte> box(bytes);
  forRows(map, column, row, [&](uint32_t offset, const std::byte *from, uint32_t count) {
    std::memcpy(&box[offset], from, count);
  });
  const uint32_t mask = map.swizzleBytes - 16;
  for (uint32_t chunk = 0; chunk < bytes; chunk += 16)
    std::memcpy(to + (chunk ^ (chunk >> 3 & mask)), &box[chunk], 16);
}

const TensorMap &Cluster::findMap(EmulatedThread &thread, const TensorMap &map, const char *what,
                                  Site site) {
  // Parameters are copies, one a thread.
  std::span<const TensorMap> known(launch->maps, launch->kernel->tensorMaps);
  for (const TensorMap &each : known)
    if (std::memcmp(&each, &map, sizeof map) == 0)
      return each;
  fail(thread, std::string(what) + " (" + nameOf(site) + "): the map is none of the launch's " +
                   std::to_string(known.size()));
}

void EmulatedThread::prefetchTensorMap(const TensorMap &map, Site site) {
  cluster->findMap(*this, map, "prefetchTensorMap", site);
}

void EmulatedThread::bulkTensorLoad(void *shared, const TensorMap &map, int column, int row,
                                    void *barrier, unsigned toBlocks, Site site) {
  Effect effect;
  effect.map = &cluster->findMap(*this, map, "bulkTensorLoad", site);
  effect.bytes = boxBytes(map);
  cluster->needShared(*this, shared, effect.bytes, boxAlignment(map), "bulkTensorLoad", site);
  // In hardware an illegal instruction, wherever the box lies.
  if (int64_t(column) * effect.map->elementBytes % 16 != 0)
    cluster->fail(*this, "bulkTensorLoad (" + Cluster::nameOf(site) + "): misaligned: column " +
                             std::to_string(column) + " of elements of " +
                             std::to_string(effect.map->elementBytes) +
                             " bytes is at no multiple of 16 bytes");
  effect.thread = this;
  effect.site = site;
  effect.to = static_cast<std::byte *>(shared);
  effect.column = column;
  effect.row = row;
  effect.blocks = toBlocks;
  effect.barrier = static_cast<std::byte *>(barrier);
  if (cluster->checked) {
    effect.place = cluster->place(site);
    forRows(map, column, row, [&](uint32_t, const std::byte *from, uint32_t bytes) {
      cluster->check(*this, from, bytes, false, Cluster::Use::Read, effect.place);
    });
  }
  cluster->startBulkLoad(effect, "bulkTensorLoad");
}

} // namespace nano::emulator
