// One training file: columns of one length, of which `tokens` is one. Three formats: llm.c's token
// shards, a safetensors file of one-dimensional tensors, a folder of .npy files.
#pragma once

#include "base/InputFile.h"
#include "base/Status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace nano {

/// Element type of a column in a file, little-endian.
enum class ElementType : uint8_t { U8, U16, U32, I32, BF16, F32 };
/// Size of one element in bytes.
uint64_t sizeOf(ElementType type);
/// The name that messages use: "u8", "u16", "u32", "i32", "bf16", "f32".
const char *nameOf(ElementType type);

/// Numbers one after the other in a file, of which parts are read; never mapped, see InputFile.
class DataColumn {
public:
  DataColumn() = default;
  DataColumn(std::shared_ptr<const InputFile> file, uint64_t begin, ElementType type,
             uint64_t count)
      : file(std::move(file)), begin(begin), elements(count), elementType(type) {}

  ElementType type() const { return elementType; }
  uint64_t size() const { return elements; }
  /// The path of the file that it lies in.
  const std::string &path() const { return file->path(); }
  /// Elements [position, position + count), which it must have, as they lie in the file. Failed,
  /// with the file, when it has become shorter.
  Status read(uint64_t position, uint64_t count, void *data) const {
    return file->read(begin + position * sizeOf(elementType), data, count * sizeOf(elementType));
  }
  /// A hint: elements that will be read soon.
  void willNeed(uint64_t position, uint64_t count) const {
    file->willNeed(begin + position * sizeOf(elementType), count * sizeOf(elementType));
  }

private:
  std::shared_ptr<const InputFile> file;
  uint64_t begin = 0, elements = 0;
  ElementType elementType = ElementType::U16;
};

/// Columns by name; all have as many elements as `tokens`, which are u16, u32 or i32.
struct DataFile {
  std::string path; ///< as the pattern gave it; of .npy files their folder
  DataColumn tokens;
  std::map<std::string, DataColumn> columns; ///< all others

  /// Opens a file or folder and checks it. What its first bytes are says which format it has: a
  /// shard is 256 little-endian int32 — GPT-2's magic 20240520 and version 1, or Llama 3's 20240801
  /// and 7; the number of tokens n, the rest 0 — then n tokens, u16 or u32. BadInput, one line,
  /// with the path: unreadable, of no known format, damaged, without tokens, with columns of
  /// another length, dimension or type.
  static Result<DataFile> open(const std::string &path);
};

} // namespace nano
