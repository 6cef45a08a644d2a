// Messages over non-blocking sockets, all of an exchange at once.
#include "runtime/comm/Mesh.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace nano {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds pollTime(100), attemptTime(2000);
constexpr uint32_t mostGreeting = 4096;

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

} // namespace

Result<std::unique_ptr<Mesh>> Mesh::open() {
  auto listener = listenOn(0);
  if (!listener)
    return listener.error();
  return std::unique_ptr<Mesh>(new Mesh(std::move(*listener)));
}

std::string Mesh::whereabouts() const {
  std::vector<std::string> texts = ownAddresses();
  texts.push_back(std::to_string(portOf(listener)));
  return pack(texts);
}

void Mesh::know(int ownRank, const std::vector<Peer> &peers, const std::string &jobName) {
  own = ownRank;
  job = jobName;
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

std::string Mesh::greeting(int from, int to) const {
  return pack({"nanorun mesh 1", job, std::to_string(from), std::to_string(to)});
}

void Mesh::acceptOne() {
  Socket socket = acceptFrom(listener, Clock::now() + pollTime);
  if (!socket)
    return;
  auto hello = receiveFrame(socket, mostGreeting, Clock::now() + attemptTime);
  if (!hello)
    return;
  std::vector<std::string> fields = unpack(*hello);
  if (fields.size() != 4)
    return;
  const int rank = numberOf(fields[2]);
  if (rank <= own || rank >= int(ports.size()) || *hello != greeting(rank, own))
    return; // another run's, or looking for another rank
  if (sendFrame(socket, greeting(own, rank), Clock::now() + attemptTime))
    connections[rank] = std::move(socket);
}

Result<Socket> Mesh::connect(int rank, const std::function<bool()> &stop) {
  std::string why = "it gave no address";
  for (const std::string &address : addresses[size_t(rank)]) {
    auto socket = connectTo(address, ports[size_t(rank)], Clock::now() + attemptTime);
    if (!socket) {
      why = socket.error().message;
      continue;
    }
    if (Status status = sendFrame(*socket, greeting(own, rank), Clock::now() + attemptTime);
        !status) {
      why = address + ": " + status.error().message;
      continue;
    }
    // It answers when it comes to the same exchange; a stranger closes, or does not answer right.
    pollfd entry = {socket->fd(), POLLIN, 0};
    int ready = 0;
    while ((ready = ::poll(&entry, 1, int(pollTime.count()))) == 0 || (ready < 0 && errno == EINTR))
      if (stop())
        return failed("stopped");
    auto answer = receiveFrame(*socket, mostGreeting, Clock::now() + attemptTime);
    if (answer && *answer == greeting(rank, own))
      return std::move(*socket);
    why = address + ": " + (answer ? "somebody else answers there" : answer.error().message);
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
      acceptOne();
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
