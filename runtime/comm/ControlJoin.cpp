// How the ranks of a run find each other: rank 0 waits for the others, and they look for it.
#include "runtime/comm/ControlImpl.h"
#include "runtime/plan/Messages.h"

#include <algorithm>

namespace nano {
namespace {

using plan::secondsText;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds helloTime(5000), retryTime(100);
constexpr uint32_t mostHello = 1 << 20;
constexpr const char *greeting = "nanorun control 1";

std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 8)
    text += " and " + std::to_string(ranks.size() - 8) + " others";
  return text;
}

std::string helloOf(const ControlOptions &options, const std::string &mine) {
  return pack({greeting, options.job, std::to_string(options.world), std::to_string(options.rank),
               hostName(), std::to_string(::getpid()), mine});
}

} // namespace

Result<std::unique_ptr<Control>> Control::host(const ControlOptions &options, Socket listener,
                                               const std::string &mine) {
  auto impl = std::make_unique<Impl>(options);
  impl->peers[0] = {hostName(), std::to_string(::getpid()), "", mine};
  const Deadline deadline = Clock::now() + options.joinTimeout;
  int missing = options.world - 1;
  std::string refusal;
  while (missing > 0 && refusal.empty()) {
    Socket socket = acceptFrom(listener, deadline);
    if (!socket) {
      std::vector<int> absent;
      for (int rank = 1; rank < options.world; ++rank)
        if (!impl->connections[size_t(rank)].socket)
          absent.push_back(rank);
      refusal = listOf(absent) + " did not come to rank 0 within " +
                secondsText(options.joinTimeout) + " (port " + std::to_string(portOf(listener)) +
                " on " + hostName() + ")";
      break;
    }
    auto hello = receiveFrame(socket, mostHello, Clock::now() + helloTime);
    if (!hello)
      continue; // a stranger
    std::vector<std::string> fields = unpack(*hello);
    if (fields.size() != 7 || fields[0] != greeting)
      continue;
    const std::string who = "process " + fields[5] + " on " + fields[4];
    const int rank = numberOf(fields[3]);
    if (fields[1] != options.job) {
      // By mistake: it hears of it, and this run does without it.
      (void)sendFrame(socket,
                      pack({"no", who + " belongs to another job, '" + fields[1] +
                                      "', than rank 0, '" + options.job + "'"}),
                      Clock::now() + helloTime);
      continue;
    }
    if (fields[2] != std::to_string(options.world))
      refusal = "rank " + fields[3] + " (" + who + ") was started as one of " + fields[2] +
                " ranks and rank 0 as one of " + std::to_string(options.world);
    else if (rank < 1 || rank >= options.world || impl->connections[size_t(rank)].socket)
      refusal = "two processes were started as rank " + fields[3] + ", one of them " + who;
    if (!refusal.empty()) {
      (void)sendFrame(socket, pack({"no", refusal}), Clock::now() + helloTime);
      break;
    }
    impl->peers[size_t(rank)] = {fields[4], fields[5], addressOf(socket), fields[6]};
    impl->connections[size_t(rank)].socket = std::move(socket);
    --missing;
  }
  std::vector<std::string> welcome = {refusal.empty() ? "yes" : "no"};
  if (refusal.empty())
    for (const Peer &peer : impl->peers)
      welcome.push_back(pack({peer.host, peer.process, peer.address, peer.mine}));
  else
    welcome.push_back(refusal);
  const std::string text = pack(welcome);
  for (int rank = 1; rank < options.world; ++rank)
    if (Impl::Connection &connection = impl->connections[size_t(rank)]; connection.socket)
      if (Status status = sendFrame(connection.socket, text, Clock::now() + helloTime);
          !status && refusal.empty())
        refusal = "rank " + std::to_string(rank) + " went away while the others came";
  if (!refusal.empty())
    return failed(refusal);
  std::fill(impl->heard.begin(), impl->heard.end(), Clock::now());
  return std::unique_ptr<Control>(new Control(std::move(impl)));
}

Result<std::unique_ptr<Control>> Control::join(const ControlOptions &options,
                                               const std::vector<std::string> &hosts, int port,
                                               const std::string &mine) {
  auto impl = std::make_unique<Impl>(options);
  const Deadline deadline = Clock::now() + options.joinTimeout;
  const std::string nothing = "no address";
  std::string why = nothing;
  bool waits = false;    // `why` is that rank 0 has not answered yet
  bool answered = false; // something has, which is not rank 0
  // What the end of the time cuts off says less than what was found before.
  auto found = [&](const std::string &what) {
    if (Clock::now() >= deadline && why != nothing)
      return;
    why = what;
    waits = false;
  };
  while (Clock::now() < deadline) {
    for (const std::string &host : hosts) {
      auto socket = connectTo(host, port, std::min(deadline, Clock::now() + helloTime));
      if (!socket) {
        found(socket.error().message);
        continue;
      }
      if (Status status = sendFrame(*socket, helloOf(options, mine), deadline); !status) {
        found(status.error().message);
        continue;
      }
      // Rank 0 answers when all have come; what is not rank 0 may answer at once, as it did before.
      if (!answered) {
        why = "rank 0 at " + host + ":" + std::to_string(port) + " waits for other ranks";
        waits = true;
      }
      auto answer = receiveFrame(*socket, options.mostFrame, deadline);
      if (!answer) {
        found(answer.error().message);
        continue;
      }
      std::vector<std::string> fields = unpack(*answer);
      if (fields.size() == 2 && fields[0] == "no")
        return failed("rank 0 at " + host + ":" + std::to_string(port) + " refuses: " + fields[1]);
      if (fields.size() != size_t(options.world) + 1 || fields[0] != "yes") {
        found(host + ":" + std::to_string(port) + " is not rank 0 of this run");
        answered = true;
        continue;
      }
      for (int rank = 0; rank < options.world; ++rank) {
        std::vector<std::string> peer = unpack(fields[size_t(rank) + 1]);
        if (peer.size() == 4)
          impl->peers[size_t(rank)] = {peer[0], peer[1], peer[2], peer[3]};
      }
      impl->peers[0].address = addressOf(*socket);
      impl->connections[0].socket = std::move(*socket);
      std::fill(impl->heard.begin(), impl->heard.end(), Clock::now());
      return std::unique_ptr<Control>(new Control(std::move(impl)));
    }
    std::this_thread::sleep_for(retryTime);
  }
  return failed("rank " + std::to_string(options.rank) + " did not " +
                (waits ? "begin" : "reach rank 0") + " within " + secondsText(options.joinTimeout) +
                ": " + why);
}

} // namespace nano
