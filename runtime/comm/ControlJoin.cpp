// How the ranks of a run find each other: rank 0 hears all who come at once, and they look for it.
//
//   rank 0 → who comes   its version and random bytes
//   who comes → rank 0   random bytes, what it is (job, world, rank, machine, process, `mine`), and
//                        a MAC of all of it
//   rank 0 → who comes   "seat" with a MAC, or "no" with a reason
//   rank 0 → all         once all are there, "yes" with everybody's peers, or "no", with a MAC
#include "runtime/comm/ControlImpl.h"
#include "runtime/comm/Secret.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <cerrno>
#include <list>
#include <poll.h>
#include <sys/socket.h>

namespace nano {
namespace {

using plan::secondsText;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds helloTime(5000), answerTime(20000), retryTime(100), pollTime(100);
constexpr uint32_t mostHello = 1 << 20;
constexpr size_t mostGuests = 512, nonceBytes = 32;
constexpr const char *greeting = "nanorun control 2";

std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 8)
    text += " and " + std::to_string(ranks.size() - 8) + " others";
  return text;
}

/// What both ends have made up for one connection.
struct Nonces {
  std::string ofHost, ofGuest;
};

/// What a MAC of the message `kind` with that content is over.
std::vector<std::string> sealedTexts(const Nonces &nonces, const std::string &kind,
                                     const std::string &content) {
  return {greeting, nonces.ofHost, nonces.ofGuest, kind, content};
}

/// A message of rank 0.
std::string messageOf(const std::string &key, const Nonces &nonces, const std::string &kind,
                      const std::string &content) {
  return pack({kind, content, macOf(key, sealedTexts(nonces, kind, content))});
}

/// The content of a "no": why, and whether the one who came is at fault.
std::string refusalOf(const std::string &reason, bool isGuestsFault) {
  return pack({isGuestsFault ? "input" : "run", reason});
}

/// What someone who comes says it is.
struct Hello {
  std::string job, world, rank, host, process, mine;

  std::string who() const { return "process " + process + " on " + host; }
  std::string toText() const { return pack({job, world, rank, host, process, mine}); }
  static std::optional<Hello> fromText(const std::string &text) {
    std::vector<std::string> fields = unpack(text);
    if (fields.size() != 6)
      return std::nullopt;
    return Hello{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]};
  }
};

/// The nonblocking half of receiveFrame: what has come of a frame so far.
class Inbox {
public:
  enum class State : uint8_t { Waiting, Whole, Closed };
  State receive(const Socket &socket) {
    char buffer[4096];
    while (true) {
      const ssize_t count = ::recv(socket.fd(), buffer, sizeof buffer, 0);
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0 && errno == EAGAIN)
        return State::Waiting;
      if (count <= 0)
        return State::Closed;
      bytes.append(buffer, size_t(count));
      size_t size = 0;
      for (size_t byte = 0; byte < 4 && byte < bytes.size(); ++byte)
        size |= size_t(uint8_t(bytes[byte])) << (8 * byte);
      if (size > mostHello || bytes.size() > 4 + size + sizeof buffer)
        return State::Closed;
      if (bytes.size() >= 4 && bytes.size() >= 4 + size) {
        payload = bytes.substr(4, size);
        return State::Whole;
      }
    }
  }
  std::string payload; ///< of the frame, when it is whole

private:
  std::string bytes;
};

/// Someone who has come and has not said yet what it is.
struct Guest {
  Socket socket;
  std::string nonce; ///< what it was sent
  Deadline deadline;
  Inbox inbox;
};

std::string textOf(const std::vector<Peer> &peers) {
  std::vector<std::string> texts;
  for (const Peer &peer : peers)
    texts.push_back(pack({peer.host, peer.process, peer.address, peer.mine}));
  return pack(texts);
}

/// The peers in a text; nothing where it is not one of `world` ranks.
std::optional<std::vector<Peer>> peersOf(const std::string &text, int world) {
  std::vector<Peer> peers;
  for (const std::string &each : unpack(text)) {
    std::vector<std::string> fields = unpack(each);
    if (fields.size() != 4)
      return std::nullopt;
    peers.push_back({fields[0], fields[1], fields[2], fields[3]});
  }
  return peers.size() == size_t(world) ? std::optional(peers) : std::nullopt;
}

