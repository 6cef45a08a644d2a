// Tensors over TCP: a connection between any two ranks that exchange something, made when they
// first do.
#pragma once

#include "runtime/comm/Control.h"
#include "runtime/comm/Sockets.h"
#include "runtime/comm/Transport.h"

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nano {

class Mesh : public Transport {
public:
  /// Listens for the others at one of this machine's addresses; empty: at all.
  static Result<std::unique_ptr<Mesh>> open(const std::string &address = "");
  /// Where the others reach this rank, as text for Control::join and Control::host.
  std::string whereabouts() const;
  /// After the ranks have met. `key` keeps out strangers: only ranks of this run know it, and prove
  /// so to each other without sending it.
  void know(int ownRank, const std::vector<Peer> &peers, const std::string &key);

  std::optional<Loss> exchange(const std::vector<Send> &sends, const std::vector<Receive> &receives,
                               uint64_t call, const std::function<bool()> &stop) override;
  std::string describe() const override { return "TCP"; }

private:
  /// A connection that has come; nobody waits for one of them alone.
  struct Guest {
    Socket socket;
    Deadline deadline;
    std::string in;   ///< what has come of its next frame
    int rank = -1;    ///< what it says it is, once it has
    std::string seal; ///< what it must send to prove it
  };

  Mesh(Socket listener, std::string address)
      : listener(std::move(listener)), address(std::move(address)) {}
  /// Connections to all of these ranks: to smaller ones this rank connects, larger ones come.
  std::optional<Loss> meet(const std::vector<int> &ranks, const std::function<bool()> &stop);
  Result<Socket> connect(int rank, const std::function<bool()> &stop);
  /// Waits a moment for those that come, and hears all of them.
  void receiveGuests();
  /// Whether the guest is to be heard further.
  bool hear(Guest &guest);
  /// What rank `from` sends rank `to` to prove that it knows the key; `nonces`: what both made up.
  std::string sealOf(int from, int to, const std::string &nonces) const;

  Socket listener;
  std::string address;
  std::list<Guest> guests; ///< those that came first in front
  int own = 0;
  std::string key;
  std::vector<std::vector<std::string>> addresses; ///< by rank, likeliest first
  std::vector<int> ports;
  std::map<int, Socket> connections; ///< by rank
};

} // namespace nano
