// SIGINT and SIGTERM as a flag.
#include "runtime/Interrupt.h"

#include <atomic>
#include <csignal>

namespace nano {

namespace {

std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "the handler may only use lock-free atomics");

struct sigaction beforeInterrupt, beforeTerminate, beforeFileSize;

void onSignal(int number) { received.store(number); }

} // namespace

InterruptGuard::InterruptGuard() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = onSignal;
  // The default action comes back with the first signal, so that a second one ends the process.
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  ::sigaction(SIGINT, &action, &beforeInterrupt);
  ::sigaction(SIGTERM, &action, &beforeTerminate);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &ignore, &beforeFileSize);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &beforeInterrupt, nullptr);
  ::sigaction(SIGTERM, &beforeTerminate, nullptr);
  ::sigaction(SIGXFSZ, &beforeFileSize, nullptr);
}

int InterruptGuard::signal() { return received; }

const char *InterruptGuard::signalName() { return received == SIGTERM ? "SIGTERM" : "SIGINT"; }

} // namespace nano
