// Locks the folder of a run's checkpoints, and looks whose they are.
#include "runtime/files/RunFolder.h"

#include "runtime/files/FileWriter.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

namespace {

constexpr const char *lockName = ".lock";

std::string hashOf(const std::string &text) {
  return hexText(XXH3_64bits(text.data(), text.size()));
}

/// "process 12 on gpu03"
std::string thisProcess() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0)
    std::strcpy(host, "?");
  return fmt::format("process {} on {}", ::getpid(), host);
}

/// Who holds the lock, as it has written into the file.
std::string holderOf(int descriptor) {
  // It writes its name right after it has the lock.
  for (int attempt = 0; attempt < 20; ++attempt) {
    char text[320] = "";
    const ssize_t count = ::pread(descriptor, text, sizeof text - 1, 0);
    std::string holder(text, size_t(std::max<ssize_t>(count, 0)));
    holder.erase(std::min(holder.find('\n'), holder.size()));
    if (!holder.empty())
      return holder;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "another process";
}

/// Whether the file stands at the path: who held the lock may have removed it since it was opened.
bool standsAt(int descriptor, const std::string &path) {
  struct stat own = {}, found = {};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &found) == 0 &&
         own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

/// "step-000100", "step-000100 to step-000500 (9 checkpoints)"
std::string rangeText(const std::vector<FoundCheckpoint> &found) {
  if (found.size() == 1)
    return checkpointName(found[0].manifest.step);
  auto [first, last] = std::minmax_element(found.begin(), found.end(),
                                           [](const FoundCheckpoint &a, const FoundCheckpoint &b) {
                                             return a.manifest.step < b.manifest.step;
                                           });
  return fmt::format("{} to {} ({} checkpoints)", checkpointName(first->manifest.step),
                     checkpointName(last->manifest.step), found.size());
}

/// Moves checkpoints into a new folder below `directory`; returns its path.
Result<std::string> moveAside(const std::string &directory,
                              const std::vector<FoundCheckpoint> &found) {
  std::string folder;
  for (int number = 1;; ++number) {
    folder = fmt::format("{}/set-aside-{}", directory, number);
    if (::mkdir(folder.c_str(), 0777) == 0)
      break;
    if (errno != EEXIST)
      return badInput(fmt::format("{}: cannot be created: {}", folder, std::strerror(errno)));
  }
  for (const FoundCheckpoint &each : found) {
    const std::string target =
        fmt::format("{}/{}", folder, std::filesystem::path(each.path).filename().string());
    if (::rename(each.path.c_str(), target.c_str()) != 0)
      return failed(
          fmt::format("{}: cannot be moved to {}: {}", each.path, target, std::strerror(errno)));
  }
  for (const std::string &changed : {folder, directory})
    if (Status status = syncDirectory(changed); !status)
      return status.error();
  return folder;
}

} // namespace

RunIdentity identityOf(const RunOrigin &origin, const Manifest *resumed) {
  RunIdentity run;
  run.settings = hashOf(fmt::format("{}/{}", origin.planHash, origin.shards));
  if (!resumed) {
    run.id = hashOf(fmt::format("{}/{}/{}", run.settings, origin.seed, origin.init));
    return run;
  }
  if (resumed->run.settings == run.settings)
    return resumed->run;
  run.id = hashOf(fmt::format("{}/{}/{}", run.settings, resumed->run.id, resumed->step));
  run.from = resumed->run.from;
  run.from.emplace_back(resumed->run.id, resumed->step);
  return run;
}

Result<RunFolder> RunFolder::claim(const std::string &directory, const Report &report) {
  if (Status status = makeWritableDirectory(directory); !status)
    return status.error();
  const std::string path = fmt::format("{}/{}", directory, lockName);
  while (true) {
    int descriptor =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (descriptor < 0)
      return badInput(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
    RunFolder folder(directory, descriptor);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EINTR)
        continue;
      if (error == EWOULDBLOCK) {
        const std::string holder = holderOf(descriptor);
        ::close(std::exchange(folder.descriptor, -1));
        return badInput(fmt::format("{}: {} saves a run there; wait until it has ended, or save "
                                    "to another directory",
                                    directory, holder));
      }
      report(fmt::format("{}: its file system has no locks ({}); nothing keeps another run from "
                         "saving there",
                         directory, std::strerror(error)));
      return folder;
    }
    if (!standsAt(descriptor, path)) {
      ::close(std::exchange(folder.descriptor, -1)); // not the file that others see
      continue;
    }
    const std::string text = thisProcess() + "\n";
    if (::ftruncate(descriptor, 0) != 0 ||
        ::pwrite(descriptor, text.data(), text.size(), 0) != ssize_t(text.size()))
      report(fmt::format("{}: cannot say who holds it ({}); it locks all the same", path,
                         std::strerror(errno)));
    return folder;
  }
}

RunFolder::~RunFolder() {
  if (descriptor < 0)
    return;
  const std::string path = fmt::format("{}/{}", directory, lockName);
  if (standsAt(descriptor, path))
    ::unlink(path.c_str());
  ::close(descriptor);
}

Status RunFolder::admit(const RunIdentity &run, int64_t firstStep, bool setAside,
                        const Report &report) {
  std::vector<FoundCheckpoint> foreign, again;
  for (FoundCheckpoint &each : checkpointsIn(directory)) {
    if (!run.owns(each.manifest))
      foreign.push_back(std::move(each));
    else if (each.manifest.step > firstStep)
      again.push_back(std::move(each));
  }
  if (!again.empty())
    report(fmt::format("{} holds {} of this very run, from the same start on the same shards; what "
                       "is made again takes their places",
                       directory, rangeText(again)));
  if (foreign.empty())
    return ok();
  const Manifest &other = foreign.front().manifest;
  const std::string what =
      fmt::format("{} of another run ({}, {})", rangeText(foreign), other.model,
                  other.run.id.empty() ? "made before runs had names" : other.run.id);
  if (!setAside)
    return badInput(fmt::format(
        "{}: holds {}; save to another directory, go on with that run by --resume, or move its "
        "checkpoints into a folder of their own there with --set-aside",
        directory, what));
  Result<std::string> folder = moveAside(directory, foreign);
  if (!folder)
    return folder.error();
  report(fmt::format("moved {} to {}", what, *folder));
  return ok();
}

} // namespace nano
