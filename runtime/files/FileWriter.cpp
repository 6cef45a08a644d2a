// Files with their checksum, and directories made durable.
#include "runtime/files/FileWriter.h"

#include "base/Digest.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

struct FileWriter::State {
  explicit State(OutputFile file) : file(std::move(file)) { XXH3_64bits_reset(&hash); }

  OutputFile file;
  uint64_t size = 0;
  XXH3_state_t hash;
};

FileWriter::FileWriter(std::unique_ptr<State> state) : state(std::move(state)) {}
FileWriter::FileWriter(FileWriter &&) noexcept = default;
FileWriter &FileWriter::operator=(FileWriter &&) noexcept = default;
FileWriter::~FileWriter() = default;

Result<FileWriter> FileWriter::create(const std::string &path, const std::string &name) {
  Result<OutputFile> file = OutputFile::create(path, name);
  if (!file)
    return file.error();
  return FileWriter(std::make_unique<State>(std::move(*file)));
}

Result<FileWriter> FileWriter::replace(const std::string &path) {
  Result<OutputFile> file = OutputFile::replace(path);
  if (!file)
    return file.error();
  return FileWriter(std::make_unique<State>(std::move(*file)));
}

Status FileWriter::append(const void *data, uint64_t count) {
  XXH3_64bits_update(&state->hash, data, count);
  state->size += count;
  return state->file.append(data, count);
}

Status FileWriter::finish() { return state->file.finish(); }

bool FileWriter::isStream() const { return state->file.isStream(); }
uint64_t FileWriter::size() const { return state->size; }
uint64_t FileWriter::checksum() const { return XXH3_64bits_digest(&state->hash); }

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  Result<FileWriter> file = FileWriter::replace(path);
  if (!file)
    return file.error();
  return AtomicFile(std::move(*file));
}

Status makeDirectories(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return ok();
  std::string parent = directoryOf(path);
  if (parent != path)
    if (Status status = makeDirectories(parent); !status)
      return status;
  if (::mkdir(path.c_str(), 0777) != 0 &&
      !(errno == EEXIST && std::filesystem::is_directory(path, ignored)))
    return badInput(fmt::format("{}: directory cannot be created: {}", path, std::strerror(errno)));
  return syncDirectory(parent);
}

Status makeWritableDirectory(const std::string &path) {
  if (Status status = makeDirectories(path); !status)
    return status;
  // One without a name, where the file system has such: a kill leaves nothing.
  const int nameless = ::open(path.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (nameless >= 0) {
    ::close(nameless);
    return ok();
  }
  std::string probe = fmt::format("{}/.probe-{}", path, randomDigits());
  int descriptor =
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return badInput(
        fmt::format("{}: no file can be created there: {}", path, std::strerror(errno)));
  ::close(descriptor);
  ::unlink(probe.c_str());
  return ok();
}

void removeTree(const std::string &path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

} // namespace nano
