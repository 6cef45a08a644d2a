// How tensors travel between ranks that are processes: messages of known sizes, all at once.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// Carries data of one rank to others and back. Calls come from the rank's thread.
class Transport {
public:
  struct Send {
    int rank = 0;
    const void *data = nullptr;
    uint64_t bytes = 0;
  };
  struct Receive {
    int rank = 0;
    void *data = nullptr;
    uint64_t bytes = 0;
  };
  /// Why an exchange did not end well; `rank` -1: it was stopped.
  struct Loss {
    int rank = -1;
    std::string reason; ///< what the connection to it did: "broke: …"
  };

  virtual ~Transport() = default;
  /// Sends and receives all of these, at most one each way for a pair of ranks; returns when all is
  /// done, or when `stop` says so, which it asks at least every tenth of a second. `call` tells
  /// exchanges apart and is the same on both ends.
  virtual std::optional<Loss> exchange(const std::vector<Send> &sends,
                                       const std::vector<Receive> &receives, uint64_t call,
                                       const std::function<bool()> &stop) = 0;
  /// After the last exchange of all ranks.
  virtual Status finish() { return ok(); }
  /// For the log: what it is, with its version.
  virtual std::string describe() const = 0;
};

/// A transport that also starts the ranks' acquaintance.
class MpiTransport : public Transport {
public:
  virtual int rank() const = 0;
  virtual int world() const = 0;
  /// Rank 0's text, on every rank.
  virtual Result<std::string> tell(const std::string &text) = 0;
};

/// The entry point of libnano-mpi.so, `extern "C"`; called once; null and `*error` filled when MPI
/// does not start.
using CreateMpiFn = MpiTransport *(*)(Error * error);
inline constexpr const char *createMpiSymbol = "nanoCreateMpi";

} // namespace nano
