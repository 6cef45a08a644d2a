// TCP connections between the processes of a run: addresses, frames with a length, and time limits
// on everything.
#pragma once

#include "base/Status.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nano {

using Deadline = std::chrono::steady_clock::time_point;

/// A file descriptor that closes with the object.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket();
  int fd() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }

private:
  int descriptor = -1;
};

/// Listens at one address of the machine, as text, or on all of them where it is empty; port 0: one
/// that is free.
Result<Socket> listenOn(int port, const std::string &address = "");
/// The address of this machine that connections to `host` come from, with which no packet is sent;
/// empty where there is no way to it.
std::string addressTowards(const std::string &host);
/// Whether it is one of the addresses, or the name, by which a machine knows itself only.
bool isLoopback(const std::string &host);
/// The port that a listener has.
int portOf(const Socket &listener);
/// The next connection to a listener, non-blocking; none (false) when nobody came before the
/// deadline.
Socket acceptFrom(const Socket &listener, Deadline deadline);
/// One attempt at every address of the host, non-blocking socket; fails at the deadline.
Result<Socket> connectTo(const std::string &host, int port, Deadline deadline);

/// This machine's addresses as text: those that others may reach first, then the loopback's.
std::vector<std::string> ownAddresses();
/// The other end's address as text.
std::string addressOf(const Socket &connection);
/// This machine's name.
std::string hostName();

/// A frame: its length in 4 bytes, little end first, and that many bytes.
std::string frameOf(const std::string &payload);
Status sendFrame(const Socket &connection, const std::string &payload, Deadline deadline);
/// Fails for frames longer than `most` bytes, so that a stranger cannot fill the memory.
Result<std::string> receiveFrame(const Socket &connection, uint32_t most, Deadline deadline);

/// Several texts as one, and back; unpack gives nothing for what pack did not make.
std::string pack(const std::vector<std::string> &texts);
std::vector<std::string> unpack(const std::string &packed);
/// The whole number that a text is; -1 where it is none of at least 0.
int numberOf(const std::string &text);

} // namespace nano
