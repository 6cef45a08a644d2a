// How ranks exchange data: the interface that a device's collectives and the training loop use.
#pragma once

#include "base/Status.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// How the elements of different ranks become one.
enum class Combine : uint8_t { Sum, Max };

/// One rank's end of a group of ranks. Every rank makes the same calls in the same order. Data lies
/// in this process's memory; elements are f32 or bf16, combined in the order of the members' places
/// (bf16 in f32, rounded once), so that repeats are bit-equal whatever carries the data; the
/// largest of numbers with a NaN is NaN. `what` names the collective in error messages. A call that
/// fails says which rank did not come, or went away, and where it was last seen; every later call
/// fails too. All calls but failure() come from the rank's own thread.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// Ranks in a group, for Ranks::Group and Ranks::Peers; a divisor of world(). All ranks call it,
  /// with the same number, before the first collective among those; it waits for nobody. Before it
  /// a group is all ranks. BadInput when it divides world() not.
  virtual Status setGroup(int ranks) = 0;

  /// Combines `count` elements, in place.
  virtual Status allReduce(void *data, int64_t count, plan::DType type, Combine combine,
                           plan::Ranks ranks, const char *what) = 0;
  /// `from`: `count` elements a member, by place; `to` receives the sum of the part with this
  /// rank's place. `to` may be that part of `from`; else they are apart.
  virtual Status reduceScatter(const void *from, void *to, int64_t count, plan::DType type,
                               plan::Ranks ranks, const char *what) = 0;
  /// `to` receives the `count` elements of each member's `from`, by place; of any type. `from` may
  /// be this rank's part of `to`; else they are apart.
  virtual Status allGather(const void *from, void *to, int64_t count, plan::DType type,
                           plan::Ranks ranks, const char *what) = 0;

  /// Every rank's `mine`, by rank: small data of the host.
  virtual Result<std::vector<std::string>> exchange(const std::string &mine, const char *what) = 0;
  /// Returns when every rank has called it.
  virtual Status barrier(const char *what) = 0;

  /// What this rank does now ("step 12, program 'last'"), for the messages of others that wait for
  /// it. It is a sign of life: a rank that neither says it nor makes a call here for longer than
  /// the timeout counts as hung once another waits for it.
  virtual void doing(const std::string &what) = 0;
  /// This rank starts to wait, outside of the calls here, for what others do: a device's own
  /// communication. Ends with the next call of any kind.
  virtual void waiting(const std::string &what) = 0;
  /// This rank will make no more calls, because of `reason`: the others' calls fail and say so. The
  /// first failure stands.
  virtual void abort(const std::string &reason) = 0;
  /// Why the ranks cannot go on, once one of them has failed; the same line on every rank. Safe
  /// from any thread, cheap while nothing has failed: a device that waits for communication of its
  /// own asks for it now and then.
  virtual std::optional<Error> failure() const = 0;
};

/// The number of members of `ranks`, and this rank's place among them, where groups have `group`
/// ranks.
struct Place {
  int members = 1, place = 0;
};
inline Place placeOf(plan::Ranks ranks, int rank, int world, int group) {
  switch (ranks) {
  case plan::Ranks::All:
    return {world, rank};
  case plan::Ranks::Group:
    return {group, rank % group};
  case plan::Ranks::Peers:
    return {world / group, rank / group};
  }
  return {};
}

/// The members of `ranks` that `rank` belongs to, by place.
inline std::vector<int> membersOf(plan::Ranks ranks, int rank, int world, int group) {
  std::vector<int> members(size_t(placeOf(ranks, rank, world, group).members));
  for (int place = 0; place < int(members.size()); ++place)
    members[size_t(place)] = ranks == plan::Ranks::All     ? place
                             : ranks == plan::Ranks::Group ? rank / group * group + place
                                                           : rank % group + place * group;
  return members;
}

} // namespace nano
