// fork, and a pipe for the result.
#include "compiler/bisect/Child.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nano::bisect {

namespace {

/// In the child: the result's first byte says which of the two it is.
[[noreturn]] void report(int pipe, const Result<std::string> &result) {
  const std::string text = result ? "+" + *result : "-" + result.error().message;
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(pipe, text.data() + done, text.size() - done);
    if (count <= 0 && errno != EINTR)
      break;
    done += count > 0 ? size_t(count) : 0;
  }
  _exit(0);
}

} // namespace

Result<std::string> inChild(const std::function<Result<std::string>()> &work, unsigned seconds) {
  int ends[2];
  if (pipe(ends) != 0)
    return failed(std::string("no pipe can be made: ") + strerror(errno));
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return failed(std::string("no process can be started: ") + strerror(errno));
  }
  if (child == 0) {
    close(ends[0]);
    if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0) {
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
    }
    for (int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM})
      signal(crash, SIG_DFL);
    alarm(seconds);
    report(ends[1], work());
  }
  close(ends[1]);
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(ends[0], buffer, sizeof buffer);
    if (count > 0)
      text.append(buffer, size_t(count));
    else if (count == 0 || errno != EINTR)
      break;
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return failed("it does not end within " + std::to_string(seconds) + " seconds");
  if (WIFSIGNALED(status))
    return failed(std::string("it crashes: ") + strsignal(WTERMSIG(status)));
  if (text.empty())
    return failed("it ends without a result");
  if (text.front() == '-')
    return failed(text.substr(1));
  return text.substr(1);
}

} // namespace nano::bisect
