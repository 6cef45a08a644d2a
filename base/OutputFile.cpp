// Files written by open, write, fsync and rename.
#include "base/OutputFile.h"

#include "base/Digest.h"
#include "base/InputFile.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace nano {

namespace {

/// What stands where a path leads.
struct Place {
  std::string path; ///< with its links followed; of a regular file or of nothing
  mode_t mode = 0;  ///< 0: there is nothing yet
  int own = -1;     ///< 1 or 2: it is this process's standard output or error, and no terminal
};

bool isSame(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// The standard output or error, where that is what was found; else −1. A second way into the same
/// file would write over what the first one writes. Devices can be opened as often as one likes.
int ownDescriptor(const struct stat &found) {
  struct stat own = {};
  for (int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    if (!S_ISCHR(found.st_mode) && ::fstat(descriptor, &own) == 0 && isSame(own, found))
      return descriptor;
  return -1;
}

Error cannotCreate(const std::string &path, int error) {
  return badInput(path + ": cannot be created: " + std::strerror(error));
}

/// Follows links that lead to nothing: what they name can be made.
Result<std::string> endOfLinks(std::string path) {
  const std::string given = path;
  for (int links = 0; links < 40; ++links) {
    char text[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), text, sizeof text);
    if (length < 0)
      return path;
    const std::string next(text, size_t(length));
    path = next[0] == '/' ? next : directoryOf(path) + "/" + next;
  }
  return cannotCreate(given, ELOOP);
}

Result<Place> placeOf(const std::string &path, int attempts = 100) {
  auto refuse = [&](const std::string &what) { return badInput(path + ": " + what); };
  Place place;
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno != ENOENT)
      return cannotCreate(path, errno);
    Result<std::string> end = endOfLinks(path);
    if (!end)
      return end.error();
    place.path = std::move(*end);
    return place;
  }
  place.mode = found.st_mode;
  place.own = ownDescriptor(found);
  if (S_ISDIR(found.st_mode))
    return refuse("is a directory; give the name of a file");
  if (place.own < 0 && (S_ISBLK(found.st_mode) || S_ISSOCK(found.st_mode)))
    return refuse(std::string("is ") + nameOfType(found.st_mode) + "; give the name of a file");
  if (!S_ISREG(found.st_mode))
    return place;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         std::free);
  struct stat there = {};
  if (!real || ::stat(real.get(), &there) != 0 || !isSame(there, found)) {
    // Another process may have put a file of its own there meanwhile, and again, with the number of
    // one that is gone. An open file that was removed has a path in /proc, and no other.
    if (attempts > 1)
      return placeOf(path, attempts - 1);
    return refuse("leads to a file without a name; give the name of a file");
  }
  place.path = real.get();
  return place;
}

/// write(2), with a pipe whose reader is gone as an error and not as a signal, which would end the
/// process without a word.
ssize_t writeQuietly(int descriptor, const void *data, size_t count) {
  sigset_t pipes, before, pending;
  ::sigemptyset(&pipes);
  ::sigaddset(&pipes, SIGPIPE);
  ::sigpending(&pending);
  const bool wasPending = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipes, &before);
  const ssize_t written = ::write(descriptor, data, count);
  const int error = errno;
  const timespec now = {};
  if (written < 0 && error == EPIPE && !wasPending)
    ::sigtimedwait(&pipes, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

} // namespace

Error writeError(const std::string &path, int error) {
  const std::string what = path + ": cannot be written: " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return badInput(what + "; make room or save elsewhere");
  return failed(what);
}

