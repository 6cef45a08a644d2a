// SIGINT and SIGTERM as a flag: the first asks for a tidy end, the second ends the process at once.
#pragma once

namespace nano {

/// While it lives, the first SIGINT or SIGTERM only sets the flag, and a second one of the same
/// kind ends the process. Also ignores SIGXFSZ, so that a file size limit shows as a failed write.
/// Puts back what was there before. At most one at a time.
class InterruptGuard {
public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  /// The signal that came, or 0. Safe from any thread.
  static int signal();
  /// "SIGINT" or "SIGTERM".
  static const char *signalName();
};

} // namespace nano