/// Rank 0's door: hears all who come side by side and seats those that belong to the run.
class Door {
public:
  Door(const ControlOptions &options, Socket listenerGiven, Socket keyPlaceGiven)
      : options(options), listener(std::move(listenerGiven)), keyPlace(std::move(keyPlaceGiven)),
        deadline(Clock::now() + options.joinTimeout), seats(size_t(options.world)),
        missing(options.world - 1) {}

  struct Seat {
    Socket socket;
    Nonces nonces;
    Peer peer;
  };

  /// Until all are there; else why they will not be.
  std::optional<std::string> wait() {
    while (missing > 0) {
      if (Clock::now() >= deadline)
        return lateText();
      if (std::optional<std::string> end = round())
        return end;
    }
    return std::nullopt;
  }
  /// By rank; that of rank 0 is empty.
  std::vector<Seat> &seated() { return seats; }

private:
  std::string lateText() const {
    std::vector<int> absent;
    for (int rank = 1; rank < options.world; ++rank)
      if (!seats[size_t(rank)].socket)
        absent.push_back(rank);
    std::string text = listOf(absent) + " did not come to rank 0 within " +
                       secondsText(options.joinTimeout) + " (port " +
                       std::to_string(portOf(listener)) + " on " + hostName() + ")";
    if (!refused.empty())
      text += "; it refused: " + refused;
    return text;
  }

  /// Waits for something to happen, and answers it. A text: a rank that was there has gone.
  std::optional<std::string> round() {
    std::vector<pollfd> entries = {{listener.fd(), POLLIN, 0}, {keyPlace.fd(), POLLIN, 0}};
    for (const Guest &guest : guests)
      entries.push_back({guest.socket.fd(), POLLIN, 0});
    const size_t firstSeat = entries.size();
    for (const Seat &seat : seats)
      entries.push_back({seat.socket.fd(), POLLRDHUP, 0}); // none: poll passes over −1
    const milliseconds left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    const milliseconds wait = std::clamp(left, milliseconds(0), pollTime);
    ::poll(entries.data(), entries.size(), int(wait.count()));

    if (keyPlace && entries[1].revents)
      handOutKey(keyPlace, options.key);
    size_t at = 2;
    for (auto guest = guests.begin(); guest != guests.end(); ++at) {
      bool isDone = Clock::now() >= guest->deadline;
      if (entries[at].revents) {
        const Inbox::State state = guest->inbox.receive(guest->socket);
        isDone |= state != Inbox::State::Waiting;
        if (state == Inbox::State::Whole)
          answer(*guest);
      }
      guest = isDone ? guests.erase(guest) : std::next(guest);
    }
    for (size_t rank = 1; rank < seats.size(); ++rank)
      if (entries[firstSeat + rank].revents) {
        const Peer &peer = seats[rank].peer;
        seats[rank].socket = Socket();
        return "rank " + std::to_string(rank) + " (process " + peer.process + " on " + peer.host +
               ") went away while the others came";
      }
    if (entries[0].revents)
      letIn();
    return std::nullopt;
  }

  void letIn() {
    const Deadline now = Clock::now();
    while (Socket socket = acceptFrom(listener, now)) {
      if (guests.size() == mostGuests)
        guests.pop_front(); // who has been silent for longest
      Guest guest{std::move(socket), randomBytes(nonceBytes), now + helloTime, {}};
      // It fits into the empty buffer.
      if (sendFrame(guest.socket, pack({greeting, guest.nonce}), now))
        guests.push_back(std::move(guest));
    }
  }

