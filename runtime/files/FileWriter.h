// Writing files so that a crash or a full disk at any moment leaves what was there before: write,
// fsync, rename, fsync the directory.
#pragma once

#include "runtime/plan/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace nano {

/// A new file written from front to back; knows its size and checksum. Removes nothing when it is
/// dropped unfinished.
class FileWriter {
public:
  /// Creates or empties the file at `path`; messages call it `name`. BadInput when the place cannot
  /// be written.
  static Result<FileWriter> create(const std::string &path, const std::string &name);

  FileWriter(FileWriter &&) noexcept;
  FileWriter &operator=(FileWriter &&) noexcept;
  ~FileWriter();

  /// Appends `count` bytes. Errors as `writeError`.
  Status append(const void *data, uint64_t count);
  Status append(std::string_view text) { return append(text.data(), text.size()); }
  /// Brings everything to the disk and closes the file.
  Status finish();

  const std::string &path() const;
  uint64_t size() const;
  /// XXH3 (64 bits) of everything appended so far.
  uint64_t checksum() const;

private:
  struct State;
  explicit FileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// A file that appears at its path whole or not at all. Written beside the path; dropped without
/// `publish`, it leaves nothing.
class AtomicFile {
public:
  /// BadInput when the directory of `path` cannot be written or `path` is a directory.
  static Result<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept
      : file(std::move(other.file)), path(std::exchange(other.path, {})) {}
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  FileWriter &writer() { return file; }
  /// Fsyncs, renames over the path, fsyncs the directory.
  Status publish();

private:
  AtomicFile(FileWriter file, std::string path) : file(std::move(file)), path(std::move(path)) {}
  FileWriter file;
  std::string path; ///< empty once published or moved from
};

/// The error for a write to `path` that failed with `error` (an errno): BadInput where the user
/// must make room (no space, quota, file size limit), else Failed.
Error writeError(const std::string &path, int error);

/// The directory part of a path; "." where it has none.
std::string directoryOf(const std::string &path);
/// Creates the directory and its parents where missing, and fsyncs what it created. BadInput when
/// that fails.
Status makeDirectories(const std::string &path);
/// Creates the directory where missing and makes sure that files can be created in it. BadInput
/// when not.
Status makeWritableDirectory(const std::string &path);
/// Makes entries created in or renamed into the directory durable.
Status syncDirectory(const std::string &path);
/// Removes a file or a directory with all its content; says nothing when it cannot.
void removeTree(const std::string &path);
/// The whole content of a regular file. BadInput, naming it, when it cannot be read or is larger
/// than `limit` bytes.
Result<std::string> readFile(const std::string &path, uint64_t limit);

} // namespace nano
