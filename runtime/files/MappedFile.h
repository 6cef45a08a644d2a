// A file seen as read-only memory: pages come from the disk when they are touched.
#pragma once

#include "runtime/plan/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nano {

/// Owns the mapping of one whole file. Move-only.
class MappedFile {
public:
  /// Maps the regular file at `path`. BadInput, naming the file and the reason, when it cannot be
  /// opened or mapped.
  static Result<MappedFile> open(const std::string &path);

  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// The file's content; its size is the file's size when it was opened.
  std::span<const std::byte> bytes() const { return {data, size}; }
  const std::string &path() const { return name; }

  /// Asks the kernel to read these bytes soon; a hint, so failures do not matter.
  void willNeed(uint64_t offset, uint64_t count) const;
  /// Gives back the memory of the pages up to the end of these bytes, but for one that goes on
  /// behind it: so bytes that are read in order leave one. A page is read again when it is touched.
  void release(uint64_t offset, uint64_t count) const;

private:
  const std::byte *data = nullptr;
  uint64_t size = 0;
  std::string name;
};

} // namespace nano
