// Threads of this process over shared memory; processes over MPI or TCP, with a control plane
// beside.
#include "runtime/comm/Crew.h"

#include "runtime/comm/LocalCommunicator.h"
#include "runtime/comm/Mesh.h"
#include "runtime/comm/ProcessCommunicator.h"
#include "runtime/comm/Secret.h"

#include <algorithm>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace nano {

namespace {

/// A rank's work, with everything that it may throw as an error.
Status guarded(const std::function<Status(Communicator &)> &work, Communicator &communicator) {
  try {
    return work(communicator);
  } catch (const std::bad_alloc &) {
    return failed(fmt::format("rank {}: out of memory", communicator.rank()));
  } catch (const std::exception &exception) {
    return failed(fmt::format("rank {}: {}", communicator.rank(), exception.what()));
  }
}

class ThreadCrew : public Crew {
public:
  ThreadCrew(int world, std::chrono::milliseconds timeout) : group(world, timeout) {}

  int world() const override { return group.world(); }
  bool hasFirst() const override { return true; }
  int onMachine() const override { return group.world(); }
  std::string describe() const override { return "threads"; }
  Result<std::string> tell(const std::string &mine, const char *what) override { return mine; }

  Status run(const std::function<Status(Communicator &)> &work) override {
    auto endWith = [&](int rank, const Status &status) {
      if (status)
        return;
      {
        std::lock_guard lock(mutex);
        if (!first)
          first = status.error();
      }
      group.abort(rank, status.error().message);
    };
    auto runRank = [&](int rank) { endWith(rank, guarded(work, group.communicator(rank))); };
    std::vector<std::thread> threads;
    threads.reserve(size_t(group.world() - 1));
    Status started = ok();
    for (int rank = 1; rank < group.world() && started; ++rank) {
      try {
        threads.emplace_back(runRank, rank);
      } catch (const std::exception &exception) {
        started = failed(fmt::format("no thread for rank {} of {} can be made: {}", rank,
                                     group.world(), exception.what()));
        endWith(rank, started);
      }
    }
    if (started)
      runRank(0);
    for (std::thread &thread : threads)
      thread.join();
    return first ? Status(*first) : ok();
  }

  void abort(const std::string &reason) override {}

private:
  LocalGroup group;
  std::mutex mutex;
  std::optional<Error> first; ///< the others' follow from it
};

class ProcessCrew : public Crew {
public:
  ProcessCrew(const Launch &launch, std::unique_ptr<Control> controlGiven,
              std::unique_ptr<Transport> transportGiven, std::string cautionGiven = "")
      : launch(launch), control(std::move(controlGiven)), transport(std::move(transportGiven)),
        said(std::move(cautionGiven)),
        communicator(launch.rank, launch.world, *control, *transport) {}

  int world() const override { return launch.world; }
  bool hasFirst() const override { return launch.rank == 0; }
  int onMachine() const override {
    const std::vector<Peer> &peers = control->peers();
    return int(std::count_if(peers.begin(), peers.end(),
                             [](const Peer &peer) { return peer.host == hostName(); }));
  }
  std::string describe() const override { return transport->describe(); }
  std::string caution() const override { return said; }

  Result<std::string> tell(const std::string &mine, const char *what) override {
    Result<std::vector<std::string>> all = communicator.exchange(mine, what);
    if (!all)
      return all.error();
    return all->front();
  }

  Status run(const std::function<Status(Communicator &)> &work) override {
    Status status = guarded(work, communicator);
    // Nobody has done the job before all have.
    if (status)
      status = communicator.barrier("the end of the run");
    if (status)
      return transport->finish();
    communicator.abort(status.error().message);
    return status;
  }