std::string directoryOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Status syncDirectory(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return failed(path + ": directory cannot be opened: " + std::strerror(errno));
  int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // File systems that cannot sync a directory say EINVAL; there is nothing more to be done on them.
  if (error != 0 && error != EINVAL)
    return writeError(path, error);
  return ok();
}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(stream, other.stream);
  std::swap(isGrowing, other.isGrowing);
  std::swap(name, other.name);
  std::swap(target, other.target);
  std::swap(temporary, other.temporary);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Status OutputFile::openStream(const std::string &path, int own) {
  stream = true;
  struct stat found = {};
  if (own >= 0) {
    descriptor = ::fcntl(own, F_DUPFD_CLOEXEC, 0);
    return descriptor >= 0 ? ok() : Status(writeError(name, errno));
  }
  descriptor = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENXIO)
    return badInput(name + ": is a FIFO that nobody reads; start its reader first, or give the "
                           "name of a file");
  if (descriptor < 0)
    return badInput(name + ": cannot be opened for writing: " + std::strerror(errno));
  if (::fstat(descriptor, &found) != 0 || !(S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode)))
    return failed(name + ": was exchanged for something else while it was opened");
  // From here on a reader may take its time.
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  return ok();
}

int OutputFile::openFile(const std::string &path, int flags) {
  descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
  return descriptor >= 0 ? 0 : errno;
}

Result<OutputFile> OutputFile::replace(const std::string &path) {
  Result<Place> place = placeOf(path);
  if (!place)
    return place.error();
  OutputFile file;
  file.name = path;
  if (place->own >= 0 || (place->mode != 0 && !S_ISREG(place->mode))) {
    if (Status status = file.openStream(path, place->own); !status)
      return status.error();
    return file;
  }
  // A new name, so that nothing that stands there is followed or emptied.
  for (int attempt = 0;; ++attempt) {
    std::string beside = place->path + ".tmp-" + randomDigits();
    const int error = file.openFile(beside, O_EXCL | O_NOFOLLOW);
    if (error == EEXIST && attempt < 100)
      continue;
    if (error != 0)
      return cannotCreate(path, error);
    file.temporary = std::move(beside);
    file.target = std::move(place->path);
    return file;
  }
}

Result<OutputFile> OutputFile::grow(const std::string &path, bool append) {
  Result<Place> place = placeOf(path);
  if (!place)
    return place.error();
  OutputFile file;
  file.name = path;
  file.isGrowing = true;
  if (place->own >= 0 || (place->mode != 0 && !S_ISREG(place->mode))) {
    if (Status status = file.openStream(path, place->own); !status)
      return status.error();
    return file;
  }
  if (const int error = file.openFile(place->path, O_APPEND | O_NOFOLLOW))
    return cannotCreate(path, error);
  struct stat found = {};
  if (::fstat(file.descriptor, &found) != 0 || !S_ISREG(found.st_mode))
    return failed(path + ": was exchanged for something else while it was opened");
  if (!append && ::ftruncate(file.descriptor, 0) != 0)
    return writeError(path, errno);
  return file;
}

Result<OutputFile> OutputFile::create(const std::string &path, const std::string &name) {
  OutputFile file;
  file.name = name;
  if (const int error = file.openFile(path, O_TRUNC | O_NOFOLLOW))
    return cannotCreate(name, error);
  return file;
}

Status OutputFile::append(const void *data, uint64_t count) {
  const char *next = static_cast<const char *>(data);
  while (count > 0) {
    const ssize_t written =
        stream ? writeQuietly(descriptor, next, count) : ::write(descriptor, next, count);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0 && errno == EAGAIN) { // whoever shares it has made it so
      pollfd room = {descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    if (written < 0)
      return writeError(name, errno);
    next += written;
    count -= uint64_t(written);
  }
  return ok();
}

Status OutputFile::finish(Keep keep) {
  if (!stream && !isGrowing && keep == Keep::Always && ::fsync(descriptor) != 0)
    return writeError(name, errno);
  if (::close(std::exchange(descriptor, -1)) != 0)
    return writeError(name, errno);
  if (target.empty())
    return ok();
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return writeError(name, errno);
  temporary.clear();
  return keep == Keep::Always ? syncDirectory(directoryOf(target)) : ok();
}

} // namespace nano
