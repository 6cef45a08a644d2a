// Entries as files: a header with the length and a checksum, then the bytes.
#include "runtime/files/BuildCache.h"

#include "base/Digest.h"
#include "base/InputFile.h"
#include "base/OutputFile.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

namespace nano {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum; ///< XXH3, 64 bits, of the entry's name and the bytes
};
constexpr char magic[8] = {'N', 'A', 'N', 'O', 'B', 'L', 'D', '1'};

/// The name is part of it: an entry that stands under another's name is a damaged one.
uint64_t checksumOf(const std::string &key, std::string_view bytes) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, key.data(), key.size());
  XXH3_64bits_update(&state, bytes.data(), bytes.size());
  return XXH3_64bits_digest(&state);
}

/// Whether nobody but this user can have written it.
bool isOnlyOurs(const struct stat &found) {
  return found.st_uid == ::geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Lines come from several threads that compile.
std::mutex reporting;

} // namespace

BuildCache::BuildCache(std::string folder, std::string ending, Report report, Words words)
    : folder(std::move(folder)), ending(std::move(ending)), report(std::move(report)),
      words(words) {}

std::string BuildCache::defaultFolder() {
  if (const char *given = std::getenv("NANO_CACHE_DIR"))
    return given;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/nano";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/nano";
  return "";
}

std::string BuildCache::keyOf(const std::vector<std::string_view> &parts) {
  return digestOf(parts);
}

bool BuildCache::isOwn() {
  struct stat found = {};
  if (::stat(folder.c_str(), &found) != 0)
    return false;
  if (isOnlyOurs(found))
    return true;
  const bool isOurs = found.st_uid == ::geteuid();
  if (!isForeign.exchange(true))
    say(folder + ": " +
        (isOurs ? fmt::format("other users may write to this folder of {} (chmod 700 ends that)",
                              words.entries)
                : fmt::format("this folder of {} belongs to another user", words.entries)) +
        fmt::format(", so it is not used; {}; set NANO_CACHE_DIR to a folder of your own",
                    words.loss));
  return false;
}

std::optional<std::string> BuildCache::find(const std::string &key) {
  if (folder.empty() || !isOwn())
    return std::nullopt;
  const std::string path = pathOf(key);
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0)
    return std::nullopt;
  // It may be older than the folder's present mode.
  if (::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && !isOnlyOurs(found)) {
    say(fmt::format("{}: this entry of the kernel cache is another user's, or others may write to "
                    "it; {}",
                    path, words.again));
    return std::nullopt;
  }
  const Result<std::string> read = readInput(path, input::cacheEntry);
  if (!read) {
    say(fmt::format("{}; {}", read.error().message, words.again));
    return std::nullopt;
  }
  const std::string &all = *read;
  Header header = {};
  std::memcpy(&header, all.data(), std::min(all.size(), sizeof header));
  std::string bytes = all.size() > sizeof header ? all.substr(sizeof header) : "";
  if (std::memcmp(header.magic, magic, sizeof magic) == 0 && header.bytes == bytes.size() &&
      header.checksum == checksumOf(key, bytes))
    return bytes;
  say(fmt::format("{}: a damaged entry of the kernel cache; {}", path, words.again));
  return std::nullopt;
}

void BuildCache::store(const std::string &key, std::string_view bytes) {
  if (folder.empty() || !canStore)
    return;
  std::error_code ignored;
  fs::create_directories(fs::path(folder).parent_path(), ignored);
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno == EEXIST && !isOwn() && isForeign)
    return;
  Header header = {{}, bytes.size(), checksumOf(key, bytes)};
  std::memcpy(header.magic, magic, sizeof magic);
  Result<OutputFile> file = OutputFile::replace(pathOf(key));
  Status status = file ? ok() : Status(file.error());
  if (status && file->isStream())
    status = badInput(pathOf(key) + ": is not a regular file; remove it");
  if (status)
    status = file->append(&header, sizeof header);
  if (status)
    status = file->append(bytes);
  if (status) // its checksum tells what a crash of the machine has left of it
    status = file->finish(OutputFile::Keep::IfNothingCrashes);
  if (!status && canStore.exchange(false))
    say(fmt::format("{}: {} cannot be kept there ({}); {}; set NANO_CACHE_DIR to a folder that can "
                    "be written",
                    folder, words.entries, status.error().message, words.loss));
}

void BuildCache::say(const std::string &line) {
  std::lock_guard guard(reporting);
  if (report)
    report(line);
}

} // namespace nano