  void abort(const std::string &reason) override { communicator.abort(reason); }

private:
  const Launch launch;
  std::unique_ptr<Control> control;
  std::unique_ptr<Transport> transport;
  const std::string said;
  ProcessCommunicator communicator;
};

/// libnano-mpi.so from beside the running program or ../lib, started.
Result<std::unique_ptr<MpiTransport>> loadMpi() {
  namespace fs = std::filesystem;
  constexpr const char *name = "libnano-mpi.so";
  std::error_code error;
  fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  fs::path library = beside / name;
  if (!fs::exists(library, error))
    library = beside.parent_path() / "lib" / name;
  if (!fs::exists(library, error))
    return badInput(fmt::format("started by mpirun, and {} is neither in {} nor in {}: install "
                                "libopenmpi-dev and build again, or give --coordinator HOST:PORT "
                                "to do without MPI",
                                name, beside.string(), (beside.parent_path() / "lib").string()));
  // MPI's own plug-ins look for its symbols among the global ones.
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return badInput(fmt::format("cannot load {}: {}; install openmpi-bin", name, dlerror()));
  auto create = reinterpret_cast<CreateMpiFn>(dlsym(handle, createMpiSymbol));
  if (!create)
    return badInput(fmt::format("{}: lacks {}; build it again", library.string(), createMpiSymbol));
  Error reason;
  std::unique_ptr<MpiTransport> transport(create(&reason));
  if (!transport)
    return reason;
  return transport;
}

constexpr size_t keyBytes = 32;

ControlOptions controlOptions(const CrewOptions &options) {
  ControlOptions control;
  control.rank = options.launch.rank;
  control.world = options.launch.world;
  control.job = options.launch.job;
  control.timeout = options.timeout;
  control.joinTimeout = options.joinTimeout;
  control.stop = options.stop;
  control.grace = stopGrace;
  return control;
}

Result<std::unique_ptr<Crew>> startMpi(const CrewOptions &options) {
  const Launch &launch = options.launch;
  auto transport = loadMpi();
  if (!transport)
    return transport.error();
  if ((*transport)->world() != launch.world || (*transport)->rank() != launch.rank)
    return badInput(fmt::format("the environment says rank {} of {}, and MPI rank {} of {}: start "
                                "nanorun with the mpirun of the MPI that it was built with",
                                launch.rank, launch.world, (*transport)->rank(),
                                (*transport)->world()));
  ControlOptions control = controlOptions(options);
  control.grace = stopGraceOfMpi;
  Socket listener;
  std::string told;
  if (launch.rank == 0) {
    // Which of its addresses the others reach, it does not know.
    const std::string address = launch.oneMachine ? "127.0.0.1" : "";
    if (auto made = listenOn(0, address)) {
      listener = std::move(*made);
      std::vector<std::string> texts =
          launch.oneMachine ? std::vector<std::string>{address} : ownAddresses();
      texts.insert(texts.begin(), {randomBytes(keyBytes), std::to_string(portOf(listener))});
      told = pack(texts);
    } else {
      told = pack({made.error().message});
    }
  }
  auto heard = (*transport)->tell(told);
  if (!heard)
    return heard.error();
  std::vector<std::string> texts = unpack(*heard);
  if (texts.size() < 3)
    return failed("rank 0: " + (texts.empty() ? "no address" : texts[0]));
  control.key = texts[0];
  const int port = numberOf(texts[1]);
  texts.erase(texts.begin(), texts.begin() + 2);
  auto joined = launch.rank == 0 ? Control::host(control, std::move(listener), "")
                                 : Control::join(control, texts, port, "");
  if (!joined)
    return joined.error();
  return std::unique_ptr<Crew>(new ProcessCrew(launch, std::move(*joined), std::move(*transport)));
}

/// Where this process listens: the loopback for one machine; else the address at which it reaches
/// rank 0's host, which rank 0 has itself. Empty, for all of them, where that is not known: a host
/// may know itself by a name of its loopback.
std::string listenAddress(const std::string &host, bool isLocal) {
  const std::string address = addressTowards(host);
  return isLocal || !isLoopback(address) ? address : "";
}

Result<std::unique_ptr<Crew>> startSockets(const CrewOptions &options) {
  const Launch &launch = options.launch;
  const bool isLocal = launch.oneMachine || isLoopback(launch.host);
  const std::string address = listenAddress(launch.host, isLocal);
  auto mesh = Mesh::open(address);
  if (!mesh)
    return mesh.error();
  const std::string mine = (*mesh)->whereabouts();
  ControlOptions control = controlOptions(options);
  std::string caution;
  if (!launch.secret.empty()) {
    control.key = launch.secret;
  } else if (isLocal) {
    control.keyPlace = launch.port;
  } else {
    control.key = launch.job;
    caution = fmt::format("the ranks have no secret of their job: who knows what {} calls it may "
                          "come in as one of them; give all the same {} or --job-secret FILE",
                          launch.by, secretVariable);
  }
  Result<std::unique_ptr<Control>> joined = failed("");
  if (launch.rank == 0) {
    auto listener = listenOn(launch.port, address);
    if (!listener)
      return failed(fmt::format("rank 0, where the others look for it: {}; choose another place "
                                "with --coordinator HOST:PORT",
                                listener.error().message));
    Socket keyPlace;
    if (control.keyPlace > 0) {
      control.key = randomBytes(keyBytes);
      auto place = openKeyPlace(control.keyPlace);
      if (!place)
        return place.error();
      keyPlace = std::move(*place);
    }
    joined = Control::host(control, std::move(*listener), mine, std::move(keyPlace));
  } else {
    joined = Control::join(control, {launch.host}, launch.port, mine);
  }
  if (!joined)
    return joined.error();
  (*mesh)->know(launch.rank, (*joined)->peers(), (*joined)->key());
  return std::unique_ptr<Crew>(
      new ProcessCrew(launch, std::move(*joined), std::move(*mesh), std::move(caution)));
}

} // namespace

std::unique_ptr<Crew> Crew::threads(int world, std::chrono::milliseconds timeout) {
  return std::make_unique<ThreadCrew>(world, timeout);
}

Result<std::unique_ptr<Crew>> Crew::start(const CrewOptions &options) {
  switch (options.launch.carrier) {
  case Launch::Carrier::Threads:
    return threads(options.launch.world, options.timeout);
  case Launch::Carrier::Mpi:
    return startMpi(options);
  case Launch::Carrier::Sockets:
    return startSockets(options);
  }
  return failed("unknown kind of launch");
}

} // namespace nano
