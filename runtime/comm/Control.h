// The control plane of ranks that are processes: who is there, what each does, small texts for all,
// and who failed. It carries no tensors.
//
// Rank 0 listens and every other rank keeps one TCP connection to it. Who comes proves that it
// knows the job's key, and rank 0 does so too, each by a keyed hash over random bytes of both: the
// key itself is not sent, and what was heard once is of no use. All who come are heard side by
// side; those that say nothing, or the wrong thing, keep nobody. A thread of each process tells the
// others, every tenth of a second where something changed and at least once a second, what its rank
// does. So all find out, without a collective, when a rank
// - failed: it says so itself;
// - died: the operating system closes its connection;
// - cannot be reached: no sign of it for 30 s, or for the timeout where that is shorter;
// - hangs: it makes no progress for the timeout while another has been waiting for as long;
// - is elsewhere: it makes another call than others with the same number of calls.
// Rank 0 decides, so that all ranks end with the same line; about rank 0 each rank decides itself.
#pragma once

#include "base/Status.h"
#include "runtime/comm/Sockets.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nano {

struct ControlOptions {
  int rank = 0, world = 1;
  std::string job; ///< equal on all ranks
  std::string key; ///< equal on all ranks; strangers do not know it
  /// Ranks other than 0 have no `key`: processes of the user on this machine get it at the place of
  /// that port (`askForKey`); 0: they have it.
  int keyPlace = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes(10); ///< without progress
  std::chrono::milliseconds joinTimeout = std::chrono::minutes(5);
  /// After a failure, called in the background when this end has not left within `grace`: ends the
  /// process, whatever its rank hangs in. May be empty.
  std::function<void(const std::string &message)> stop;
  std::chrono::milliseconds grace = std::chrono::seconds(3);
  /// Bytes of the longest message; what all ranks exchange at once travels in one. Equal on all.
  uint32_t mostFrame = uint32_t(1) << 28;
};

/// What the others know about a rank from the start.
struct Peer {
  std::string host;    ///< its machine's name
  std::string process; ///< its number there
  std::string address; ///< where it was seen; of rank 0 the one that this rank reached it at
  std::string mine;    ///< what it brought
};

/// One rank's end. Its calls come from the rank's thread, but for failure() and broken().
class Control {
public:
  /// Rank 0 waits at `listener` until all have come; Failed names those that have not, or one that
  /// came and went away. Who does not fit (another key, job or number of ranks, a rank that is
  /// there already) is told so, and those that do are waited for. Hands the key out at `keyPlace`,
  /// where there is one.
  static Result<std::unique_ptr<Control>> host(const ControlOptions &options, Socket listener,
                                               const std::string &mine, Socket keyPlace = Socket());
  /// Another rank looks for rank 0 at each of `hosts` until it is there. BadInput: rank 0 refuses
  /// it; Failed: after the join timeout, when rank 0 goes away, or ends because others did not
  /// come.
  static Result<std::unique_ptr<Control>> join(const ControlOptions &options,
                                               const std::vector<std::string> &hosts, int port,
                                               const std::string &mine);
  /// Leaves: the others take the end of the connection for no failure.
  ~Control();
  Control(const Control &) = delete;
  Control &operator=(const Control &) = delete;

  const std::vector<Peer> &peers() const;
  /// The job's key.
  const std::string &key() const;

  /// This rank starts a call of that description, and waits in it until finish() or doing().
  Status begin(const std::string &call);
  void finish();
  void doing(const std::string &what);
  void waiting(const std::string &what);
  /// Every rank's text, by rank; between begin() and finish(). The run fails for texts that are
  /// longer together than a message may be.
  Result<std::vector<std::string>> exchange(const std::string &mine);
  void abort(const std::string &reason);
  std::optional<Error> failure() const;
  bool broken() const;
  /// For a transport that lost rank `rank`: the reason that all ranks agree on, when it comes
  /// within two seconds; else `reason` becomes that of this rank.
  Error settle(int rank, const std::string &reason);

private:
  struct Impl;
  explicit Control(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace nano
