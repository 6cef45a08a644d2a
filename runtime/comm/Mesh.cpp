// Messages over non-blocking sockets, all of an exchange at once.
#include "runtime/comm/Mesh.h"

#include "runtime/comm/Secret.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace nano {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds pollTime(100), attemptTime(2000), guestTime(10000);
constexpr uint32_t mostGreeting = 4096;
constexpr size_t mostGuests = 512, nonceBytes = 32;
constexpr const char *version = "nanorun mesh 2";

/// What precedes a message's data.
struct Header {
  uint64_t call = 0, bytes = 0;
};

/// One direction of a connection during an exchange.
struct Flow {
  int rank = 0;
  int fd = -1;
  char *data = nullptr;
  uint64_t bytes = 0;
  bool sends = false;
  Header header;
  uint64_t done = 0; ///< bytes of header and data

  bool isOver() const { return done == sizeof header + bytes; }

  /// Moves what can be moved now; a text says why it cannot.
  std::string advance(const Header &expected) {
    while (!isOver()) {
      bool inHeader = done < sizeof header;
      char *at =
          inHeader ? reinterpret_cast<char *>(&header) + done : data + (done - sizeof header);
      uint64_t size = inHeader ? sizeof header - done : bytes - (done - sizeof header);
      ssize_t count = sends ? ::send(fd, at, size, MSG_NOSIGNAL) : ::recv(fd, at, size, 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return "";
      if (count < 0)
        return std::string("broke: ") + std::strerror(errno);
      if (count == 0)
        return "was closed";
      done += uint64_t(count);
      bool isComplete = inHeader && done == sizeof header && !sends;
      if (isComplete && (header.call != expected.call || header.bytes != expected.bytes))
        return "carried " + std::to_string(header.bytes) + " bytes of call " +
               std::to_string(header.call) + " where " + std::to_string(expected.bytes) +
               " of call " + std::to_string(expected.call) + " were due";
    }
    return "";
  }
};

/// What the rank that connects says first: who it is, whom it looks for, and a number used once.
struct Greeting {
  int from = 0, to = 0;
  std::string nonce;

  std::string packed() const {
    return pack({version, std::to_string(from), std::to_string(to), nonce});
  }
  /// Nothing for a stranger's.
  static std::optional<Greeting> of(const std::string &packed) {
    const std::vector<std::string> fields = unpack(packed);
    if (fields.size() != 4 || fields[0] != version || fields[3].size() != nonceBytes)
      return std::nullopt;
    return Greeting{.from = numberOf(fields[1]), .to = numberOf(fields[2]), .nonce = fields[3]};
  }
};

/// What the other says to that: a number of its own, and the seal of both.
struct Answer {
  std::string nonce, seal;

  std::string packed() const { return pack({nonce, seal}); }
  static std::optional<Answer> of(const std::string &packed) {
    const std::vector<std::string> fields = unpack(packed);
    if (fields.size() != 2 || fields[0].size() != nonceBytes)
      return std::nullopt;
    return Answer{.nonce = fields[0], .seal = fields[1]};
  }
};

} // namespace

Result<std::unique_ptr<Mesh>> Mesh::open(const std::string &address) {
  auto listener = listenOn(0, address);
  if (!listener)
    return listener.error();
  return std::unique_ptr<Mesh>(new Mesh(std::move(*listener), address));
}

std::string Mesh::whereabouts() const {
  std::vector<std::string> texts =
      address.empty() ? ownAddresses() : std::vector<std::string>{address};
  texts.push_back(std::to_string(portOf(listener)));
  return pack(texts);
}

void Mesh::know(int ownRank, const std::vector<Peer> &peers, const std::string &keyGiven) {
  own = ownRank;
  key = keyGiven;
  for (const Peer &peer : peers) {
    std::vector<std::string> texts = unpack(peer.mine);
    ports.push_back(texts.empty() ? 0 : numberOf(texts.back()));
    if (!texts.empty())
      texts.pop_back();
    // An address that reached it already is the likeliest.
    if (!peer.address.empty())
      texts.insert(texts.begin(), peer.address);
    addresses.push_back(texts);
  }
}

std::string Mesh::sealOf(int from, int to, const std::string &nonces) const {
  return macOf(key, {version, nonces, std::to_string(from), std::to_string(to)});
}

