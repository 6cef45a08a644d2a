// posix_spawn, with the environment that launchers make left out where that is asked for.
#include "tools/nanorun/Child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace nano {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::string pattern = (fs::temp_directory_path(error) / "nanorun-XXXXXX").string();
  if (!error && ::mkdtemp(pattern.data()))
    path = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path.empty())
    fs::remove_all(path, ignored);
}

/// True for a variable by which mpirun, Slurm or torchrun tell a process which rank it is.
static bool isOfLaunch(std::string_view variable) {
  constexpr std::array<std::string_view, 12> names = {
      "OMPI_", "PMI_",        "PMIX_",       "PRTE_",   "MPI_",         "SLURM_",
      "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_", "TORCHELASTIC", "LOCAL_WORLD_SIZE="};
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return variable.starts_with(name); });
}

Result<int> statusOf(std::vector<std::string> command, const ChildOptions &options) {
  std::vector<char *> words, variables;
  for (std::string &word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  for (char **variable = environ; *variable; ++variable)
    if (options.keepsLaunch || !isOfLaunch(*variable))
      variables.push_back(*variable);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  for (auto [number, path] :
       {std::pair(STDOUT_FILENO, &options.output), std::pair(STDERR_FILENO, &options.errors)})
    if (!path->empty())
      ::posix_spawn_file_actions_addopen(&files, number, path->c_str(),
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  std::fflush(stdout);
  const int error =
      ::posix_spawn(&child, words[0], &files, nullptr, words.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&files);
  if (error)
    return failed(fmt::format("{} cannot be started: {}", words[0], std::strerror(error)));
  int status = 0;
  const auto end = std::chrono::steady_clock::now() + options.most;
  for (bool waits = options.most.count() == 0;;) {
    const pid_t found = ::waitpid(child, &status, waits ? 0 : WNOHANG);
    if (found == child || (found < 0 && errno != EINTR))
      break;
    if (waits)
      continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      waits = true;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace nano
