// The safetensors format: eight bytes of header length, a JSON header with names, types, shapes and
// offsets, then the data. Reading trusts nothing: every byte of the data must belong to exactly one
// tensor.
#pragma once

#include "base/InputFile.h"
#include "base/Status.h"
#include "runtime/files/FileWriter.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nano {

/// A tensor's place in a file.
struct TensorEntry {
  std::string name;
  std::string type;           ///< as the format spells it: "F32", "BF16", …
  std::vector<int64_t> shape; ///< no entries: a scalar
  uint64_t begin = 0;         ///< bytes from the start of the data section
  uint64_t end = 0;
};

/// What a tensor is; by name.
struct TensorInfo {
  std::string type; ///< as the format spells it
  std::vector<int64_t> shape;
  bool operator==(const TensorInfo &) const = default;
};
using TensorTable = std::map<std::string, TensorInfo>;

/// Size of one element in bytes; nothing when the format knows no such type.
std::optional<uint64_t> bytesOfType(std::string_view type);
/// The format's name of a type: "F32", "BF16", "F8_E4M3", "F8_E5M2", "I32".
const char *safetensorsName(plan::DType type);
/// A shape for messages: "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

/// A safetensors file opened for reading.
class SafetensorsFile {
public:
  /// The largest header that is accepted, as in the format's reference implementation.
  static constexpr uint64_t maxHeaderBytes = 100'000'000;

  /// Opens the file and checks the header: length, JSON, no name twice, known types, shapes that
  /// match the byte ranges, ranges that lie in the file, do not overlap and leave no gap. BadInput,
  /// naming the file and the tensor, when a check fails.
  static Result<SafetensorsFile> open(const std::string &path);

  /// Tensors by name.
  const std::map<std::string, TensorEntry> &tensors() const { return entries; }
  /// Reads the bytes [offset, offset + count) of the tensor, little-endian, row-major. Failed,
  /// naming the file, when it has become shorter.
  Status read(const TensorEntry &entry, uint64_t offset, void *data, uint64_t count) const {
    const uint64_t from = dataStart + entry.begin + offset;
    file.willNeed(from + count, count); // comes from the disk while this is made use of
    return file.read(from, data, count);
  }
  /// Where the tensor's bytes begin in the file that `input` is.
  uint64_t beginOf(const TensorEntry &entry) const { return dataStart + entry.begin; }
  const InputFile &input() const { return file; }
  /// What the tensors are.
  TensorTable table() const;
  const std::string &path() const { return file.path(); }
  /// Bytes of the whole file.
  uint64_t size() const { return file.size(); }
  /// XXH3 (64 bits) of the whole file, read piece by piece. Failed as `read` is.
  Result<uint64_t> checksum() const;

private:
  InputFile file;
  uint64_t dataStart = 0;
  std::map<std::string, TensorEntry> entries;
};

/// Compares the tensors that `what` (a file, for the user) holds with those that the plan has.
/// BadInput, one line, that lists what is missing, what is extra, and what has another shape or
/// type.
Status checkTensors(const std::string &what, const TensorTable &found, const TensorTable &wanted);

/// The header, length included, of a file that holds these tensors one after the other; a multiple
/// of eight bytes. Its metadata is that of PyTorch's files, without which `from_pretrained` takes
/// none. Types are those of `safetensorsName`.
std::string safetensorsHeader(const std::vector<std::pair<std::string, TensorInfo>> &ordered);

/// Number of bytes of a state's data.
uint64_t bytesOf(const plan::State &state);

} // namespace nano
