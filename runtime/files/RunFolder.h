// The folder that a run saves into: one live run at a time, and checkpoints of one run.
#pragma once

#include "base/Status.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/Manifest.h"

#include <cstdint>
#include <string>
#include <utility>

namespace nano {

/// What a run is made of; what stands here decides every number of it, up to the rounding that the
/// number of ranks and the machine bring.
struct RunOrigin {
  std::string planHash;
  std::string shards; ///< fingerprint of the training shards; empty without any
  uint64_t seed = 0;
  std::string init; ///< hash of the file of initial parameters; empty without one
};

/// The identity of a run: that of its checkpoint where it goes on with the same plan and shards;
/// with others a new one, which remembers whose checkpoints up to which step it goes on from.
/// `resumed`: the checkpoint's manifest, or null.
RunIdentity identityOf(const RunOrigin &origin, const Manifest *resumed);

/// A folder while a run saves there. The kernel keeps the lock, and drops it when the process ends,
/// however it does.
class RunFolder {
public:
  /// Creates the folder where missing and locks it: flock() on the file `.lock` there, which says
  /// who holds it and goes with the object. BadInput: the folder cannot be written, or a process,
  /// which the message names, saves a run there. `report` hears where the file system has no locks.
  static Result<RunFolder> claim(const std::string &directory, const Report &report);

  RunFolder(RunFolder &&other) noexcept
      : directory(std::move(other.directory)), descriptor(std::exchange(other.descriptor, -1)) {}
  RunFolder &operator=(RunFolder &&other) noexcept {
    std::swap(directory, other.directory);
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~RunFolder();

  /// Makes sure that `run`, which begins after `firstStep`, finds no checkpoints there but those
  /// that it goes on from or would make again. BadInput, naming the others, unless `setAside`: then
  /// they are moved into a new folder `set-aside-N` there. `report` hears of what is moved, and of
  /// what is made again.
  Status admit(const RunIdentity &run, int64_t firstStep, bool setAside, const Report &report);

private:
  RunFolder(std::string directory, int descriptor)
      : directory(std::move(directory)), descriptor(descriptor) {}

  std::string directory;
  int descriptor = -1;
};

} // namespace nano
