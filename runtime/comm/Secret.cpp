// Secrets from files and variables, keyed hashes by libsodium, and a Unix socket for one machine.
#include "runtime/comm/Secret.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace nano {
namespace {

constexpr uint32_t mostKey = 4096;

void startSodium() {
  static const bool isStarted = sodium_init() >= 0;
  if (!isStarted)
    throw std::runtime_error("libsodium does not start: the system gives no random numbers");
}

/// An abstract name, which is no file and belongs to the network namespace as ports do.
socklen_t nameOfPlace(int port, sockaddr_un &address) {
  const std::string name = fmt::format("nanorun-key-{}", port);
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool isSameUser(const Socket &connection) {
  ucred other = {};
  socklen_t size = sizeof other;
  return ::getsockopt(connection.fd(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

Result<std::string> readSecret(const std::string &path) {
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("--job-secret {}: {}", path, what));
  };
  Socket file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat found = {};
  if (!file || ::fstat(file.fd(), &found) != 0)
    return wrong(fmt::format("cannot be opened: {}", std::strerror(errno)));
  if (!S_ISREG(found.st_mode))
    return wrong("is not a regular file");
  if ((found.st_mode & 077) != 0)
    return wrong(fmt::format("other users may read or change it; chmod 600 {}", path));
  char text[mostKey + 1];
  const ssize_t count = ::read(file.fd(), text, sizeof text);
  if (count < 0)
    return wrong(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (count > ssize_t(mostKey))
    return wrong(fmt::format("is longer than {} bytes", mostKey));
  return std::string(text, size_t(count));
}

} // namespace

Result<std::string> givenSecret(const std::string &path,
                                const std::optional<std::string> &variable) {
  if (path.empty() && !variable)
    return std::string();
  std::string name = secretVariable, secret = variable.value_or("");
  if (!path.empty()) {
    Result<std::string> text = readSecret(path);
    if (!text)
      return text;
    name = "--job-secret " + path;
    secret = std::move(*text);
  }
  constexpr const char *space = " \t\r\n\f\v";
  const size_t begin = std::min(secret.find_first_not_of(space), secret.size());
  secret = secret.substr(begin, secret.find_last_not_of(space) + 1 - begin);
  if (secret.size() < leastSecret)
    return badInput(fmt::format("{}: has {} characters, a secret has at least {}; make one with "
                                "openssl rand -hex 32",
                                name, secret.size(), leastSecret));
  return secret;
}

std::string randomBytes(size_t count) {
  startSodium();
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string macOf(const std::string &key, const std::string &text) {
  startSodium();
  auto bytes = [](const std::string &from) {
    return reinterpret_cast<const unsigned char *>(from.data());
  };
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(key), key.size());
  crypto_auth_hmacsha256_update(&state, bytes(text), text.size());
  std::string mac(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char *>(mac.data()));
  return mac;
}

std::string macOf(const std::string &key, const std::vector<std::string> &texts) {
  return macOf(key, pack(texts));
}

bool isMacOf(const std::string &mac, const std::string &key,
             const std::vector<std::string> &texts) {
  return isSame(mac, macOf(key, texts));
}

bool isSame(const std::string &a, const std::string &b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<Socket> openKeyPlace(int port) {
  Socket place(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  const socklen_t size = nameOfPlace(port, address);
  if (!place || ::bind(place.fd(), reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      ::listen(place.fd(), 1024) != 0)
    return failed(fmt::format("the job's secret cannot be shared on this machine: {}; give one in "
                              "{} or --job-secret",
                              std::strerror(errno), secretVariable));
  return place;
}

void handOutKey(const Socket &place, const std::string &key) {
  while (true) {
    const Socket guest(::accept4(place.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest)
      return;
    // It fits into the empty buffer.
    if (isSameUser(guest))
      (void)sendFrame(guest, key, std::chrono::steady_clock::now());
  }
}

std::optional<std::string> askForKey(int port, Deadline deadline) {
  const Socket place(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  const socklen_t size = nameOfPlace(port, address);
  if (!place || ::connect(place.fd(), reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      !isSameUser(place))
    return std::nullopt;
  Result<std::string> key = receiveFrame(place, mostKey, deadline);
  return key ? std::optional(*key) : std::nullopt;
}

} // namespace nano
