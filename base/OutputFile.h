// Writing files that people name, whoever writes them. What takes a file's place does so whole or
// not at all, whatever crashes: it is written beside the file, fsynced, renamed over it, and the
// directory is fsynced. Nothing but a regular file is ever replaced: a link stays and the file that
// it leads to is replaced, a device or a pipe is written to as it is.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nano {

/// The error for a write to `path` that failed with `error` (an errno): BadInput where the user
/// must make room (no space, quota, file size limit), else Failed.
Error writeError(const std::string &path, int error);
/// The directory part of a path; "." where it has none.
std::string directoryOf(const std::string &path);
/// Makes entries created in or renamed into the directory durable.
Status syncDirectory(const std::string &path);

/// A file written from front to back. Move-only.
class OutputFile {
public:
  /// What will stand at `path` when it is finished, in place of a regular file or of nothing.
  /// Devices and pipes, and what this process has as its standard output or error, take what is
  /// appended at once (`isStream`). BadInput, one line that begins with `path`: a directory, a
  /// block device, a socket, a FIFO that nobody reads, a place that cannot be written.
  static Result<OutputFile> replace(const std::string &path);
  /// Likewise, but a regular file is written where it stands: emptied at once, or with `append`
  /// kept and written on behind its end. For logs, which others read while they grow.
  static Result<OutputFile> grow(const std::string &path, bool append);
  /// The regular file at `path`, made or emptied, that nobody else knows yet; messages call it
  /// `name`. Durable when it is finished.
  static Result<OutputFile> create(const std::string &path, const std::string &name);

  OutputFile(OutputFile &&other) noexcept { *this = std::move(other); }
  OutputFile &operator=(OutputFile &&other) noexcept;
  /// Of an unfinished replacement, nothing is left.
  ~OutputFile();

  /// Whether it is no regular file, but a device or a pipe.
  bool isStream() const { return stream; }
  /// Appends `count` bytes. Errors as `writeError`; of a pipe whose reader is gone too.
  Status append(const void *data, uint64_t count);
  Status append(std::string_view text) { return append(text.data(), text.size()); }
  /// What a crash of the machine may take away.
  enum class Keep {
    Always,
    IfNothingCrashes, ///< costs no time; for what its readers can check and do without
  };
  /// Brings everything to the disk and to its place, and closes it.
  Status finish(Keep keep = Keep::Always);

private:
  OutputFile() = default;
  Status openStream(const std::string &path, int own);
  /// Zero, or the error number.
  int openFile(const std::string &path, int flags);

  int descriptor = -1;
  bool stream = false, isGrowing = false;
  std::string name;      ///< what messages call it
  std::string target;    ///< where it goes when it is finished; empty: it is there already
  std::string temporary; ///< where it is until then
};

} // namespace nano
