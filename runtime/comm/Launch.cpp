// Reads the environment of launchers.
#include "runtime/comm/Launch.h"

#include "runtime/comm/Secret.h"

#include <charconv>
#include <cstdlib>

namespace nano {
namespace {

constexpr int mostRanks = 65536, mostPort = 65535;

/// The variables of one launcher, read with errors that name it.
class Reader {
public:
  Reader(const Variables &variables, const char *by) : variables(variables), by(by) {}

  /// A whole number from `least` to `most`; `fallback` where the variable is not set.
  int number(const char *name, int least, int most, std::optional<int> fallback = std::nullopt) {
    std::optional<std::string> text = variables(name);
    if (!text && fallback)
      return *fallback;
    if (!text)
      fail(std::string(name) + " is not set; start all ranks with " + by);
    if (error)
      return least;
    int value = 0;
    const char *end = text->data() + text->size();
    auto [rest, code] = std::from_chars(text->data(), end, value);
    if (code != std::errc() || rest != end || value < least || value > most)
      fail(std::string(name) + "=" + *text + " is not a whole number from " +
           std::to_string(least) + " to " + std::to_string(most));
    return value;
  }

  std::string text(const char *name) {
    std::optional<std::string> value = variables(name);
    if (!value || value->empty())
      fail(std::string(name) + " is not set; start all ranks with " + by +
           ", or say where rank 0 is with --coordinator HOST:PORT");
    return value.value_or("");
  }

  void fail(const std::string &message) {
    if (!error)
      error = badInput("the environment of " + std::string(by) + ": " + message);
  }

