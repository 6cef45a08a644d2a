// A stranger at rank 0's door.
#include "runtime/comm/Control.h"
#include "runtime/comm/Secret.h"
#include "tests/fuzz/Targets.h"

#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace nano::fuzz {

namespace {

/// Starts a rank 0 that waits for another one until the process ends; its port.
int openDoor() {
  ControlOptions options;
  options.world = 2;
  options.job = "fuzz";
  options.key = randomBytes(32);
  options.joinTimeout = std::chrono::hours(1000);
  options.mostFrame = 1 << 16;
  Result<Socket> listener = listenOn(0, "127.0.0.1");
  require(bool(listener), "a port is free");
  const int port = portOf(*listener);
  std::thread([options, door = std::move(*listener)]() mutable {
    (void)Control::host(options, std::move(door), "");
    require(false, "no stranger gets a seat, or ends the wait for others");
  }).detach();
  return port;
}

} // namespace

void join(std::string_view bytes) {
  (void)unpack(std::string(bytes));
  (void)numberOf(std::string(bytes));
  static const int port = openDoor();
  const Result<Socket> stranger =
      connectTo("127.0.0.1", port, std::chrono::steady_clock::now() + std::chrono::seconds(5));
  require(bool(stranger), "the door can be reached");
  (void)::send(stranger->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(stranger->fd(), SHUT_WR);
  // Rank 0 greets, hears what there is, and closes; one that never did would hang here.
  while (true) {
    pollfd entry = {stranger->fd(), POLLIN, 0};
    ::poll(&entry, 1, /*timeout=*/-1);
    char heard[4096];
    const ssize_t count = ::recv(stranger->fd(), heard, sizeof heard, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      break;
  }
}

} // namespace nano::fuzz
