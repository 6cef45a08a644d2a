// What the sources of the control plane share: the state of a rank's end, which its thread and the
// background's thread use with one mutex. Private to Control*.cpp.
#pragma once

#include "runtime/comm/Combine.h"
#include "runtime/comm/Control.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace nano {

struct Control::Impl {
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  static constexpr milliseconds tick{100}; ///< the background wakes as often

  /// The first byte of every message.
  enum Kind : char { Beat = 'B', Text = 'X', Texts = 'Y', Failure = 'F', Bye = 'Q' };

  /// What a rank tells about itself.
  struct Activity {
    uint64_t calls = 0; ///< calls begun
    std::string request = "no collective", doing;
    bool waiting = false;
    Clock::time_point since = Clock::now(); ///< its last progress

    std::string seen() const { return lastSeen(request, doing); }
    milliseconds age(Clock::time_point now) const {
      return std::chrono::duration_cast<milliseconds>(now - since);
    }
    /// What tells a change, without the time.
    std::string state() const {
      return pack({std::to_string(calls), request, doing, waiting ? "1" : "0"});
    }
    std::string toText(Clock::time_point now) const {
      return pack({std::to_string(calls), request, doing, waiting ? "1" : "0",
                   std::to_string(age(now).count())});
    }
    static std::optional<Activity> fromText(const std::string &text, Clock::time_point now) {
      std::vector<std::string> fields = unpack(text);
      if (fields.size() != 5)
        return std::nullopt;
      Activity activity;
      activity.calls = std::strtoull(fields[0].c_str(), nullptr, 10);
      activity.request = fields[1];
      activity.doing = fields[2];
      activity.waiting = fields[3] == "1";
      activity.since = now - milliseconds(std::strtoll(fields[4].c_str(), nullptr, 10));
      return activity;
    }
  };

  /// A connection with what is still to be sent and what has come of the next message.
  struct Connection {
    Socket socket;
    std::string out, in;
    size_t sent = 0;     ///< bytes of `out` that are sent; out is empty when all are
    bool left = false;   ///< the other end said that it leaves
    bool closed = false; ///< this end sends nothing more
  };

  explicit Impl(const ControlOptions &options)
      : options(options), key(options.key), peers(size_t(options.world)),
        connections(size_t(options.world)), wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        activities(size_t(options.world)), heard(size_t(options.world), Clock::now()) {}

  const ControlOptions options;
  std::string key; ///< of the job: that of the options, or what rank 0 handed out
  std::vector<Peer> peers;
  std::vector<Connection> connections; ///< by rank: rank 0 has all others, they have rank 0
  Socket wake;
  std::thread thread;

  // Shared by the rank's thread and the background's, with the mutex held.
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Activity> activities; ///< by rank: as last heard; the own one is exact
  std::vector<Clock::time_point> heard;
  std::vector<std::pair<int, std::string>> outgoing; ///< messages for ranks
  std::map<int, std::vector<std::string>> texts;     ///< rank 0: calls and texts of an exchange
  std::optional<std::vector<std::string>> exchanged;
  std::string why; ///< of the failure
  Clock::time_point failedAt;
  std::atomic<bool> isBroken{false};
  bool leaving = false, saidBye = false, stopped = false;
  Clock::time_point leftAt;
  std::string sentState; ///< what the others heard last
  Clock::time_point sentAt;

  Activity &own() { return activities[size_t(options.rank)]; }
  bool isHub() const { return options.rank == 0; }

  std::string nameOf(int rank) const {
    const Peer &peer = peers[size_t(rank)];
    return "rank " + std::to_string(rank) + " (process " + peer.process + " on " + peer.host + ")";
  }

  void post(int rank, Kind kind, const std::string &text) {
    outgoing.emplace_back(rank, frameOf(std::string(1, kind) + text));
  }
  void postToAll(Kind kind, const std::string &text) {
    for (int rank = 0; rank < options.world; ++rank)
      if (connections[size_t(rank)].socket)
        post(rank, kind, text);
  }
  /// What this rank does has changed: others hear of it at once, unless they heard of a change just
  /// now.
  void activityChanged() {
    own().since = Clock::now();
    if (own().since - sentAt > tick)
      rouse();
  }
  void rouse() {
    uint64_t one = 1;
    if (::write(wake.fd(), &one, sizeof one) < 0)
      return; // full: it is awake already
  }

  /// The run fails for all, with the mutex held; `tell`: the others do not know yet.
  void fail(const std::string &reason, bool tell) {
    if (isBroken)
      return;
    why = reason;
    failedAt = Clock::now();
    isBroken = true;
    if (tell)
      postToAll(Failure, reason);
    changed.notify_all();
  }

  /// Whether an exchange's texts, packed, are too long for a message: then the run fails.
  bool isTooLong(const std::string &call, const std::string &packed);
  /// Rank 0: `text` holds a rank's call and what it exchanges.
  void addText(int rank, const std::string &text);

  // The background thread.
  void run();
  /// Hears, judges and tells once; false when it is done.
  bool turn();
  void pollOnce();
  void receive(int rank, Connection &connection);
  void handle(int rank, const std::string &message);
  void lost(int rank);
  void flush(Connection &connection);
  void tellActivity();
  void judge();
};

} // namespace nano
