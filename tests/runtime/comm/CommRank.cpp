// nano-comm-rank collectives|count: one rank as its launcher starts it. `collectives` prints a hash
// of the results of every collective; `count` makes collectives until it is ended, and tells steps.
#include "runtime/comm/Crew.h"
#include "runtime/comm/Sockets.h"
#include "tests/runtime/comm/Collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <thread>

namespace {

using namespace nano;

Status collectives(Communicator &communicator) {
  for (int group = 1; group <= communicator.world(); ++group) {
    if (communicator.world() % group != 0)
      continue;
    if (std::string wrong = test::checkCollectives(communicator, group); !wrong.empty())
      return failed(wrong);
    uint64_t hash = test::hashOfCollectives(communicator, group);
    fmt::print("rank {} by {}: {:016x}\n", communicator.rank(), group, hash);
  }
  return ok();
}

Status count(Communicator &communicator, int most) {
  for (int step = 1; step <= most; ++step) {
    communicator.doing(fmt::format("step {}, program 'last'", step));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    float value = 1;
    if (Status status = communicator.allReduce(&value, 1, plan::DType::F32, Combine::Sum,
                                               plan::Ranks::All, "grad (model.cpp:12)");
        !status)
      return status;
    if (communicator.rank() == 0)
      fmt::print("step {}\n", step);
    std::fflush(stdout);
  }
  return ok();
}

int report(const Error &error) {
  fmt::print(stderr, "rank: {}\n", error.message);
  std::fflush(stdout);
  std::_Exit(error.exitStatus());
}

} // namespace

/// nano-comm-rank MODE [TIMEOUT in ms] [STEPS]
int main(int argc, char **argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  auto launch = launchFrom({}, environment());
  if (!launch)
    return report(launch.error());
  CrewOptions options;
  options.launch = *launch;
  options.timeout = std::chrono::milliseconds(argc > 2 ? numberOf(argv[2]) : 60000);
  options.joinTimeout = std::min(options.timeout, std::chrono::milliseconds(20000));
  options.stop = [](const std::string &message) { report(failed(message)); };
  auto crew = Crew::start(options);
  if (!crew)
    return report(crew.error());
  if (const std::string caution = (*crew)->caution(); !caution.empty())
    fmt::print("caution: {}\n", caution);
  Status status = (*crew)->run([&](Communicator &communicator) {
    return mode == "count" ? count(communicator, argc > 3 ? numberOf(argv[3]) : 1000000)
                           : collectives(communicator);
  });
  if (!status) {
    crew->reset();
    return report(status.error());
  }
  return 0;
}