  std::optional<Error> error;

private:
  const Variables &variables;
  const char *by;
};

Launch ofMpi(Reader &reader, const Variables &variables, const char *rank, const char *size) {
  Launch launch;
  launch.carrier = Launch::Carrier::Mpi;
  launch.by = "mpirun";
  launch.world = reader.number(size, 1, mostRanks);
  launch.rank = reader.number(rank, 0, mostRanks - 1);
  launch.oneMachine = variables("OMPI_COMM_WORLD_LOCAL_SIZE") == std::to_string(launch.world);
  return launch;
}

Launch ofTorchrun(Reader &reader, const Variables &variables, bool needsHost) {
  Launch launch;
  launch.carrier = Launch::Carrier::Sockets;
  launch.by = "torchrun";
  launch.world = reader.number("WORLD_SIZE", 1, mostRanks);
  launch.rank = reader.number("RANK", 0, mostRanks - 1);
  launch.job = variables("TORCHELASTIC_RUN_ID").value_or("");
  launch.oneMachine = variables("LOCAL_WORLD_SIZE") == std::to_string(launch.world);
  if (needsHost) {
    launch.host = reader.text("MASTER_ADDR");
    launch.port = reader.number("MASTER_PORT", 1, mostPort);
    if (variables("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True")
      launch.port = launch.port % mostPort + 1;
  }
  return launch;
}

Launch ofSlurm(Reader &reader, const Variables &variables, bool needsHost) {
  Launch launch;
  launch.carrier = Launch::Carrier::Sockets;
  launch.by = "Slurm";
  launch.rank = reader.number("SLURM_PROCID", 0, mostRanks - 1);
  // Without --ntasks sbatch sets no number for the one process that its script is.
  launch.world = variables("SLURM_STEP_NUM_TASKS")
                     ? reader.number("SLURM_STEP_NUM_TASKS", 1, mostRanks)
                     : reader.number("SLURM_NTASKS", 1, mostRanks,
                                     launch.rank == 0 ? std::optional(1) : std::nullopt);
  launch.job =
      variables("SLURM_JOB_ID").value_or("") + "." + variables("SLURM_STEP_ID").value_or("");
  launch.oneMachine =
      variables(variables("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES") == "1";
  if (!needsHost || launch.world == 1)
    return launch;
  launch.host = variables("MASTER_ADDR").value_or("");
  if (launch.host.empty())
    launch.host = firstHost(variables("SLURM_STEP_NODELIST").value_or(""));
  if (launch.host.empty())
    launch.host = firstHost(reader.text("SLURM_JOB_NODELIST"));
  if (variables("MASTER_PORT")) {
    launch.port = reader.number("MASTER_PORT", 1, mostPort);
  } else {
    // Below the ports that Linux gives to outgoing connections.
    constexpr int most = 2147483647;
    int64_t job = reader.number("SLURM_JOB_ID", 0, most, 0);
    int64_t step = reader.number("SLURM_STEP_ID", 0, most, 0);
    launch.port = int(20000 + (job * 13 + step) % 12000);
  }
  return launch;
}

} // namespace

Variables environment() {
  return [](const char *name) -> std::optional<std::string> {
    const char *value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<Launch> launchFrom(const LaunchOptions &options, const Variables &variables) {
  auto has = [&](const char *name) { return variables(name).has_value(); };
  const bool needsHost = options.coordinator.empty();
  const bool isSlurm = has("SLURM_PROCID");
  Launch launch;
  if (has("OMPI_COMM_WORLD_RANK") || has("OMPI_COMM_WORLD_SIZE")) {
    Reader reader(variables, "mpirun");
    launch = ofMpi(reader, variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    if (reader.error)
      return *reader.error;
  } else if (has("PMI_RANK") && !isSlurm) {
    Reader reader(variables, "mpirun");
    launch = ofMpi(reader, variables, "PMI_RANK", "PMI_SIZE");
    if (reader.error)
      return *reader.error;
  } else if (has("RANK") || has("WORLD_SIZE")) {
    Reader reader(variables, "torchrun");
    launch = ofTorchrun(reader, variables, needsHost);
    if (reader.error)
      return *reader.error;
  } else if (isSlurm) {
    Reader reader(variables, "Slurm");
    launch = ofSlurm(reader, variables, needsHost);
    if (reader.error)
      return *reader.error;
    if (launch.world == 1)
      launch = Launch();
  }

  if (launch.by.empty()) {
    if (!options.secretFile.empty())
      return badInput(
          "--job-secret: needs ranks that mpirun, Slurm or torchrun start; those of one "
          "process have no strangers among them");
    if (!options.coordinator.empty())
      return badInput("--coordinator: needs ranks that mpirun, Slurm or torchrun start; --gpus N "
                      "alone runs them in one process");
    launch.world = options.gpus.value_or(1);
    return launch;
  }
  if (launch.rank >= launch.world)
    return badInput("the environment of " + launch.by + ": rank " + std::to_string(launch.rank) +
                    " is not one of " + std::to_string(launch.world) + " ranks");
  if (options.gpus && *options.gpus != launch.world)
    return badInput("--gpus " + std::to_string(*options.gpus) + ": " + launch.by + " started " +
                    std::to_string(launch.world) +
                    " ranks, each a process; leave --gpus out or start as many");
  if (!options.coordinator.empty()) {
    size_t colon = options.coordinator.rfind(':');
    int port = 0;
    const char *end = options.coordinator.data() + options.coordinator.size();
    if (colon != std::string::npos) {
      auto [rest, code] = std::from_chars(options.coordinator.data() + colon + 1, end, port);
      if (rest != end || code != std::errc())
        port = 0;
    }
    if (colon == 0 || port < 1 || port > mostPort)
      return badInput("--coordinator " + options.coordinator +
                      ": is not HOST:PORT with a port from 1 to 65535");
    launch.carrier = Launch::Carrier::Sockets;
    launch.host = options.coordinator.substr(0, colon);
    launch.port = port;
    if (launch.host.size() > 2 && launch.host.front() == '[' && launch.host.back() == ']')
      launch.host = launch.host.substr(1, launch.host.size() - 2); // an IPv6 address
    launch.oneMachine = isLoopback(launch.host);
  } else if (launch.carrier == Launch::Carrier::Sockets) {
    if (launch.oneMachine)
      launch.host = "127.0.0.1";
    launch.oneMachine |= isLoopback(launch.host);
  }
  Result<std::string> secret = givenSecret(options.secretFile, variables(secretVariable));
  if (!secret)
    return secret.error();
  launch.secret = std::move(*secret);
  return launch;
}

std::string firstHost(const std::string &nodeList) {
  std::string host;
  for (size_t i = 0; i < nodeList.size() && nodeList[i] != ','; ++i) {
    if (nodeList[i] != '[') {
      host += nodeList[i];
      continue;
    }
    size_t close = nodeList.find(']', i);
    host += nodeList.substr(i + 1, nodeList.find_first_of(",-]", i) - i - 1);
    if (close == std::string::npos)
      break;
    i = close;
  }
  return host;
}

} // namespace nano
