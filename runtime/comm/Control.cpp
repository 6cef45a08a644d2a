// The control plane: joining, and the thread that hears and tells.
#include "runtime/comm/Control.h"
#include "runtime/comm/Combine.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace nano {
namespace {

using Clock = std::chrono::steady_clock;
using plan::secondsText;
using std::chrono::milliseconds;

constexpr milliseconds tick(100), beatEvery(1000), farewell(1000), verdictTime(2000);
constexpr milliseconds leastSilence(5000), mostSilence(30000), helloTime(5000), retryTime(100);
constexpr uint32_t mostHello = 1 << 20;
constexpr const char *greeting = "nanorun control 1";

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

std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 8)
    text += " and " + std::to_string(ranks.size() - 8) + " others";
  return text;
}

std::string differ(int rank, const std::string &call, int other, const std::string &otherCall) {
  return "rank " + std::to_string(rank) + " calls " + call + " where rank " +
         std::to_string(other) + " calls " + otherCall;
}

std::string helloOf(const ControlOptions &options, const std::string &mine) {
  return pack({greeting, options.job, std::to_string(options.world), std::to_string(options.rank),
               hostName(), std::to_string(::getpid()), mine});
}

} // namespace

struct Control::Impl {
  explicit Impl(const ControlOptions &options)
      : options(options), peers(size_t(options.world)), connections(size_t(options.world)),
        wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), activities(size_t(options.world)),
        heard(size_t(options.world), Clock::now()) {}

  const ControlOptions options;
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
  bool leaving = false, stopped = false;
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
  bool isTooLong(const std::string &call, const std::string &packed) {
    if (packed.size() < options.mostFrame) // which holds its kind too
      return false;
    fail(call + " has texts of " + std::to_string(packed.size()) + " bytes, more than the " +
             std::to_string(options.mostFrame - 1) + " that ranks can exchange at once",
         /*tell=*/true);
    return true;
  }

  /// Rank 0: `text` holds a rank's call and what it exchanges.
  void addText(int rank, const std::string &text) {
    texts[rank] = unpack(text);
    texts[rank].resize(2);
    if (int(texts.size()) < options.world)
      return;
    std::vector<std::string> all;
    for (auto &[from, each] : texts) {
      if (each[0] != texts[0][0])
        return fail(differ(from, each[0], 0, texts[0][0]), /*tell=*/true);
      all.push_back(std::move(each[1]));
    }
    const std::string packed = pack(all);
    if (isTooLong(texts[0][0], packed))
      return;
    texts.clear();
    postToAll(Texts, packed);
    exchanged = std::move(all);
    changed.notify_all();
  }

  // The background thread.
  void run();
  void pollOnce();
  void receive(int rank, Connection &connection);
  void handle(int rank, const std::string &message);
  void lost(int rank);
  void flush(Connection &connection);
  void tellActivity();
  void judge();
};

void Control::Impl::handle(int rank, const std::string &message) {
  if (message.empty())
    return;
  const Clock::time_point now = Clock::now();
  const std::string text = message.substr(1);
  heard[size_t(rank)] = now;
  switch (message[0]) {
  case Beat:
    if (std::optional<Activity> activity = Activity::fromText(text, now))
      activities[size_t(rank)] = *activity;
    break;
  case Text:
    if (isHub())
      addText(rank, text);
    break;
  case Texts:
    exchanged = unpack(text);
    changed.notify_all();
    break;
  case Failure:
    fail(text, /*tell=*/isHub());
    break;
  case Bye:
    connections[size_t(rank)].left = true;
    break;
  default:
    fail(nameOf(rank) + " sent a message that nobody understands", /*tell=*/true);
  }
}

void Control::Impl::lost(int rank) {
  Connection &connection = connections[size_t(rank)];
  connection.socket = Socket();
  if (!connection.left && !leaving)
    fail(nameOf(rank) + " went away, " + activities[size_t(rank)].seen(), /*tell=*/true);
}

