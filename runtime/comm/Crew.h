// The ranks of a run: how they are started and joined, and the end that they come to together.
#pragma once

#include "base/Status.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Launch.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace nano {

struct CrewOptions {
  Launch launch;
  /// How long a rank may make no progress while another waits for it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long rank 0 and the others look for each other at the start.
  std::chrono::milliseconds joinTimeout = std::chrono::minutes(5);
  /// Ranks that are processes: called in the background with the reason when another rank failed
  /// and this one has not ended within some seconds (stopGrace); ends the process. May be empty.
  std::function<void(const std::string &message)> stop;
};

/// How long a process whose rank hangs in something else outlives the failure of another. Under MPI
/// it is shorter, since mpirun itself ends what is left after a second.
inline constexpr std::chrono::milliseconds stopGrace(3000), stopGraceOfMpi(500);

/// Ranks of one run as this process sees them: all of them, as threads, or one of them.
class Crew {
public:
  /// Joins the ranks of the other processes, where there are some. They prove to each other that
  /// they know the job's secret: the one that the launch has; under MPI one that rank 0 makes and
  /// MPI tells; on one machine one that rank 0 makes and hands to processes of its user. Ranks on
  /// several machines that were given none have what the launcher calls the job in its place, which
  /// others may know: caution() says so. BadInput: this build has no MPI, MPI disagrees with the
  /// environment, or rank 0 refuses this rank; Failed: the others did not come.
  static Result<std::unique_ptr<Crew>> start(const CrewOptions &options);
  /// `world` threads.
  static std::unique_ptr<Crew>
  threads(int world, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  virtual ~Crew() = default;

  virtual int world() const = 0;
  /// Whether rank 0 is here: it writes what is written once.
  virtual bool hasFirst() const = 0;
  /// Ranks that share this machine.
  virtual int onMachine() const = 0;
  /// What joins them, for the log: "threads", "TCP", "Open MPI v4.1.4".
  virtual std::string describe() const = 0;
  /// What the user should know of how they were joined; empty where there is nothing to be said.
  virtual std::string caution() const { return ""; }

  /// Before run(), by all processes: what that of rank 0 gives. `what` names it in messages.
  virtual Result<std::string> tell(const std::string &mine, const char *what) = 0;
  /// Calls `rank` for each rank of this process, on a thread for each; called once. When all
  /// have done well everywhere, it returns ok everywhere. The first error of this process ends the
  /// others, wherever they are, and is returned.
  virtual Status run(const std::function<Status(Communicator &)> &rank) = 0;
  /// Instead of run(): this process cannot go on. The others end with that reason.
  virtual void abort(const std::string &reason) = 0;
};

} // namespace nano
