// In-process collectives: a rendezvous that checks what the ranks ask for, and work over slices of
// shared memory.
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/comm/Combine.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace nano {
namespace {

using Clock = std::chrono::steady_clock;

/// One wait of a few microseconds that leaves the core's other thread alone.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// A rank's data in a collective.
struct Operands {
  const void *from = nullptr;
  void *to = nullptr;
};

/// Where the members of one set of ranks wait for each other.
struct Meeting {
  std::atomic<uint64_t> rounds{0}; ///< completed rendezvous
  std::vector<int> members;        ///< by place; as the first that came sees them
  int first = 0;                   ///< that one
  int count = 0;                   ///< members that have come to the current one
  bool works = false;              ///< its members are in a collective's work, between two meetings
};

} // namespace

struct LocalGroup::State {
  State(int world, std::chrono::milliseconds timeout)
      : world(world), timeout(timeout), ranks(size_t(world)), meetings(size_t(world) + 2) {}

  /// What is known about a rank.
  struct Known {
    Request request; ///< what it asked for last
    Operands operands;
    std::string doing;
    Clock::time_point seen = Clock::now(); ///< its last sign of life
    const Meeting *present = nullptr;      ///< the rendezvous that it waits in
  };

  const int world;
  const std::chrono::milliseconds timeout;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> broken{false};
  std::string failure; ///< why the group is broken
  std::vector<Known> ranks;
  std::vector<Meeting> meetings; ///< of all ranks, of each group, of each set of peers

  Meeting &meetingOf(plan::Ranks set, int rank, int group) {
    size_t index = 0;
    if (set == plan::Ranks::Group)
      index = 1 + size_t(rank / group);
    if (set == plan::Ranks::Peers)
      index = 1 + size_t(world / group + rank % group);
    return meetings[index];
  }

  void breakGroup(const std::string &why) { // with the mutex held
    if (broken)
      return;
    failure = why;
    broken = true;
    changed.notify_all();
  }

  std::optional<std::string> mismatch(const std::vector<int> &members) const {
    const Request &first = ranks[size_t(members[0])].request;
    for (int rank : members)
      if (!(ranks[size_t(rank)].request == first))
        return "rank " + std::to_string(rank) + " calls " + ranks[size_t(rank)].request.toString() +
               " where rank " + std::to_string(members[0]) + " calls " + first.toString();
    return std::nullopt;
  }

  std::string seen(int rank) const {
    const Known &known = ranks[size_t(rank)];
    return lastSeen(known.request.toString(), known.doing);
  }

  /// Waits until every member of the request's set has come. `isEnd`: the members come again, at
  /// the end of the same collective. An end waits for them in a broken group too, since they still
  /// read and write each other's operands; then it fails where the group was broken before it.
  Status meet(int rank, int group, const Request &request, Operands operands, bool isEnd) {
    std::unique_lock lock(mutex);
    Known &own = ranks[size_t(rank)];
    if (!isEnd && !broken) {
      own.request = request;
      own.operands = operands;
    }
    own.seen = Clock::now();
    const bool wasBroken = broken;
    auto broke = [&] {
      return failed(request.toString() + " on rank " + std::to_string(rank) + ": " + failure);
    };
    if (wasBroken && !isEnd)
      return broke();
    Meeting &meeting = meetingOf(request.ranks, rank, group);
    if (!isEnd) {
      std::vector<int> wanted = membersOf(request.ranks, rank, world, group);
      if (meeting.count == 0 && !meeting.works) {
        meeting.members = wanted;
        meeting.first = rank;
      }
      if (meeting.members != wanted) {
        breakGroup("rank " + std::to_string(rank) + " has groups of another size, " +
                   std::to_string(group) + ", than rank " + std::to_string(meeting.first));
        return broke();
      }
    }
    const std::vector<int> &members = meeting.members;
    own.present = &meeting;
    uint64_t round = meeting.rounds.load(std::memory_order_relaxed);
    if (++meeting.count == int(members.size())) {
      if (!isEnd)
        if (auto difference = mismatch(members)) {
          breakGroup(*difference);
          return broke();
        }
      meeting.count = 0;
      meeting.works = !isEnd && members.size() > 1 && request.kind != Request::Kind::Barrier;
      for (int member : members) {
        ranks[size_t(member)].present = nullptr;
        ranks[size_t(member)].seen = Clock::now();
      }
      meeting.rounds.store(round + 1, std::memory_order_release);
      changed.notify_all();
    } else {
      wait(lock, meeting, round, isEnd);
      if (meeting.rounds.load(std::memory_order_relaxed) == round)
        return broke();
    }
    return wasBroken ? broke() : ok();
  }

  /// Ends when round `round` is complete or, but for an end, when the group is broken; breaks it
  /// when a member stays silent for too long. Spins for some microseconds first, where each rank
  /// can have a core of its own.
  void wait(std::unique_lock<std::mutex> &lock, const Meeting &meeting, uint64_t round,
            bool isEnd) {
    auto over = [&] {
      return meeting.rounds.load(std::memory_order_acquire) != round || (broken && !isEnd);
    };
    if (unsigned(world) <= std::thread::hardware_concurrency()) {
      lock.unlock();
      for (int spin = 0; spin < 1000 && !over(); ++spin)
        relax();
      lock.lock();
    }
    if (isEnd) {
      changed.wait(lock, over);
      return;
    }
    Clock::time_point deadline = Clock::now() + timeout;
    while (!changed.wait_until(lock, deadline, over)) {
      // Who waits elsewhere waits for others in turn, and those that wait for a silent rank find it
      // out: here it counts where all the absent wait elsewhere and nobody at all shows life.
      auto isSilent = [&](int rank) { return !ranks[size_t(rank)].present; };
      const bool someSilent = std::any_of(meeting.members.begin(), meeting.members.end(), isSilent);
      Clock::time_point since = someSilent ? Clock::time_point::max() : Clock::time_point::min();
      if (!someSilent)
        for (const Known &known : ranks)
          since = std::max(since, known.seen);
      std::string absent;
      for (int rank : meeting.members) {
        const Known &known = ranks[size_t(rank)];
        if (known.present == &meeting || (someSilent && !isSilent(rank)))
          continue;
        if (someSilent)
          since = std::min(since, known.seen);
        absent +=
            (absent.empty() ? "rank " : ", rank ") + std::to_string(rank) + " (" + seen(rank) + ")";
      }
      deadline = since + timeout;
      if (deadline > Clock::now())
        continue;
      breakGroup(absent + " did not come within " + plan::secondsText(timeout));
    }
  }
};

/// One rank's end.
class LocalGroup::Member : public Communicator {
public:
  Member(State &state, int own) : state(state), own(own), group(state.world) {}

  int rank() const override { return own; }
  int world() const override { return state.world; }

  Status setGroup(int ranks) override {
    if (ranks < 1 || state.world % ranks != 0)
      return badInput("groups of " + std::to_string(ranks) +
                      " ranks: " + std::to_string(state.world) + " ranks cannot be divided so");
    group = ranks;
    return ok();
  }

  Status allReduce(void *data, int64_t count, plan::DType type, Combine how, plan::Ranks ranks,
                   const char *what) override {
    Request request = {Request::Kind::AllReduce, count, type, how, ranks, what};
    if (Status status = checkType(request); !status)
      return status;
    return collective(request, {data, data}, [&](const std::vector<Operands> &members, int place) {
      std::vector<const void *> from;
      std::vector<void *> to;
      for (const Operands &member : members) {
        from.push_back(member.from);
        to.push_back(member.to);
      }
      Slice slice = sliceOf(count, place, int(members.size()));
      combine(from, to, slice.begin, slice.end, type, how);
    });
  }

  Status reduceScatter(const void *from, void *to, int64_t count, plan::DType type,
                       plan::Ranks ranks, const char *what) override {
    Request request = {Request::Kind::ReduceScatter, count, type, Combine::Sum, ranks, what};
    if (Status status = checkType(request); !status)
      return status;
    uint64_t bytes = uint64_t(count) * plan::sizeOf(type);
    return collective(request, {from, to}, [&](const std::vector<Operands> &members, int place) {
      std::vector<const void *> parts;
      for (const Operands &member : members)
        parts.push_back(static_cast<const std::byte *>(member.from) + uint64_t(place) * bytes);
      combine(parts, {to}, 0, count, type, Combine::Sum);
    });
  }

  Status allGather(const void *from, void *to, int64_t count, plan::DType type, plan::Ranks ranks,
                   const char *what) override {
    Request request = {Request::Kind::AllGather, count, type, Combine::Sum, ranks, what};
    uint64_t bytes = uint64_t(count) * plan::sizeOf(type);
    return collective(request, {from, to}, [&](const std::vector<Operands> &members, int) {
      auto *target = static_cast<std::byte *>(to);
      for (const Operands &member : members) {
        if (bytes != 0 && member.from != target)
          std::memcpy(target, member.from, bytes);
        target += bytes;
      }
    });
  }

  Result<std::vector<std::string>> exchange(const std::string &mine, const char *what) override {
    Request request;
    request.kind = Request::Kind::Exchange;
    request.what = what;
    std::vector<std::string> texts;
    Status status =
        collective(request, {&mine, nullptr}, [&](const std::vector<Operands> &members, int) {
          for (const Operands &member : members)
            texts.push_back(*static_cast<const std::string *>(member.from));
        });
    if (!status)
      return status.error();
    return texts;
  }

  Status barrier(const char *what) override {
    Request request;
    request.kind = Request::Kind::Barrier;
    request.what = what;
    return state.meet(own, group, request, {}, /*isEnd=*/false);
  }

  void doing(const std::string &what) override {
    std::lock_guard lock(state.mutex);
    state.ranks[size_t(own)].doing = what;
    state.ranks[size_t(own)].seen = Clock::now();
  }

  void waiting(const std::string &what) override { doing(what); }

  void abort(const std::string &reason) override {
    std::lock_guard lock(state.mutex);
    const State::Known &known = state.ranks[size_t(own)];
    state.breakGroup("rank " + std::to_string(own) + " failed after " + known.request.toString() +
                     (known.doing.empty() ? "" : ", " + known.doing) + ": " + reason);
  }

  std::optional<Error> failure() const override {
    if (!state.broken)
      return std::nullopt;
    std::lock_guard lock(state.mutex);
    return failed(state.failure);
  }

private:
  Status checkType(const Request &request) {
    auto reason = cannotCombine(request.type);
    if (!reason)
      return ok();
    {
      std::lock_guard lock(state.mutex);
      state.breakGroup("rank " + std::to_string(own) + " failed: " + request.toString() + ": " +
                       *reason);
    }
    return failed(request.toString() + " on rank " + std::to_string(own) + ": " + *reason);
  }

  /// Meets the others, does this rank's part of the work with all members' operands, and meets them
  /// again, so that nobody reads or overwrites what another still needs, even where it failed.
  template <typename Work>
  Status collective(const Request &request, Operands operands, const Work &work) {
    if (Status status = state.meet(own, group, request, operands, /*isEnd=*/false); !status)
      return status;
    // The members' operands stay as they are until all have come to the end.
    const Place place = placeOf(request.ranks, own, state.world, group);
    std::exception_ptr thrown;
    try {
      std::vector<Operands> all;
      for (int member : membersOf(request.ranks, own, state.world, group))
        all.push_back(state.ranks[size_t(member)].operands);
      work(all, place.place);
    } catch (...) {
      thrown = std::current_exception();
    }
    Status end =
        place.members == 1 ? ok() : state.meet(own, group, request, operands, /*isEnd=*/true);
    if (thrown)
      std::rethrow_exception(thrown);
    return end;
  }

  State &state;
  const int own;
  int group;
};

LocalGroup::LocalGroup(int world, std::chrono::milliseconds timeout)
    : state(std::make_unique<State>(world, timeout)) {
  for (int rank = 0; rank < world; ++rank)
    members.push_back(std::make_unique<Member>(*state, rank));
}

LocalGroup::~LocalGroup() = default;

int LocalGroup::world() const { return state->world; }

Communicator &LocalGroup::communicator(int rank) { return *members.at(size_t(rank)); }

void LocalGroup::abort(int rank, const std::string &reason) { communicator(rank).abort(reason); }

} // namespace nano