void Control::Impl::receive(int rank, Connection &connection) {
  char buffer[65536];
  while (true) {
    ssize_t count = ::recv(connection.socket.fd(), buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      break;
    if (count <= 0) {
      lost(rank);
      return;
    }
    connection.in.append(buffer, size_t(count));
    size_t at = 0;
    while (connection.in.size() - at >= 4) {
      size_t size = 0;
      for (size_t byte = 0; byte < 4; ++byte)
        size |= size_t(uint8_t(connection.in[at + byte])) << (8 * byte);
      if (size > options.mostFrame) {
        lost(rank);
        return;
      }
      if (connection.in.size() - at - 4 < size)
        break;
      handle(rank, connection.in.substr(at + 4, size));
      at += 4 + size;
    }
    connection.in.erase(0, at);
  }
}

void Control::Impl::flush(Connection &connection) {
  std::string &out = connection.out;
  size_t &sent = connection.sent;
  while (sent < out.size()) {
    ssize_t count =
        ::send(connection.socket.fd(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (count <= 0)
      break; // a broken connection shows when it is read
    sent += size_t(count);
  }
  if (sent == out.size() || sent > out.size() / 2) {
    out.erase(0, sent);
    sent = 0;
  }
}

void Control::Impl::tellActivity() {
  const Clock::time_point now = Clock::now();
  std::string state = own().state();
  if (state == sentState && now - sentAt < beatEvery)
    return;
  sentState = state;
  sentAt = now;
  postToAll(Beat, own().toText(now));
}

void Control::Impl::judge() {
  if (isBroken || leaving)
    return;
  const Clock::time_point now = Clock::now();
  const milliseconds silence = std::clamp(options.timeout, leastSilence, mostSilence);
  for (int rank = 0; rank < options.world; ++rank) {
    const Connection &connection = connections[size_t(rank)];
    if (connection.socket && !connection.left && now - heard[size_t(rank)] > silence)
      return fail(nameOf(rank) + " does not answer for " + secondsText(silence) + ", " +
                      activities[size_t(rank)].seen(),
                  /*tell=*/true);
  }
  if (!isHub())
    return;

  // Calls of the same number must be the same.
  std::map<uint64_t, int> callers;
  bool someWaitLong = false, allWaitLong = true;
  int stalled = -1, behind = 0;
  for (int rank = 0; rank < options.world; ++rank) {
    const Activity &activity = activities[size_t(rank)];
    auto [other, isFirst] = callers.try_emplace(activity.calls, rank);
    const Activity &reference = activities[size_t(other->second)];
    if (!isFirst && activity.calls > 0 && activity.request != reference.request)
      return fail(differ(rank, activity.request, other->second, reference.request), /*tell=*/true);
    const bool isLong = activity.age(now) > options.timeout;
    someWaitLong |= activity.waiting && isLong;
    allWaitLong &= activity.waiting && isLong;
    if (!activity.waiting && isLong &&
        (stalled < 0 || activity.since < activities[size_t(stalled)].since))
      stalled = rank;
    if (activity.calls < activities[size_t(behind)].calls)
      behind = rank;
  }
  if (someWaitLong && stalled >= 0)
    fail(nameOf(stalled) + " makes no progress for " + secondsText(options.timeout) + ", " +
             activities[size_t(stalled)].seen(),
         /*tell=*/true);
  else if (allWaitLong)
    fail("all ranks wait for " + secondsText(options.timeout) + "; furthest behind is " +
             nameOf(behind) + ", " + activities[size_t(behind)].seen(),
         /*tell=*/true);
}

void Control::Impl::pollOnce() {
  std::vector<pollfd> entries = {{wake.fd(), POLLIN, 0}};
  std::vector<int> ranks = {-1};
  for (int rank = 0; rank < options.world; ++rank) {
    Connection &connection = connections[size_t(rank)];
    if (!connection.socket)
      continue;
    short events = POLLIN;
    if (!connection.out.empty())
      events = POLLIN | POLLOUT;
    entries.push_back({connection.socket.fd(), events, 0});
    ranks.push_back(rank);
  }
  if (::poll(entries.data(), entries.size(), int(tick.count())) <= 0)
    return;
  uint64_t count = 0;
  if (entries[0].revents && ::read(wake.fd(), &count, sizeof count) < 0)
    return;
  std::lock_guard lock(mutex);
  for (size_t i = 1; i < entries.size(); ++i) {
    Connection &connection = connections[size_t(ranks[i])];
    if (entries[i].revents & POLLOUT)
      flush(connection);
    if (entries[i].revents & (POLLIN | POLLHUP | POLLERR))
      receive(ranks[i], connection);
  }
}

void Control::Impl::run() {
  bool saidBye = false;
  while (true) {
    pollOnce();
    std::unique_lock lock(mutex);
    const Clock::time_point now = Clock::now();
    if (!leaving)
      tellActivity();
    judge();
    if (leaving && !saidBye)
      postToAll(Bye, "");
    saidBye |= leaving;
    for (auto &[rank, frame] : outgoing)
      if (Connection &connection = connections[size_t(rank)]; connection.socket)
        connection.out += frame;
    outgoing.clear();
    bool allClosed = true;
    for (Connection &connection : connections) {
      if (!connection.socket)
        continue;
      allClosed = false;
      flush(connection);
      if (leaving && connection.out.empty() && !std::exchange(connection.closed, true))
        ::shutdown(connection.socket.fd(), SHUT_WR);
    }
    // The other end closes when it has read everything; closing first could lose what it has not.
    if (leaving && (allClosed || now - leftAt > farewell))
      return;
    if (isBroken && !leaving && !stopped && options.stop && now - failedAt > options.grace) {
      stopped = true;
      std::string message = why;
      lock.unlock();
      options.stop(message);
    }
  }
}

Control::Control(std::unique_ptr<Impl> given) : impl(std::move(given)) {
  impl->own().since = Clock::now();
  impl->thread = std::thread([this] { impl->run(); });
}

Control::~Control() {
  {
    std::lock_guard lock(impl->mutex);
    impl->leaving = true;
    impl->leftAt = Clock::now();
  }
  impl->rouse();
  impl->thread.join();
}

Result<std::unique_ptr<Control>> Control::host(const ControlOptions &options, Socket listener,
                                               const std::string &mine) {
  auto impl = std::make_unique<Impl>(options);
  impl->peers[0] = {hostName(), std::to_string(::getpid()), "", mine};
  const Deadline deadline = Clock::now() + options.joinTimeout;
  int missing = options.world - 1;
  std::string refusal;
  while (missing > 0 && refusal.empty()) {
    Socket socket = acceptFrom(listener, deadline);
    if (!socket) {
      std::vector<int> absent;
      for (int rank = 1; rank < options.world; ++rank)
        if (!impl->connections[size_t(rank)].socket)
          absent.push_back(rank);
      refusal = listOf(absent) + " did not come to rank 0 within " +
                secondsText(options.joinTimeout) + " (port " + std::to_string(portOf(listener)) +
                " on " + hostName() + ")";
      break;
    }
    auto hello = receiveFrame(socket, mostHello, Clock::now() + helloTime);
    if (!hello)
      continue; // a stranger
    std::vector<std::string> fields = unpack(*hello);
    if (fields.size() != 7 || fields[0] != greeting)
      continue;
    const std::string who = "process " + fields[5] + " on " + fields[4];
    const int rank = numberOf(fields[3]);
    if (fields[1] != options.job) {
      // By mistake: it hears of it, and this run does without it.
      (void)sendFrame(socket,
                      pack({"no", who + " belongs to another job, '" + fields[1] +
                                      "', than rank 0, '" + options.job + "'"}),
                      Clock::now() + helloTime);
      continue;
    }
    if (fields[2] != std::to_string(options.world))
      refusal = "rank " + fields[3] + " (" + who + ") was started as one of " + fields[2] +
                " ranks and rank 0 as one of " + std::to_string(options.world);
    else if (rank < 1 || rank >= options.world || impl->connections[size_t(rank)].socket)
      refusal = "two processes were started as rank " + fields[3] + ", one of them " + who;
    if (!refusal.empty()) {
      (void)sendFrame(socket, pack({"no", refusal}), Clock::now() + helloTime);
      break;
    }
    impl->peers[size_t(rank)] = {fields[4], fields[5], addressOf(socket), fields[6]};
    impl->connections[size_t(rank)].socket = std::move(socket);
    --missing;
  }
  std::vector<std::string> welcome = {refusal.empty() ? "yes" : "no"};
  if (refusal.empty())
    for (const Peer &peer : impl->peers)
      welcome.push_back(pack({peer.host, peer.process, peer.address, peer.mine}));
  else
    welcome.push_back(refusal);
  const std::string text = pack(welcome);
  for (int rank = 1; rank < options.world; ++rank)
    if (Connection &connection = impl->connections[size_t(rank)]; connection.socket)
      if (Status status = sendFrame(connection.socket, text, Clock::now() + helloTime);
          !status && refusal.empty())
        refusal = "rank " + std::to_string(rank) + " went away while the others came";
  if (!refusal.empty())
    return failed(refusal);
  std::fill(impl->heard.begin(), impl->heard.end(), Clock::now());
  return std::unique_ptr<Control>(new Control(std::move(impl)));
}

Result<std::unique_ptr<Control>> Control::join(const ControlOptions &options,
                                               const std::vector<std::string> &hosts, int port,
                                               const std::string &mine) {
  auto impl = std::make_unique<Impl>(options);
  const Deadline deadline = Clock::now() + options.joinTimeout;
  const std::string nothing = "no address";
  std::string why = nothing;
  bool waits = false;    // `why` is that rank 0 has not answered yet
  bool answered = false; // something has, which is not rank 0
  // What the end of the time cuts off says less than what was found before.
  auto found = [&](const std::string &what) {
    if (Clock::now() >= deadline && why != nothing)
      return;
    why = what;
    waits = false;
  };
  while (Clock::now() < deadline) {
    for (const std::string &host : hosts) {
      auto socket = connectTo(host, port, std::min(deadline, Clock::now() + helloTime));
      if (!socket) {
        found(socket.error().message);
        continue;
      }
      if (Status status = sendFrame(*socket, helloOf(options, mine), deadline); !status) {
        found(status.error().message);
        continue;
      }
      // Rank 0 answers when all have come; what is not rank 0 may answer at once, as it did before.
      if (!answered) {
        why = "rank 0 at " + host + ":" + std::to_string(port) + " waits for other ranks";
        waits = true;
      }
      auto answer = receiveFrame(*socket, options.mostFrame, deadline);
      if (!answer) {
        found(answer.error().message);
        continue;
      }
      std::vector<std::string> fields = unpack(*answer);
      if (fields.size() == 2 && fields[0] == "no")
        return failed("rank 0 at " + host + ":" + std::to_string(port) + " refuses: " + fields[1]);
      if (fields.size() != size_t(options.world) + 1 || fields[0] != "yes") {
        found(host + ":" + std::to_string(port) + " is not rank 0 of this run");
        answered = true;
        continue;
      }
      for (int rank = 0; rank < options.world; ++rank) {
        std::vector<std::string> peer = unpack(fields[size_t(rank) + 1]);
        if (peer.size() == 4)
          impl->peers[size_t(rank)] = {peer[0], peer[1], peer[2], peer[3]};
      }
      impl->peers[0].address = addressOf(*socket);
      impl->connections[0].socket = std::move(*socket);
      std::fill(impl->heard.begin(), impl->heard.end(), Clock::now());
      return std::unique_ptr<Control>(new Control(std::move(impl)));
    }
    std::this_thread::sleep_for(retryTime);
  }
  return failed("rank " + std::to_string(options.rank) + " did not " +
                (waits ? "begin" : "reach rank 0") + " within " + secondsText(options.joinTimeout) +
                ": " + why);
}

const std::vector<Peer> &Control::peers() const { return impl->peers; }

Status Control::begin(const std::string &call) {
  std::lock_guard lock(impl->mutex);
  if (impl->isBroken)
    return failed(impl->why);
  Activity &own = impl->own();
  ++own.calls;
  own.request = call;
  own.waiting = true;
  impl->activityChanged();
  return ok();
}

void Control::finish() {
  std::lock_guard lock(impl->mutex);
  impl->own().waiting = false;
  impl->own().since = Clock::now();
}

void Control::doing(const std::string &what) {
  std::lock_guard lock(impl->mutex);
  Activity &own = impl->own();
  own.doing = what;
  own.waiting = false;
  impl->activityChanged();
}

void Control::waiting(const std::string &what) {
  std::lock_guard lock(impl->mutex);
  Activity &own = impl->own();
  own.doing = what;
  own.waiting = true;
  impl->activityChanged();
}

Result<std::vector<std::string>> Control::exchange(const std::string &mine) {
  std::unique_lock lock(impl->mutex);
  impl->exchanged.reset();
  const std::string text = pack({impl->own().request, mine});
  if (impl->isTooLong(impl->own().request, text))
    return failed(impl->why);
  if (impl->isHub())
    impl->addText(0, text);
  else
    impl->post(0, Text, text);
  impl->rouse();
  impl->changed.wait(lock, [&] { return impl->exchanged || impl->isBroken; });
  if (!impl->exchanged)
    return failed(impl->why);
  if (int(impl->exchanged->size()) != impl->options.world)
    return failed("rank 0 sent texts of " + std::to_string(impl->exchanged->size()) + " ranks");
  return *std::exchange(impl->exchanged, std::nullopt);
}

void Control::abort(const std::string &reason) {
  std::lock_guard lock(impl->mutex);
  const Activity &own = impl->own();
  impl->fail("rank " + std::to_string(impl->options.rank) + " failed after " + own.request +
                 (own.doing.empty() ? "" : ", " + own.doing) + ": " + reason,
             /*tell=*/true);
  impl->rouse();
}

std::optional<Error> Control::failure() const {
  if (!impl->isBroken)
    return std::nullopt;
  std::lock_guard lock(impl->mutex);
  return failed(impl->why);
}

bool Control::broken() const { return impl->isBroken; }

Error Control::settle(int rank, const std::string &reason) {
  {
    std::unique_lock lock(impl->mutex);
    impl->changed.wait_for(lock, verdictTime, [&] { return impl->isBroken.load(); });
  }
  if (!broken())
    abort(rank < 0 ? reason : "the connection to " + impl->nameOf(rank) + " " + reason);
  return *failure();
}

} // namespace nano
