// One line instead of silence when the compiler, or a model's body, crashes.
#pragma once

#include <string>

namespace nano {

/// From now on a crash prints one line that says in which phase it happened, and ends the process
/// with exit status 1; so does an allocation of LLVM's that fails, as `sayNoMemory`.
void catchCrashes();

/// The line for whoever catches std::bad_alloc, written without allocating.
void sayNoMemory();

/// What the line says after "crashed in ": "stage fuse; …", with what to do.
void setCrashPhase(const std::string &phase);

/// Code that is not the compiler's own runs while it lives; then the phase before goes on.
class ForeignCode {
public:
  explicit ForeignCode(const std::string &phase);
  ~ForeignCode();
  ForeignCode(const ForeignCode &) = delete;
  ForeignCode &operator=(const ForeignCode &) = delete;

private:
  std::string before;
};

} // namespace nano
