// The control plane against calls that are not what they should be: each is named in one line.
#include "runtime/comm/Control.h"
#include "runtime/comm/Sockets.h"
#include "tests/runtime/Expect.h"

#include <gtest/gtest.h>
#include <thread>

namespace nano {
namespace {

using namespace std::chrono_literals;

/// An exchange of this rank's text with the others'; what another does may end the run before it
/// begins.
Status exchangeNames(Control &control, const std::string &mine) {
  if (Status status = control.begin("exchange 'names'"); !status)
    return status;
  auto texts = control.exchange(mine);
  return texts ? ok() : Status(texts.error());
}

TEST(Control, RefusesTextsThatAreTooLong) {
  auto ends = [](const std::vector<size_t> &sizes) {
    std::vector<std::string> messages(2);
    auto listener = listenOn(0);
    const int port = portOf(*listener);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        ControlOptions options;
        options.rank = rank;
        options.world = 2;
        options.mostFrame = 5000;
        options.joinTimeout = 20s;
        auto control = rank == 0 ? Control::host(options, std::move(*listener), "")
                                 : Control::join(options, {"127.0.0.1"}, port, "");
        ASSERT_TRUE(control) << control.error().message;
        Status status = exchangeNames(**control, std::string(sizes[size_t(rank)], 'x'));
        messages[size_t(rank)] = status ? "" : status.error().message;
      });
    for (std::thread &thread : threads)
      thread.join();
    return messages;
  };
  using Messages = std::vector<std::string>;
  EXPECT_EQ(ends({2000, 2900}), Messages(2, ""));
  for (const std::vector<size_t> &sizes : {std::vector<size_t>{3000, 3000}, {6000, 1}, {1, 6000}})
    for (const std::string &message : ends(sizes)) {
      EXPECT_CONTAINS(message, "exchange 'names' has texts of 60");
      EXPECT_CONTAINS(message, " bytes, more than the 4999 that ranks can exchange at once");
    }
}

} // namespace
} // namespace nano
