// Which rank this process is, and where the others are: from the environment that mpirun, Slurm or
// torchrun make, or all ranks as threads of this process.
#pragma once

#include "base/Status.h"

#include <functional>
#include <optional>
#include <string>

namespace nano {

/// How the ranks of a run are started.
struct Launch {
  enum class Carrier : uint8_t {
    Threads, ///< all ranks are threads of this process
    Mpi,     ///< one rank a process, joined by MPI, which also tells where rank 0 listens
    Sockets, ///< one rank a process, joined by TCP; rank 0 listens at `host`:`port`
  };
  Carrier carrier = Carrier::Threads;
  std::string by; ///< "mpirun", "Slurm", "torchrun"; empty for threads
  int rank = 0;   ///< of this process; threads: 0
  int world = 1;
  std::string host; ///< Sockets
  int port = 0;     ///< Sockets
  std::string job;  ///< Sockets: what the launcher calls the job, equal on all ranks
  /// All ranks are on this machine, as the launcher says or because `host` is its own loopback.
  bool oneMachine = false;
  std::string secret{}; ///< Sockets: what the user gave all ranks; empty: nothing
};

/// What the command line says about it.
struct LaunchOptions {
  std::optional<int> gpus;  ///< number of ranks
  std::string coordinator;  ///< "host:port" where rank 0 listens; empty: what the environment says
  std::string secretFile{}; ///< holds the job's secret; empty: the environment's, if any
};

/// The value of an environment variable; none where it is not set.
using Variables = std::function<std::optional<std::string>(const char *name)>;
Variables environment();

/// The launch that the environment describes. Looked for in this order:
/// - mpirun: OMPI_COMM_WORLD_RANK, _SIZE, or (other MPIs, outside Slurm) PMI_RANK, PMI_SIZE;
/// - torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. torchrun itself listens at
///   MASTER_PORT when TORCHELASTIC_USE_AGENT_STORE is True: then rank 0 takes the next port;
/// - Slurm (srun): SLURM_PROCID, SLURM_NTASKS (or SLURM_STEP_NUM_TASKS); host MASTER_ADDR or the
///   first of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST; port MASTER_PORT or one made from the
///   job's number. One task is no launch, so that it can have several ranks as threads; so is the
///   script of sbatch without a number of tasks, where SLURM_PROCID is 0.
/// Without any of them, ranks are threads. That all ranks are on one machine is told by
/// OMPI_COMM_WORLD_LOCAL_SIZE, LOCAL_WORLD_SIZE, or SLURM_STEP_NUM_NODES (or SLURM_NNODES); rank 0
/// is then at the loopback, whatever the environment calls it. NANO_JOB_SECRET is the job's secret
/// where `secretFile` gives none. BadInput, one line: a variable that is missing or no number, a
/// rank outside the world, a number of ranks that contradicts `gpus`, a coordinator or a file with
/// a secret where nothing was launched, or the errors of givenSecret.
Result<Launch> launchFrom(const LaunchOptions &options, const Variables &variables);

/// The first host of a list as Slurm writes it: "gpu[03-07,9],login" is "gpu03".
std::string firstHost(const std::string &nodeList);

} // namespace nano
