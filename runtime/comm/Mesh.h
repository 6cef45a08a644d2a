// Tensors over TCP: a connection between any two ranks that exchange something, made when they
// first do.
#pragma once

#include "runtime/comm/Control.h"
#include "runtime/comm/Sockets.h"
#include "runtime/comm/Transport.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nano {

class Mesh : public Transport {
public:
  /// Listens for the others.
  static Result<std::unique_ptr<Mesh>> open();
  /// Where the others reach this rank, as text for Control::join and Control::host.
  std::string whereabouts() const;
  /// After the ranks have met. `job` keeps out strangers: only ranks of this run know it.
  void know(int ownRank, const std::vector<Peer> &peers, const std::string &job);

  std::optional<Loss> exchange(const std::vector<Send> &sends, const std::vector<Receive> &receives,
                               uint64_t call, const std::function<bool()> &stop) override;
  std::string describe() const override { return "TCP"; }

private:
  explicit Mesh(Socket listener) : listener(std::move(listener)) {}
  /// Connections to all of these ranks: to smaller ones this rank connects, larger ones come.
  std::optional<Loss> meet(const std::vector<int> &ranks, const std::function<bool()> &stop);
  Result<Socket> connect(int rank, const std::function<bool()> &stop);
  void acceptOne();
  std::string greeting(int from, int to) const;

  Socket listener;
  int own = 0;
  std::string job;
  std::vector<std::vector<std::string>> addresses; ///< by rank, likeliest first
  std::vector<int> ports;
  std::map<int, Socket> connections; ///< by rank
};

} // namespace nano