bool Mesh::hear(Guest &guest) {
  // No more than its frame: what follows belongs to the exchange.
  while (true) {
    size_t wanted = 4;
    if (guest.in.size() >= 4) {
      size_t size = 0;
      for (size_t byte = 0; byte < 4; ++byte)
        size |= size_t(uint8_t(guest.in[byte])) << (8 * byte);
      if (size > mostGreeting)
        return false;
      wanted += size;
      if (guest.in.size() == wanted)
        break;
    }
    char buffer[mostGreeting + 4];
    const ssize_t count = ::recv(guest.socket.fd(), buffer, wanted - guest.in.size(), 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      return true;
    if (count <= 0)
      return false;
    guest.in.append(buffer, size_t(count));
  }
  const std::string message = guest.in.substr(4);
  guest.in.clear();
  const Deadline now = Clock::now();
  if (guest.rank < 0) {
    const std::optional<Greeting> greeting = Greeting::of(message);
    if (!greeting || greeting->to != own)
      return false; // a stranger, or looking for another rank
    guest.rank = greeting->from;
    if (guest.rank <= own || guest.rank >= int(ports.size()))
      return false;
    const std::string nonce = randomBytes(nonceBytes), nonces = greeting->nonce + nonce;
    guest.seal = sealOf(guest.rank, own, nonces);
    guest.deadline = now + guestTime;
    // It fits into the empty buffer.
    const Answer answer = {.nonce = nonce, .seal = sealOf(own, guest.rank, nonces)};
    return bool(sendFrame(guest.socket, answer.packed(), now));
  }
  if (isSame(message, guest.seal))
    connections[guest.rank] = std::move(guest.socket);
  return false;
}

void Mesh::receiveGuests() {
  std::vector<pollfd> entries = {{listener.fd(), POLLIN, 0}};
  for (const Guest &guest : guests)
    entries.push_back({guest.socket.fd(), POLLIN, 0});
  ::poll(entries.data(), entries.size(), int(pollTime.count()));
  size_t at = 1;
  for (auto guest = guests.begin(); guest != guests.end(); ++at) {
    // One that was left alone while nobody was waited for is heard first.
    const bool stays = entries[at].revents ? hear(*guest) : Clock::now() < guest->deadline;
    guest = stays ? std::next(guest) : guests.erase(guest);
  }
  if (!entries[0].revents)
    return;
  const Deadline now = Clock::now();
  while (Socket socket = acceptFrom(listener, now)) {
    if (guests.size() == mostGuests)
      guests.pop_front(); // who has been silent for longest
    guests.push_back({std::move(socket), now + guestTime, "", -1, ""});
  }
}

Result<Socket> Mesh::connect(int rank, const std::function<bool()> &stop) {
  std::string why = "it gave no address";
  for (const std::string &at : addresses[size_t(rank)]) {
    auto socket = connectTo(at, ports[size_t(rank)], Clock::now() + attemptTime);
    if (!socket) {
      why = socket.error().message;
      continue;
    }
    const Greeting greeting = {.from = own, .to = rank, .nonce = randomBytes(nonceBytes)};
    if (Status status = sendFrame(*socket, greeting.packed(), Clock::now() + attemptTime);
        !status) {
      why = at + ": " + status.error().message;
      continue;
    }
    // It answers when it comes to the same exchange; a stranger closes, or does not answer right.
    pollfd entry = {socket->fd(), POLLIN, 0};
    int ready = 0;
    while ((ready = ::poll(&entry, 1, int(pollTime.count()))) == 0 || (ready < 0 && errno == EINTR))
      if (stop())
        return failed("stopped");
    auto frame = receiveFrame(*socket, mostGreeting, Clock::now() + attemptTime);
    if (!frame) {
      why = at + ": " + frame.error().message;
      continue;
    }
    const std::optional<Answer> answer = Answer::of(*frame);
    const std::string nonces = greeting.nonce + (answer ? answer->nonce : "");
    if (!answer || !isSame(answer->seal, sealOf(rank, own, nonces))) {
      why = at + ": somebody else answers there";
      continue;
    }
    if (Status status = sendFrame(*socket, sealOf(own, rank, nonces), Clock::now() + attemptTime);
        !status) {
      why = at + ": " + status.error().message;
      continue;
    }
    return std::move(*socket);
  }
  return failed("cannot be made: " + why);
}

std::optional<Transport::Loss> Mesh::meet(const std::vector<int> &ranks,
                                          const std::function<bool()> &stop) {
  for (int rank : ranks) {
    if (rank < own && !connections.count(rank)) {
      auto socket = connect(rank, stop);
      if (!socket)
        return Loss{stop() ? -1 : rank, socket.error().message};
      connections[rank] = std::move(*socket);
    }
  }
  for (int rank : ranks)
    while (rank > own && !connections.count(rank)) {
      if (stop())
        return Loss{};
      receiveGuests();
    }
  return std::nullopt;
}

std::optional<Transport::Loss> Mesh::exchange(const std::vector<Send> &sends,
                                              const std::vector<Receive> &receives, uint64_t call,
                                              const std::function<bool()> &stop) {
  std::vector<int> ranks;
  for (const Send &send : sends)
    ranks.push_back(send.rank);
  for (const Receive &receive : receives)
    ranks.push_back(receive.rank);
  if (std::optional<Loss> loss = meet(ranks, stop))
    return loss;

  std::vector<Flow> flows;
  for (const Send &send : sends)
    flows.push_back({send.rank,
                     connections[send.rank].fd(),
                     static_cast<char *>(const_cast<void *>(send.data)),
                     send.bytes,
                     true,
                     {call, send.bytes}});
  for (const Receive &receive : receives)
    flows.push_back({receive.rank,
                     connections[receive.rank].fd(),
                     static_cast<char *>(receive.data),
                     receive.bytes,
                     false,
                     {}});

  std::vector<pollfd> entries;
  while (true) {
    entries.clear();
    for (Flow &flow : flows) {
      if (std::string why = flow.advance({call, flow.bytes}); !why.empty())
        return Loss{flow.rank, why};
      if (!flow.isOver())
        entries.push_back({flow.fd, short(flow.sends ? POLLOUT : POLLIN), 0});
    }
    if (entries.empty())
      return std::nullopt;
    ::poll(entries.data(), entries.size(), int(pollTime.count()));
    if (stop())
      return Loss{};
  }
}

} // namespace nano
