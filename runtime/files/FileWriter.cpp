// Writing files durably: write, fsync, rename, fsync the directory.
#include "runtime/files/FileWriter.h"

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

Error writeError(const std::string &path, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return badInput(fmt::format("{}: cannot be written: {}; make room or save elsewhere", path,
                                std::strerror(error)));
  return failed(fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

struct FileWriter::State {
  std::string path;
  std::string name; ///< what messages call it
  int descriptor = -1;
  uint64_t size = 0;
  XXH3_state_t *hash = XXH3_createState();

  ~State() {
    if (descriptor >= 0)
      ::close(descriptor);
    XXH3_freeState(hash);
  }
};

FileWriter::FileWriter(std::unique_ptr<State> state) : state(std::move(state)) {}
FileWriter::FileWriter(FileWriter &&) noexcept = default;
FileWriter &FileWriter::operator=(FileWriter &&) noexcept = default;
FileWriter::~FileWriter() = default;

Result<FileWriter> FileWriter::create(const std::string &path, const std::string &name) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->name = name;
  state->descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (state->descriptor < 0)
    return badInput(fmt::format("{}: cannot be created: {}", name, std::strerror(errno)));
  XXH3_64bits_reset(state->hash);
  return FileWriter(std::move(state));
}

Status FileWriter::append(const void *data, uint64_t count) {
  XXH3_64bits_update(state->hash, data, count);
  state->size += count;
  const char *next = static_cast<const char *>(data);
  while (count > 0) {
    ssize_t written = ::write(state->descriptor, next, count);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return writeError(state->name, errno);
    next += written;
    count -= uint64_t(written);
  }
  return ok();
}

Status FileWriter::finish() {
  if (::fsync(state->descriptor) != 0)
    return writeError(state->name, errno);
  int descriptor = state->descriptor;
  state->descriptor = -1;
  if (::close(descriptor) != 0)
    return writeError(state->name, errno);
  return ok();
}

const std::string &FileWriter::path() const { return state->path; }
uint64_t FileWriter::size() const { return state->size; }
uint64_t FileWriter::checksum() const { return XXH3_64bits_digest(state->hash); }

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return badInput(fmt::format("{}: is a directory; give the name of a file", path));
  Result<FileWriter> file = FileWriter::create(fmt::format("{}.tmp-{}", path, ::getpid()), path);
  if (!file)
    return file.error();
  return AtomicFile(std::move(*file), path);
}

AtomicFile::~AtomicFile() {
  if (!path.empty())
    ::unlink(file.path().c_str());
}

Status AtomicFile::publish() {
  if (Status status = file.finish(); !status)
    return status;
  if (::rename(file.path().c_str(), path.c_str()) != 0)
    return writeError(path, errno);
  std::string published = std::move(path);
  path.clear();
  return syncDirectory(directoryOf(published));
}

std::string directoryOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
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
  std::string probe = fmt::format("{}/.probe-{}", path, ::getpid());
  int descriptor = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return badInput(
        fmt::format("{}: no file can be created there: {}", path, std::strerror(errno)));
  ::close(descriptor);
  ::unlink(probe.c_str());
  return ok();
}

Status syncDirectory(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return failed(fmt::format("{}: directory cannot be opened: {}", path, std::strerror(errno)));
  int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // File systems that cannot sync a directory say EINVAL; there is nothing more to be done on them.
  if (error != 0 && error != EINVAL)
    return writeError(path, error);
  return ok();
}

void removeTree(const std::string &path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

Result<std::string> readFile(const std::string &path, uint64_t limit) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return badInput(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  std::string content;
  char block[65536];
  int error = 0;
  while (true) {
    ssize_t count = ::read(descriptor, block, sizeof block);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      error = errno;
    if (count <= 0 || content.size() + uint64_t(count) > limit) {
      if (count > 0)
        error = EFBIG;
      break;
    }
    content.append(block, uint64_t(count));
  }
  ::close(descriptor);
  if (error != 0)
    return badInput(fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
  return content;
}

} // namespace nano
