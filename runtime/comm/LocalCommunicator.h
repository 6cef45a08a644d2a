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
/// allReduce: the member at place p combines the p-th slice of every member's data (in order of
/// place, so that the result does not depend on timing) and writes it into every member's data.
/// reduceScatter: the member combines its part of every member's data. allGather: it copies from
/// every member. So the work and the memory traffic are shared by all. Failure: after abort(),
/// after a rank calls a different collective than the others, or when a rank shows no sign of life
/// for `timeout` while another waits for it, every call returns an Error (Failed) that names the
/// rank and the collective; the group stays failed.
class LocalGroup {
public:
  /// `timeout`: how long a rank may be silent (Communicator::doing) while another waits for it.
  explicit LocalGroup(int world, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  ~LocalGroup();
  LocalGroup(const LocalGroup &) = delete;
  LocalGroup &operator=(const LocalGroup &) = delete;

  int world() const;
  /// Rank `rank`'s end, owned by the group.
  Communicator &communicator(int rank);
  /// Communicator::abort of that rank; safe from any thread.
  void abort(int rank, const std::string &reason);

private:
  struct State;
  class Member;
  std::unique_ptr<State> state;
  std::vector<std::unique_ptr<Member>> members;
};

} // namespace nano
