// Reading files that people name, whoever reads them: opened without waiting, regular or refused,
// no larger than their kind, and never mapped, so that a file that is cut off while it is read is
// an error like any other.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>

namespace nano {

/// What a file is read as: how many bytes it may have, and what its reader wants instead of
/// something else.
struct InputKind {
  const char *name;   ///< with its article: "a plan"
  uint64_t maxBytes;  ///< far more than any that is good, and no more than memory holds
  const char *advice; ///< what a message ends with: "pass a file that …"; may be empty
};

namespace input {
inline constexpr uint64_t mebibyte = uint64_t(1) << 20;
inline constexpr InputKind plan = {"a plan", 2048 * mebibyte,
                                   "pass a file that `nanoc compile` wrote"};
inline constexpr InputKind model = {"a model file", 16 * mebibyte, "name a model file"};
inline constexpr InputKind machine = {"a machine's file", mebibyte,
                                      "name a JSON file of rates, or a machine that is known"};
inline constexpr InputKind times = {"a file of times", 256 * mebibyte,
                                    "nanorun --times writes one"};
inline constexpr InputKind scales = {"a file of FP8 scales", 16 * mebibyte,
                                     "nanorun --calibrate writes one"};
inline constexpr InputKind numbers = {"a file of numbers", 2048 * mebibyte,
                                      "write one with numpy.save"};
inline constexpr InputKind manifest = {"a manifest", 64 * mebibyte, ""};
/// Parts of it are read at a time; the format's own limits hold.
inline constexpr InputKind tensors = {"a safetensors file", UINT64_MAX, "name a safetensors file"};
/// Likewise.
inline constexpr InputKind shard = {"a token shard", UINT64_MAX, "name token shards only"};
inline constexpr InputKind prompt = {"a prompt", 64 * mebibyte, "name a file of token ids"};
inline constexpr InputKind tuning = {"a tuning file", 64 * mebibyte, "nanorun --tune writes one"};
inline constexpr InputKind cacheEntry = {"an entry of the kernel cache", 1024 * mebibyte,
                                         "remove it"};
/// Of a run that a program has begun itself.
inline constexpr InputKind log = {"a log", 64 * mebibyte, ""};
/// A file of the kernel's, as in /proc.
inline constexpr InputKind system = {"a file of the system", mebibyte, ""};
} // namespace input

/// "a FIFO", "a directory", …: what a file of that mode (`stat`) is.
const char *nameOfType(mode_t mode);

/// A regular file, open for reading; its parts may be read from several threads at once. Move-only.
class InputFile {
public:
  /// BadInput, one line that begins with `path`, when it cannot be opened, is no regular file, or
  /// is larger than its kind. Waits for nothing: not for a FIFO's writer, not for a device.
  static Result<InputFile> open(const std::string &path, const InputKind &kind);

  InputFile() = default;
  InputFile(InputFile &&other) noexcept { *this = std::move(other); }
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  const std::string &path() const { return name; }
  /// Bytes that the file had when it was opened.
  uint64_t size() const { return bytes; }
  /// Reads the bytes [offset, offset + count), which the file had when it was opened. Failed, with
  /// the path, when it has become shorter or cannot be read.
  Status read(uint64_t offset, void *data, uint64_t count) const;
  /// Asks for these bytes to be read from the disk soon; a hint, so failures do not matter.
  void willNeed(uint64_t offset, uint64_t count) const;
  /// Everything up to the end, also of a file whose size is not known before (in /proc), or that
  /// grows. BadInput when that is more than its kind allows, or it cannot be read.
  Result<std::string> all() const;

private:
  int descriptor = -1;
  uint64_t bytes = 0;
  std::string name;
  const InputKind *kind = nullptr;
};

/// The whole content of a file; errors as those of InputFile.
Result<std::string> readInput(const std::string &path, const InputKind &kind);

} // namespace nano
