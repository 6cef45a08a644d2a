// A file seen as read-only memory, through mmap and madvise.
#include "runtime/files/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace nano {

Result<MappedFile> MappedFile::open(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return badInput(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return badInput(fmt::format("{}: is not a regular file", path));
  }
  MappedFile file;
  file.name = path;
  file.size = uint64_t(info.st_size);
  if (file.size > 0) {
    void *mapped = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) {
      int error = errno;
      ::close(descriptor);
      return badInput(fmt::format("{}: cannot be mapped: {}", path, std::strerror(error)));
    }
    file.data = static_cast<const std::byte *>(mapped);
  }
  ::close(descriptor);
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : data(std::exchange(other.data, nullptr)), size(std::exchange(other.size, 0)),
      name(std::move(other.name)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data, other.data);
  std::swap(size, other.size);
  std::swap(name, other.name);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(const_cast<std::byte *>(data), size);
}

void MappedFile::willNeed(uint64_t offset, uint64_t count) const {
  if (offset >= size || count == 0)
    return;
  uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
  uint64_t begin = offset / page * page;
  uint64_t end = count > size - offset ? size : offset + count;
  ::madvise(const_cast<std::byte *>(data) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::release(uint64_t offset, uint64_t count) const {
  if (offset >= size || count == 0)
    return;
  uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
  uint64_t begin = offset / page * page;
  uint64_t end = count > size - offset ? size : offset + count;
  end = end / page * page;
  if (begin < end)
    ::madvise(const_cast<std::byte *>(data) + begin, end - begin, MADV_DONTNEED);
}

} // namespace nano
