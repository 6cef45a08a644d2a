// The container of a plan file: header, section table, sections, checksums; and its way to and from
// the disk.
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanJson.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace nano::plan {
namespace {

constexpr char magic[8] = {'N', 'A', 'N', 'O', 'P', 'L', 'A', 'N'};
constexpr const char *sectionNames[] = {"meta", "code", "source"};
constexpr size_t sectionCount = std::size(sectionNames);

/// The file's first bytes. `checksum`: XXH3 (64 bits) of the header before it and of the section
/// table.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t fileBytes;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 32);

/// One row of the section table: a name padded with zeros, the place in the file, XXH3 (64 bits) of
/// the bytes there.
struct Section {
  char name[8];
  uint64_t offset;
  uint64_t bytes;
  uint64_t checksum;
};
static_assert(sizeof(Section) == 32);

constexpr size_t tableEnd = sizeof(Header) + sectionCount * sizeof(Section);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plan files are little-endian");

uint64_t headerChecksum(const Header &header, const Section *table) {
  std::string bytes(reinterpret_cast<const char *>(&header), offsetof(Header, checksum));
  bytes.append(reinterpret_cast<const char *>(table), header.sections * sizeof(Section));
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// "is not what was written", for every kind of damage.
Error damaged(const std::string &name, const std::string &what) {
  return badInput(name + ": damaged plan: " + what +
                  "; copy the file again or recompile the model with nanoc");
}

class Descriptor {
public:
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  explicit operator bool() const { return fd >= 0; }
  int get() const { return fd; }
  /// Closes, and says whether that worked.
  bool close() { return ::close(std::exchange(fd, -1)) == 0; }

private:
  int fd;
};

bool writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    bytes.remove_prefix(size_t(count));
  }
  return true;
}

} // namespace

std::string serialize(const Plan &plan) {
  std::string meta = metadataText(plan);
  const std::string_view contents[sectionCount] = {meta, plan.code, plan.source};
  Section table[sectionCount] = {};
  uint64_t offset = tableEnd;
  for (size_t i = 0; i < sectionCount; ++i) {
    std::memcpy(table[i].name, sectionNames[i], std::strlen(sectionNames[i]));
    table[i].offset = offset;
    table[i].bytes = contents[i].size();
    table[i].checksum = XXH3_64bits(contents[i].data(), contents[i].size());
    offset += contents[i].size();
  }
  Header header = {{}, planVersion, sectionCount, offset, 0};
  std::memcpy(header.magic, magic, sizeof magic);
  header.checksum = headerChecksum(header, table);

  std::string out;
  out.reserve(offset);
  out.append(reinterpret_cast<const char *>(&header), sizeof header);
  out.append(reinterpret_cast<const char *>(table), sizeof table);
  for (std::string_view content : contents)
    out += content;
  return out;
}

Result<Plan> parse(std::string_view bytes, const std::string &name) {
  if (bytes.empty())
    return badInput(name + ": the file is empty; pass a plan that `nanoc compile` wrote");
  if (std::memcmp(bytes.data(), magic, std::min(bytes.size(), sizeof magic)) != 0)
    return badInput(name + ": not a plan; pass a file that `nanoc compile` wrote");
  Header header;
  auto truncated = [&](const std::string &total) {
    return damaged(name, "truncated, " + std::to_string(bytes.size()) + " of " + total + " bytes");
  };
  if (bytes.size() < sizeof header)
    return truncated("at least " + std::to_string(tableEnd));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version > planVersion)
    return badInput(name + ": the plan has format version " + std::to_string(header.version) +
                    ", this program reads up to " + std::to_string(planVersion) +
                    "; update nanorun, or recompile the model with this version's nanoc");
  if (header.version < 1 || header.sections != sectionCount)
    return damaged(name, "the header is inconsistent");
  if (bytes.size() < tableEnd || bytes.size() < header.fileBytes)
    return truncated(std::to_string(std::max<uint64_t>(tableEnd, header.fileBytes)));
  Section table[sectionCount];
  std::memcpy(table, bytes.data() + sizeof header, sizeof table);
  if (header.checksum != headerChecksum(header, table))
    return damaged(name, "checksum mismatch in the header");
  if (bytes.size() > header.fileBytes)
    return damaged(name, std::to_string(bytes.size() - header.fileBytes) +
                             " bytes follow the end of the plan");

  std::string_view contents[sectionCount];
  uint64_t offset = tableEnd;
  for (size_t i = 0; i < sectionCount; ++i) {
    const Section &section = table[i];
    if (std::strncmp(section.name, sectionNames[i], sizeof section.name) != 0 ||
        section.offset != offset || section.bytes > header.fileBytes - offset)
      return damaged(name, "the section table is inconsistent");
    contents[i] = bytes.substr(offset, section.bytes);
    offset += section.bytes;
    if (XXH3_64bits(contents[i].data(), contents[i].size()) != section.checksum)
      return damaged(name, std::string("checksum mismatch in section '") + sectionNames[i] + "'");
  }
  if (offset != header.fileBytes)
    return damaged(name, "the section table is inconsistent");

  auto invalid = [&](const std::string &what) {
    return badInput(name + ": invalid plan: " + what +
                    "; recompile the model with this version's nanoc");
  };
  Plan plan;
  try {
    readMetadata(contents[0], plan);
  } catch (const FieldError &error) {
    return invalid(error.what());
  }
  plan.code = contents[1];
  plan.source = contents[2];
  if (Status status = validate(plan); !status)
    return invalid(status.error().message);
  return plan;
}

Status writePlanFile(const Plan &plan, const std::string &path) {
  if (Status status = validate(plan); !status)
    return badInput(path +
                    ": the plan is not written because it is invalid: " + status.error().message);
  std::string temporary = path + ".tmp" + std::to_string(::getpid());
  auto fail = [&](const char *doing) {
    Error error = badInput(path + ": cannot " + doing + ": " + std::strerror(errno) +
                           "; choose another place for the plan or free space there");
    ::unlink(temporary.c_str());
    return error;
  };
  struct stat existing;
  if (::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode))
    return badInput(path + ": is not a regular file; choose another name for the plan");

  std::string bytes = serialize(plan);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file)
    return fail("create the file");
  if (!writeAll(file.get(), bytes) || ::fsync(file.get()) != 0 || !file.close())
    return fail("write the file");
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return fail("rename the finished file");
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  Descriptor parent(
      ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent || ::fsync(parent.get()) != 0)
    return fail("make the new name durable");
  return ok();
}

Result<Plan> readPlanFile(const std::string &path) {
  auto fail = [&] {
    return badInput(path + ": cannot read the plan: " + std::strerror(errno) +
                    "; pass a file that `nanoc compile` wrote");
  };
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file || ::fstat(file.get(), &status) != 0)
    return fail();
  if (!S_ISREG(status.st_mode))
    return badInput(path + ": not a file; pass a file that `nanoc compile` wrote");
  std::string bytes(size_t(status.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    ssize_t count = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return fail();
    if (count == 0)
      break;
    filled += size_t(count);
  }
  bytes.resize(filled);
  return parse(bytes, path);
}

std::string planHash(const Plan &plan) {
  std::string bytes = serialize(plan);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string hash;
  for (unsigned char byte : canonical.digest) {
    hash += "0123456789abcdef"[byte >> 4];
    hash += "0123456789abcdef"[byte & 15];
  }
  return hash;
}

} // namespace nano::plan
