// The background thread of the control plane: it hears what the other ranks do and tells what this
// one does; on rank 0 it judges.
#include "runtime/comm/ControlImpl.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <poll.h>
#include <sys/socket.h>

namespace nano {
namespace {

using plan::secondsText;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds beatEvery(1000), farewell(1000), leastSilence(5000), mostSilence(30000);

std::string differ(int rank, const std::string &call, int other, const std::string &otherCall) {
  return "rank " + std::to_string(rank) + " calls " + call + " where rank " +
         std::to_string(other) + " calls " + otherCall;
}

} // namespace

bool Control::Impl::isTooLong(const std::string &call, const std::string &packed) {
  if (packed.size() < options.mostFrame) // which holds its kind too
    return false;
  fail(call + " has texts of " + std::to_string(packed.size()) + " bytes, more than the " +
           std::to_string(options.mostFrame - 1) + " that ranks can exchange at once",
       /*tell=*/true);
  return true;
}

void Control::Impl::addText(int rank, const std::string &text) {
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

bool Control::Impl::turn() {
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
    return false;
  if (isBroken && !leaving && !stopped && options.stop && now - failedAt > options.grace) {
    stopped = true;
    std::string message = why;
    lock.unlock();
    options.stop(message);
  }
  return true;
}

void Control::Impl::run() {
  bool goesOn = true;
  while (goesOn) {
    try {
      goesOn = turn();
    } catch (const std::bad_alloc &) {
      // What it was about is lost: ranks that go on would wait for each other. There may be none
      // the next time either.
      ::poll(nullptr, 0, int(tick.count()));
      std::lock_guard lock(mutex);
      try {
        fail(nameOf(options.rank) + " is out of memory", /*tell=*/true);
      } catch (const std::bad_alloc &) {
        why = "out of memory"; // fits without any
        failedAt = Clock::now();
        isBroken = true;
        changed.notify_all();
      }
      goesOn = !leaving || Clock::now() - leftAt <= farewell;
    }
  }
}

} // namespace nano
