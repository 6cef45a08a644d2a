// Signal handlers that write a prepared line.
#include "compiler/CrashMessage.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace nano {

namespace {
/// A signal handler may only write bytes that are there already.
char line[200];
size_t length = 0;
/// A stack that is left when the other one has overflowed.
char spareStack[64 * 1024];

void report(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length);
  _exit(1);
}
} // namespace

void setCrashPhase(const std::string &phase) {
  const std::string text = fmt::format(
      "nanoc: crashed in {}; --dump-ir DIR keeps the program after every pass before it\n", phase);
  length = std::min(text.size(), sizeof line);
  std::memcpy(line, text.data(), length);
}

void catchCrashes() {
  setCrashPhase("its start");
  stack_t stack{};
  stack.ss_sp = spareStack;
  stack.ss_size = sizeof spareStack;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = report;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    sigaction(signal, &action, nullptr);
}

} // namespace nano
