// Files written with their checksum, and directories: a crash or a full disk at any moment leaves
// what was there before.
#pragma once

#include "base/OutputFile.h"
#include "base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace nano {

/// A file written from front to back, which knows its size and checksum.
class FileWriter {
public:
  /// Creates or empties the file at `path`; messages call it `name`. Removes nothing when it is
  /// dropped unfinished. BadInput when the place cannot be written.
  static Result<FileWriter> create(const std::string &path, const std::string &name);
  /// What takes the place of `path` when it is finished, as OutputFile::replace says.
  static Result<FileWriter> replace(const std::string &path);

  FileWriter(FileWriter &&) noexcept;
  FileWriter &operator=(FileWriter &&) noexcept;
  ~FileWriter();

  /// Appends `count` bytes. Errors as `writeError`.
  Status append(const void *data, uint64_t count);
  Status append(std::string_view text) { return append(text.data(), text.size()); }
  /// Brings everything to the disk and to its place, and closes the file.
  Status finish();

  /// Whether it is a device or a pipe, as OutputFile says.
  bool isStream() const;
  uint64_t size() const;
  /// XXH3 (64 bits) of everything appended so far.
  uint64_t checksum() const;

private:
  struct State;
  explicit FileWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// A file that appears at its path whole or not at all. Written beside the path; dropped without
/// `publish`, it leaves nothing. A link's file is replaced, not the link; a device or a pipe is
/// written to as it is.
class AtomicFile {
public:
  /// BadInput when the directory of `path` cannot be written, or `path` is a directory or another
  /// thing that nothing can be written to.
  static Result<AtomicFile> create(const std::string &path);

  FileWriter &writer() { return file; }
  /// Fsyncs, renames over the path, fsyncs the directory.
  Status publish() { return file.finish(); }

private:
  explicit AtomicFile(FileWriter file) : file(std::move(file)) {}
  FileWriter file;
};

/// Creates the directory and its parents where missing, and fsyncs what it created. BadInput when
/// that fails.
Status makeDirectories(const std::string &path);
/// Creates the directory where missing and makes sure that files can be created in it. BadInput
/// when not.
Status makeWritableDirectory(const std::string &path);
/// Removes a file or a directory with all its content; says nothing when it cannot.
void removeTree(const std::string &path);

} // namespace nano
