// Ranks that are threads of one process: collectives over shared memory, in a fixed order, that
// fail instead of hanging.
#pragma once

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace nano {

/// A group of `world` ranks in this process. Create it once, give `communicator(r)` to rank r's
/// thread; it must outlive them.
///
/// allReduce: rank r adds up the r-th slice of every rank's data (in rank order, so that the result
/// does not depend on timing) and writes the sums into every rank's data; the work and the memory
/// traffic are shared by all ranks. Failure: after abort(), after a rank calls a different
/// collective than the others, or when a rank does not come within `timeout`, every call returns an
/// Error (Failed) that names the rank and the collective; the group stays failed.
class LocalGroup {
public:
  /// `timeout`: how long a rank waits for the others; it must cover what one rank does alone, such
  /// as writing a checkpoint.
  explicit LocalGroup(int world, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  ~LocalGroup();
  LocalGroup(const LocalGroup &) = delete;
  LocalGroup &operator=(const LocalGroup &) = delete;

  int world() const;
  /// Rank `rank`'s end, owned by the group.
  Communicator &communicator(int rank);
  /// Says that rank `rank` will make no more calls, and why; ranks that wait, or call later, return
  /// an Error that says so. The first failure stands. Safe from any thread.
  void abort(int rank, const std::string &reason);

private:
  struct State;
  class Member;
  std::unique_ptr<State> state;
  std::vector<std::unique_ptr<Member>> members;
};

} // namespace nano
