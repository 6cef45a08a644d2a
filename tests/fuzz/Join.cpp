// A stranger at rank 0's door.
#include "runtime/comm/Control.h"
#include "runtime/comm/Secret.h"
#include "tests/fuzz/Targets.h"

#include <chrono>
#include <sys/socket.h>

namespace nano::fuzz {

void join(std::string_view bytes) {
  (void)unpack(std::string(bytes));
  (void)numberOf(std::string(bytes));
  static const std::string key = randomBytes(32);
  ControlOptions options;
  options.world = 2;
  options.job = "fuzz";
  options.key = key;
  options.joinTimeout = std::chrono::milliseconds(2);
  options.mostFrame = 1 << 16;
  Result<Socket> listener = listenOn(0, "127.0.0.1");
  require(bool(listener), "a port is free");
  const Result<Socket> stranger = connectTo(
      "127.0.0.1", portOf(*listener), std::chrono::steady_clock::now() + std::chrono::seconds(5));
  require(bool(stranger), "the door can be reached");
  (void)::send(stranger->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(stranger->fd(), SHUT_WR);
  require(!Control::host(options, std::move(*listener), ""), "no stranger gets a seat");
}

} // namespace nano::fuzz