  void answer(Guest &guest) {
    std::vector<std::string> fields = unpack(guest.inbox.payload);
    if (fields.size() != 4 || fields[0] != greeting || fields[1].size() != nonceBytes)
      return; // a stranger
    const std::optional<Hello> hello = Hello::fromText(fields[2]);
    if (!hello)
      return;
    const Nonces nonces{guest.nonce, fields[1]};
    auto refuse = [&](const std::string &reason, const std::string &key) {
      refused = reason;
      // By mistake: it hears of it, and this run does without it.
      (void)sendFrame(guest.socket,
                      messageOf(key, nonces, "no", refusalOf(reason, /*isGuestsFault=*/true)),
                      Clock::now());
    };
    if (!isMacOf(fields[3], options.key, sealedTexts(nonces, "hello", fields[2])))
      return refuse(hello->who() +
                        " does not know the secret of this job: it is of another, or "
                        "was not given the " +
                        secretVariable + " or --job-secret that rank 0 has",
                    "");
    const int rank = numberOf(hello->rank);
    if (hello->job != options.job)
      return refuse(hello->who() + " belongs to another job, '" + hello->job + "', than rank 0, '" +
                        options.job + "'",
                    options.key);
    if (hello->world != std::to_string(options.world))
      return refuse("rank " + hello->rank + " (" + hello->who() + ") was started as one of " +
                        hello->world + " ranks and rank 0 as one of " +
                        std::to_string(options.world),
                    options.key);
    if (rank < 1 || rank >= options.world || seats[size_t(rank)].socket)
      return refuse("two processes were started as rank " + hello->rank + ", one of them " +
                        hello->who(),
                    options.key);
    if (!sendFrame(guest.socket, messageOf(options.key, nonces, "seat", ""), Clock::now()))
      return;
    Seat &seat = seats[size_t(rank)];
    seat.peer = {hello->host, hello->process, addressOf(guest.socket), hello->mine};
    seat.nonces = nonces;
    seat.socket = std::move(guest.socket);
    --missing;
  }

  const ControlOptions &options;
  const Socket listener, keyPlace;
  const Deadline deadline;
  std::list<Guest> guests; ///< those that came first in front
  std::vector<Seat> seats; ///< by rank
  int missing;
  std::string refused; ///< why the last one was who was
};

} // namespace

Result<std::unique_ptr<Control>> Control::host(const ControlOptions &options, Socket listener,
                                               const std::string &mine, Socket keyPlace) {
  auto impl = std::make_unique<Impl>(options);
  Door door(options, std::move(listener), std::move(keyPlace));
  std::optional<std::string> end = door.wait();
  std::vector<Door::Seat> &seats = door.seated();
  impl->peers[0] = {hostName(), std::to_string(::getpid()), "", mine};
  for (size_t rank = 1; rank < seats.size(); ++rank)
    impl->peers[rank] = seats[rank].peer;
  const std::string kind = end ? "no" : "yes";
  const std::string content = end ? refusalOf(*end, /*isGuestsFault=*/false) : textOf(impl->peers);
  for (size_t rank = 1; rank < seats.size(); ++rank) {
    Door::Seat &seat = seats[rank];
    if (!seat.socket)
      continue;
    if (Status status = sendFrame(seat.socket, messageOf(options.key, seat.nonces, kind, content),
                                  Clock::now() + helloTime);
        !status && !end)
      end = "rank " + std::to_string(rank) + " went away while the others came";
    impl->connections[rank].socket = std::move(seat.socket);
  }
  if (end)
    return failed(*end);
  std::fill(impl->heard.begin(), impl->heard.end(), Clock::now());
  return std::unique_ptr<Control>(new Control(std::move(impl)));
}

