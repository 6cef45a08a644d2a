// Signal handlers that write a prepared line.
#include "compiler/CrashMessage.h"

#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace nano {

namespace {
/// A signal handler may only write bytes that are there already.
char line[400];
size_t length = 0;
std::string current; ///< the phase in it
/// A stack that is left when the other one has overflowed.
char spareStack[64 * 1024];

constexpr char noMemory[] =
    "nanoc: out of memory; give it more, or compile for fewer numbers of ranks at once\n";

/// LLVM's own allocations do not throw.
void reportNoMemory(void *, const char *, bool) {
  sayNoMemory();
  _exit(1);
}

void report(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length);
  _exit(1);
}
} // namespace

void sayNoMemory() {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, noMemory, sizeof noMemory - 1);
}

void setCrashPhase(const std::string &phase) {
  const std::string text = fmt::format("nanoc: crashed in {}\n", phase);
  length = std::min(text.size(), sizeof line);
  std::memcpy(line, text.data(), length);
  line[length - 1] = '\n';
  current = phase;
}

ForeignCode::ForeignCode(const std::string &phase) : before(current) { setCrashPhase(phase); }
ForeignCode::~ForeignCode() { setCrashPhase(before); }

void catchCrashes() {
  setCrashPhase("its start; a debugger shows where");
  llvm::install_bad_alloc_error_handler(reportNoMemory);
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
