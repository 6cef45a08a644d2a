// Files read by open, fstat and pread.
#include "base/InputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nano {

namespace {

Error refused(const std::string &path, const std::string &what, const InputKind &kind) {
  return badInput(path + ": " + what + (*kind.advice ? "; " : "") + kind.advice);
}

Error tooLarge(const std::string &path, const std::string &found, const InputKind &kind) {
  return refused(path,
                 "has " + found + " bytes, and " + kind.name + " at most " +
                     std::to_string(kind.maxBytes),
                 kind);
}

/// Reads up to `count` bytes at `offset`, as many as there are; −1 with errno.
ssize_t readSome(int descriptor, void *data, size_t count, uint64_t offset) {
  while (true) {
    const ssize_t got = ::pread(descriptor, data, count, off_t(offset));
    if (got >= 0 || errno != EINTR)
      return got;
  }
}

} // namespace

const char *nameOfType(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFREG:
    return "a regular file";
  case S_IFDIR:
    return "a directory";
  case S_IFIFO:
    return "a FIFO";
  case S_IFSOCK:
    return "a socket";
  case S_IFCHR:
    return "a character device";
  case S_IFBLK:
    return "a block device";
  default:
    return "of an unknown type";
  }
}

Result<InputFile> InputFile::open(const std::string &path, const InputKind &kind) {
  // The type is asked for before and after: opening a device may already do something to it, and
  // what has the path may change in between.
  InputFile file;
  file.name = path;
  file.kind = &kind;
  struct stat info = {};
  auto isThere = [&](bool is) -> Status {
    if (!is)
      return refused(path, std::string("cannot be read: ") + std::strerror(errno), kind);
    if (!S_ISREG(info.st_mode))
      return refused(path, std::string("is not a regular file but ") + nameOfType(info.st_mode),
                     kind);
    return ok();
  };
  if (Status status = isThere(::stat(path.c_str(), &info) == 0); !status)
    return status.error();
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (Status status = isThere(file.descriptor >= 0 && ::fstat(file.descriptor, &info) == 0);
      !status)
    return status.error();
  file.bytes = uint64_t(info.st_size);
  if (file.bytes > kind.maxBytes)
    return tooLarge(path, std::to_string(file.bytes), kind);
  return file;
}

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(bytes, other.bytes);
  std::swap(name, other.name);
  std::swap(kind, other.kind);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status InputFile::read(uint64_t offset, void *data, uint64_t count) const {
  char *next = static_cast<char *>(data);
  while (count > 0) {
    const ssize_t got = readSome(descriptor, next, size_t(count), offset);
    if (got < 0)
      return failed(name + ": cannot be read at byte " + std::to_string(offset) + ": " +
                    std::strerror(errno));
    if (got == 0) {
      struct stat now = {};
      ::fstat(descriptor, &now);
      return failed(name + ": ends after " + std::to_string(now.st_size) + " bytes and had " +
                    std::to_string(bytes) +
                    " when it was opened: it was truncated while it was in use; put it back and "
                    "start again");
    }
    next += got;
    offset += uint64_t(got);
    count -= uint64_t(got);
  }
  return ok();
}

void InputFile::willNeed(uint64_t offset, uint64_t count) const {
  ::posix_fadvise(descriptor, off_t(offset), off_t(count), POSIX_FADV_WILLNEED);
}

Result<std::string> InputFile::all() const {
  std::string content(size_t(bytes) + 1, '\0'); // room to see the end
  size_t filled = 0;
  while (true) {
    if (filled == content.size())
      content.resize(std::max<size_t>(filled + filled / 8, 4096));
    const ssize_t got =
        readSome(descriptor, content.data() + filled, content.size() - filled, filled);
    if (got < 0)
      return refused(name, std::string("cannot be read: ") + std::strerror(errno), *kind);
    filled += size_t(got);
    if (filled > kind->maxBytes)
      return tooLarge(name, "more than " + std::to_string(kind->maxBytes), *kind);
    if (got == 0)
      break;
  }
  content.resize(filled);
  return content;
}

Result<std::string> readInput(const std::string &path, const InputKind &kind) {
  Result<InputFile> file = InputFile::open(path, kind);
  return file ? file->all() : Result<std::string>(file.error());
}

} // namespace nano