namespace {

/// One attempt of a rank at one connection to rank 0.
struct Attempt {
  Nonces nonces;
  bool isSeated = false;    ///< it is rank 0 of this run, and knows of this one
  std::optional<Error> end; ///< it makes no sense to go on
  std::string found;        ///< why it came to nothing, where it makes sense
  bool isStranger = false;  ///< something else answers there
  std::vector<Peer> peers;  ///< the run begins
};

/// Introduces this rank over `socket` and waits for the others. `where`: rank 0's place in words.
Attempt introduce(const ControlOptions &options, std::string &key, const Socket &socket,
                  const std::string &where, const std::string &mine, Deadline deadline) {
  Attempt attempt;
  auto receive = [&](Deadline until) { return receiveFrame(socket, options.mostFrame, until); };
  auto soon = [&](milliseconds time) { return std::min(deadline, Clock::now() + time); };
  auto stranger = [&] {
    attempt.found = where + " is not rank 0 of this run";
    attempt.isStranger = true;
    return attempt;
  };
  Result<std::string> challenge = receive(soon(helloTime));
  if (!challenge) {
    attempt.found = where + ": " + challenge.error().message;
    return attempt;
  }
  const std::vector<std::string> made = unpack(*challenge);
  if (made.size() != 2 || made[0] != greeting || made[1].size() != nonceBytes)
    return stranger();
  if (options.keyPlace > 0)
    key = askForKey(options.keyPlace, soon(helloTime)).value_or("");
  attempt.nonces = {made[1], randomBytes(nonceBytes)};
  const std::string hello =
      Hello{options.job, std::to_string(options.world), std::to_string(options.rank),
            hostName(),  std::to_string(::getpid()),    mine}
          .toText();
  if (Status status = sendFrame(socket,
                                pack({greeting, attempt.nonces.ofGuest, hello,
                                      macOf(key, sealedTexts(attempt.nonces, "hello", hello))}),
                                soon(helloTime));
      !status) {
    attempt.found = where + ": " + status.error().message;
    return attempt;
  }
  while (true) {
    Result<std::string> message = receive(attempt.isSeated ? deadline : soon(answerTime));
    if (!message && attempt.isSeated && Clock::now() < deadline)
      attempt.end = failed("rank 0 at " + where +
                           " went away while the ranks came: " + message.error().message);
    if (!message) {
      attempt.found = where + ": " + message.error().message;
      return attempt;
    }
    const std::vector<std::string> fields = unpack(*message);
    if (fields.size() != 3)
      return stranger();
    const bool isProven =
        isMacOf(fields[2], key, sealedTexts(attempt.nonces, fields[0], fields[1]));
    if (fields[0] == "no") {
      // Rank 0 cannot prove itself to one who does not know its key, so this is believed of anybody
      // who is where rank 0 should be: without it the run would not begin either.
      std::vector<std::string> reason = unpack(fields[1]);
      reason.resize(2);
      const bool isOwnFault = reason[0] == "input";
      const std::string text =
          "rank 0 at " + where + (isOwnFault ? " refuses: " : " ends: ") + reason[1];
      attempt.end = isOwnFault ? badInput(text) : failed(text);
      return attempt;
    }
    if (!isProven)
      return stranger();
    if (fields[0] == "seat") {
      attempt.isSeated = true;
      continue;
    }
    std::optional<std::vector<Peer>> peers = peersOf(fields[1], options.world);
    if (fields[0] != "yes" || !peers)
      return stranger();
    attempt.peers = std::move(*peers);
    return attempt;
  }
}

} // namespace

Result<std::unique_ptr<Control>> Control::join(const ControlOptions &options,
                                               const std::vector<std::string> &hosts, int port,
                                               const std::string &mine) {
  auto impl = std::make_unique<Impl>(options);
  const Deadline deadline = Clock::now() + options.joinTimeout;
  const std::string nothing = "no address";
  std::string why = nothing;
  bool waits = false; // `why` is that rank 0 has not begun yet
  bool knows = false; // `why` says who is there
  // What the end of the time cuts off says less than what was found before.
  auto found = [&](const std::string &what, bool isAnswer) {
    if ((Clock::now() >= deadline && why != nothing) || (knows && !isAnswer))
      return;
    why = what;
    knows = isAnswer;
    waits = false;
  };
  while (Clock::now() < deadline) {
    for (const std::string &host : hosts) {
      auto socket = connectTo(host, port, std::min(deadline, Clock::now() + helloTime));
      if (!socket) {
        found(socket.error().message, /*isAnswer=*/false);
        continue;
      }
      const std::string where = host + ":" + std::to_string(port);
      Attempt attempt = introduce(options, impl->key, *socket, where, mine, deadline);
      if (attempt.end)
        return *attempt.end;
      if (attempt.isSeated && attempt.peers.empty() && !attempt.isStranger) {
        why = "rank 0 at " + where + " waits for other ranks";
        waits = true;
        continue;
      }
      if (attempt.peers.empty()) {
        found(attempt.found, attempt.isStranger);
        continue;
      }
      impl->peers = std::move(attempt.peers);
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

} // namespace nano
