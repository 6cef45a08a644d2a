// The communicator of a rank that is a process of its own: collectives made of exchanges of slices,
// added up in order of place, so that they give the same bits as ranks in one process.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/Control.h"
#include "runtime/comm/Transport.h"

#include <memory>
#include <string>
#include <vector>

namespace nano {

/// allReduce of few elements: every member sends all it has to every other and adds up everything.
/// Of many: it sends the q-th slice to the member at place q, adds up its own slice of all, and
/// sends that to all. So each element crosses the network twice a member, as with a ring.
class ProcessCommunicator : public Communicator {
public:
  /// Both outlive it. `control` has met the others.
  ProcessCommunicator(int rank, int world, Control &control, Transport &transport)
      : ownRank(rank), size(world), group(world), control(control), transport(transport) {}

  int rank() const override { return ownRank; }
  int world() const override { return size; }
  Status setGroup(int ranks) override;
  Status allReduce(void *data, int64_t count, plan::DType type, Combine how, plan::Ranks ranks,
                   const char *what) override;
  Status reduceScatter(const void *from, void *to, int64_t count, plan::DType type,
                       plan::Ranks ranks, const char *what) override;
  Status allGather(const void *from, void *to, int64_t count, plan::DType type, plan::Ranks ranks,
                   const char *what) override;
  Result<std::vector<std::string>> exchange(const std::string &mine, const char *what) override;
  Status barrier(const char *what) override;
  void doing(const std::string &what) override { control.doing(what); }
  void waiting(const std::string &what) override { control.waiting(what); }
  void abort(const std::string &reason) override { control.abort(reason); }
  std::optional<Error> failure() const override { return control.failure(); }

private:
  /// The members of a collective as this rank sees them.
  struct Members {
    std::vector<int> ranks; ///< by place
    int place = 0;
    int count() const { return int(ranks.size()); }
  };
  Members membersOf(plan::Ranks ranks) const;
  /// One exchange of the transport; messages of no bytes are left out.
  Status swap(std::vector<Transport::Send> sends, std::vector<Transport::Receive> receives);
  /// Everybody's `count` elements, combined into `to` of each member, or into that of this rank.
  Status reduceFew(const Members &members, std::byte *data, int64_t count, plan::DType type,
                   Combine how);
  Status reduceMany(const Members &members, std::byte *data, int64_t count, plan::DType type,
                    Combine how);
  /// Work between begin and finish of a call, with errors that name it.
  template <typename Work> Status call(const std::string &request, const Work &work);

  const int ownRank, size;
  int group;
  Control &control;
  Transport &transport;
  uint64_t exchanges = 0;         ///< so far; as many on every rank
  uint64_t current = 0;           ///< stands for what is called now
  std::vector<std::byte> scratch; ///< what others sent
};

} // namespace nano
