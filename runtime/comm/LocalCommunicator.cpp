// In-process collectives: a rendezvous that checks what the ranks ask for, and sums over slices of
// shared memory.
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace nano {
namespace {

/// What one rank asks for in a collective.
struct Request {
  enum class Kind { None, AllReduce, Barrier };
  Kind kind = Kind::None;
  void *data = nullptr;
  int64_t count = 0;
  plan::DType type = plan::DType::F32;
  std::string what;

  std::string toString() const {
    if (kind == Kind::None)
      return "no collective";
    if (kind == Kind::Barrier)
      return "barrier '" + what + "'";
    return "all-reduce '" + what + "' of " + std::to_string(count) + " " + plan::nameOf(type);
  }
  bool matches(const Request &other) const {
    return kind == other.kind && count == other.count && type == other.type && what == other.what;
  }
};

/// One wait of a few microseconds that leaves the core's other thread alone.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int64_t tile = 2048; ///< elements summed at a time: the f32 sums stay in the L1 cache

void sumTile(const std::vector<float *> &data, int64_t begin, int64_t size) {
  float sums[tile];
  std::copy_n(data[0] + begin, size, sums);
  for (size_t rank = 1; rank < data.size(); ++rank) {
    const float *from = data[rank] + begin;
    for (int64_t i = 0; i < size; ++i)
      sums[i] += from[i];
  }
  for (float *to : data)
    std::copy_n(sums, size, to + begin);
}

void sumTile(const std::vector<uint16_t *> &data, int64_t begin, int64_t size) {
  float sums[tile];
  uint16_t rounded[tile];
  for (int64_t i = 0; i < size; ++i)
    sums[i] = fromBf16(data[0][begin + i]);
  for (size_t rank = 1; rank < data.size(); ++rank) {
    const uint16_t *from = data[rank] + begin;
    for (int64_t i = 0; i < size; ++i)
      sums[i] += fromBf16(from[i]);
  }
  for (int64_t i = 0; i < size; ++i)
    rounded[i] = toBf16(sums[i]);
  for (uint16_t *to : data)
    std::copy_n(rounded, size, to + begin);
}

/// Sums slice `rank` of all ranks' data into all ranks' data. Slices are whole tiles, so that no
/// two ranks write one cache line.
template <typename T> void sumSlice(const std::vector<void *> &pointers, int rank, int64_t count) {
  std::vector<T *> data;
  for (void *pointer : pointers)
    data.push_back(static_cast<T *>(pointer));
  int64_t world = int64_t(data.size()), tiles = (count + tile - 1) / tile;
  for (int64_t t = tiles * rank / world; t < tiles * (rank + 1) / world; ++t)
    sumTile(data, t * tile, std::min(tile, count - t * tile));
}

} // namespace

struct LocalGroup::State {
  State(int world, std::chrono::milliseconds timeout)
      : world(world), timeout(timeout), requests(size_t(world)), present(size_t(world)) {}

  const int world;
  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint64_t> rounds{0}; ///< completed rendezvous
  std::atomic<bool> broken{false};
  std::string failure;           ///< why the group is broken
  std::vector<Request> requests; ///< by rank: what it asked for last
  std::vector<char> present;     ///< by rank: has come to the current rendezvous
  int count = 0;                 ///< ranks that have come

  void breakGroup(const std::string &why) { // with the mutex held
    if (broken)
      return;
    failure = why;
    broken = true;
    changed.notify_all();
  }

  std::optional<std::string> mismatch() const {
    for (int rank = 1; rank < world; ++rank)
      if (!requests[rank].matches(requests[0]))
        return "rank " + std::to_string(rank) + " calls " + requests[rank].toString() +
               " where rank 0 calls " + requests[0].toString();
    return std::nullopt;
  }

  std::string absent() const {
    std::string text;
    for (int rank = 0; rank < world; ++rank)
      if (!present[rank])
        text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " (last seen in " +
                requests[rank].toString() + ")";
    return text;
  }

  /// Waits until every rank has come. A rank that brings no `request` keeps its last one (the end
  /// of a collective). `pointers`, when asked for, receives every rank's data.
  Status meet(int rank, const Request *request, std::vector<void *> *pointers) {
    std::unique_lock lock(mutex);
    if (request && !broken)
      requests[rank] = *request;
    auto broke = [&] {
      return failed((request ? *request : requests[rank]).toString() + " on rank " +
                    std::to_string(rank) + ": " + failure);
    };
    if (broken)
      return broke();
    present[rank] = true;
    uint64_t round = rounds.load(std::memory_order_relaxed);
    if (++count == world) {
      if (auto difference = mismatch()) {
        breakGroup(*difference);
        return broke();
      }
      count = 0;
      std::fill(present.begin(), present.end(), 0);
      rounds.store(round + 1, std::memory_order_release);
      changed.notify_all();
    } else {
      wait(lock, round);
      if (rounds.load(std::memory_order_relaxed) == round)
        return broke();
    }
    if (pointers)
      for (const Request &each : requests)
        pointers->push_back(each.data);
    return ok();
  }

  /// Ends when round `round` is complete or the group is broken; breaks it after the timeout. Spins
  /// for some microseconds first, where each rank can have a core of its own.
  void wait(std::unique_lock<std::mutex> &lock, uint64_t round) {
    auto over = [&] { return rounds.load(std::memory_order_acquire) != round || broken; };
    if (unsigned(world) <= std::thread::hardware_concurrency()) {
      lock.unlock();
      for (int spin = 0; spin < 1000 && !over(); ++spin)
        relax();
      lock.lock();
    }
    if (!changed.wait_for(lock, timeout, over)) {
      char seconds[32];
      std::snprintf(seconds, sizeof seconds, "%g", double(timeout.count()) / 1000);
      breakGroup(absent() + " did not come within " + seconds + " s");
    }
  }
};

/// One rank's end.
class LocalGroup::Member : public Communicator {
public:
  Member(State &state, int own) : state(state), own(own) {}

  int rank() const override { return own; }
  int world() const override { return state.world; }

  Status allReduce(void *data, int64_t count, plan::DType type, const char *what) override {
    if (type != plan::DType::F32 && type != plan::DType::BF16) {
      std::string reason = std::string("cannot add up elements of type ") + plan::nameOf(type);
      fail("all-reduce '" + std::string(what) + "' " + reason);
      return failed("all-reduce '" + std::string(what) + "' on rank " + std::to_string(own) + ": " +
                    reason);
    }
    Request request = {Request::Kind::AllReduce, data, count, type, what};
    std::vector<void *> pointers;
    if (Status status = state.meet(own, &request, &pointers); !status)
      return status;
    if (state.world == 1)
      return ok();
    if (type == plan::DType::F32)
      sumSlice<float>(pointers, own, count);
    else
      sumSlice<uint16_t>(pointers, own, count);
    return state.meet(own, nullptr, nullptr);
  }

  Status barrier(const char *what) override {
    Request request = {Request::Kind::Barrier, nullptr, 0, plan::DType::F32, what};
    return state.meet(own, &request, nullptr);
  }

private:
  void fail(const std::string &why) {
    std::lock_guard lock(state.mutex);
    state.breakGroup("rank " + std::to_string(own) + " failed: " + why);
  }

  State &state;
  int own;
};

LocalGroup::LocalGroup(int world, std::chrono::milliseconds timeout)
    : state(std::make_unique<State>(world, timeout)) {
  for (int rank = 0; rank < world; ++rank)
    members.push_back(std::make_unique<Member>(*state, rank));
}

LocalGroup::~LocalGroup() = default;

int LocalGroup::world() const { return state->world; }

Communicator &LocalGroup::communicator(int rank) { return *members.at(size_t(rank)); }

void LocalGroup::abort(int rank, const std::string &reason) {
  std::lock_guard lock(state->mutex);
  state->breakGroup("rank " + std::to_string(rank) + " failed after " +
                    state->requests[size_t(rank)].toString() + ": " + reason);
}

} // namespace nano
