// TCP through poll, so that nothing waits longer than it may.
#include "runtime/comm/Sockets.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nano {
namespace {

std::string reason() { return std::strerror(errno); }

/// Milliseconds that poll may wait.
int remaining(Deadline deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return int(std::clamp<int64_t>(left.count(), 0, 60000));
}

bool isReady(const Socket &socket, short events, Deadline deadline) {
  pollfd entry = {socket.fd(), events, 0};
  while (true) {
    int count = ::poll(&entry, 1, remaining(deadline));
    if (count > 0)
      return true;
    if ((count < 0 && errno != EINTR) || std::chrono::steady_clock::now() >= deadline)
      return false;
  }
}

void configure(const Socket &socket) {
  ::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
  int yes = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::string textOf(const sockaddr *address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  if (::getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  std::string text = host;
  if (text.rfind("::ffff:", 0) == 0 && text.find('.') != std::string::npos)
    text = text.substr(7); // an IPv4 address on a socket for both
  return text;
}

Socket tryListen(int family, int port, const std::string &at) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket)
    return {};
  int yes = 1, no = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_storage address = {};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    auto *six = reinterpret_cast<sockaddr_in6 *>(&address);
    six->sin6_family = AF_INET6;
    six->sin6_addr = in6addr_any;
    if (!at.empty() && ::inet_pton(AF_INET6, at.c_str(), &six->sin6_addr) != 1)
      return {};
    six->sin6_port = htons(uint16_t(port));
    size = sizeof(sockaddr_in6);
  } else {
    auto *four = reinterpret_cast<sockaddr_in *>(&address);
    four->sin_family = AF_INET;
    four->sin_addr.s_addr = htonl(INADDR_ANY);
    if (!at.empty() && ::inet_pton(AF_INET, at.c_str(), &four->sin_addr) != 1)
      return {};
    four->sin_port = htons(uint16_t(port));
  }
  if (::bind(socket.fd(), reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      ::listen(socket.fd(), 1024) != 0)
    return {};
  configure(socket);
  return socket;
}

Status transfer(const Socket &connection, char *data, size_t size, bool sends, Deadline deadline) {
  size_t done = 0;
  while (done < size) {
    ssize_t count = sends ? ::send(connection.fd(), data + done, size - done, MSG_NOSIGNAL)
                          : ::recv(connection.fd(), data + done, size - done, 0);
    if (count > 0) {
      done += size_t(count);
      continue;
    }
    if (count == 0)
      return failed("the connection was closed");
    if (errno != EAGAIN && errno != EINTR)
      return failed(reason());
    if (!isReady(connection, sends ? POLLOUT : POLLIN, deadline))
      return failed("no answer in time");
  }
  return ok();
}

} // namespace

Socket::~Socket() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<Socket> listenOn(int port, const std::string &address) {
  const bool isFour = address.find('.') != std::string::npos;
  Socket socket = isFour ? Socket() : tryListen(AF_INET6, port, address);
  if (!socket && (isFour || address.empty()))
    socket = tryListen(AF_INET, port, address);
  if (!socket)
    return failed("cannot listen on port " + std::to_string(port) + ": " + reason());
  return socket;
}

std::string addressTowards(const std::string &host) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0)
    return "";
  std::string own;
  for (addrinfo *at = found; at && own.empty(); at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    if (socket && ::connect(socket.fd(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(socket.fd(), reinterpret_cast<sockaddr *>(&address), &size) == 0)
      own = textOf(reinterpret_cast<sockaddr *>(&address), size);
    if (own.find('%') != std::string::npos) // local to a link
      own.clear();
  }
  ::freeaddrinfo(found);
  return own;
}

bool isLoopback(const std::string &host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

int portOf(const Socket &listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(listener.fd(), reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in *>(&address)->sin_port);
}

Socket acceptFrom(const Socket &listener, Deadline deadline) {
  while (isReady(listener, POLLIN, deadline)) {
    Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      configure(socket);
      return socket;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      return {};
  }
  return {};
}

Result<Socket> connectTo(const std::string &host, int port, Deadline deadline) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return failed(host + ": " + ::gai_strerror(code));
  std::string why = "no address";
  Socket connected;
  for (addrinfo *at = found; at && !connected; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) {
      why = reason();
      continue;
    }
    configure(socket);
    if (::connect(socket.fd(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
      why = reason();
      continue;
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (!isReady(socket, POLLOUT, deadline)) {
      why = "no answer in time";
    } else if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      why = std::strerror(error);
    } else {
      connected = std::move(socket);
    }
  }
  ::freeaddrinfo(found);
  if (!connected)
    return failed(host + ":" + std::to_string(port) + ": " + why);
  return connected;
}

std::vector<std::string> ownAddresses() {
  std::vector<std::string> reachable, loopback;
  ifaddrs *interfaces = nullptr;
  if (::getifaddrs(&interfaces) == 0) {
    for (ifaddrs *at = interfaces; at; at = at->ifa_next) {
      if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
        continue;
      bool isFour = at->ifa_addr->sa_family == AF_INET;
      bool isSix = at->ifa_addr->sa_family == AF_INET6;
      if (!isFour && !isSix)
        continue;
      std::string text = textOf(at->ifa_addr, isFour ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      if (text.empty() || text.find('%') != std::string::npos) // local to a link
        continue;
      (at->ifa_flags & IFF_LOOPBACK ? loopback : reachable).push_back(text);
    }
    ::freeifaddrs(interfaces);
  }
  if (loopback.empty())
    loopback.emplace_back("127.0.0.1");
  reachable.insert(reachable.end(), loopback.begin(), loopback.end());
  return reachable;
}

std::string addressOf(const Socket &connection) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getpeername(connection.fd(), reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return "";
  return textOf(reinterpret_cast<sockaddr *>(&address), size);
}

std::string hostName() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0)
    return "?";
  return name;
}

std::string frameOf(const std::string &payload) {
  std::string frame;
  for (int byte = 0; byte < 4; ++byte)
    frame += char(uint8_t(payload.size() >> (8 * byte)));
  return frame + payload;
}

Status sendFrame(const Socket &connection, const std::string &payload, Deadline deadline) {
  std::string frame = frameOf(payload);
  return transfer(connection, frame.data(), frame.size(), /*sends=*/true, deadline);
}

Result<std::string> receiveFrame(const Socket &connection, uint32_t most, Deadline deadline) {
  char head[4];
  if (Status status = transfer(connection, head, sizeof head, /*sends=*/false, deadline); !status)
    return status.error();
  uint32_t size = 0;
  for (int byte = 0; byte < 4; ++byte)
    size |= uint32_t(uint8_t(head[byte])) << (8 * byte);
  if (size > most)
    return failed("a message of " + std::to_string(size) + " bytes, which none of ours has");
  std::string payload(size, '\0');
  if (Status status = transfer(connection, payload.data(), size, /*sends=*/false, deadline);
      !status)
    return status.error();
  return payload;
}

int numberOf(const std::string &text) {
  int value = 0;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && value >= 0 ? value : -1;
}

std::string pack(const std::vector<std::string> &texts) {
  std::string packed;
  for (const std::string &text : texts)
    packed += frameOf(text);
  return packed;
}

std::vector<std::string> unpack(const std::string &packed) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < packed.size();) {
    if (packed.size() - at < 4)
      return {};
    size_t size = 0;
    for (size_t byte = 0; byte < 4; ++byte)
      size |= size_t(uint8_t(packed[at + byte])) << (8 * byte);
    at += 4;
    if (packed.size() - at < size)
      return {};
    texts.push_back(packed.substr(at, size));
    at += size;
  }
  return texts;
}

} // namespace nano
