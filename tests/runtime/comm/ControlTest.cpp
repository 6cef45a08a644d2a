// The control plane against ends that are not what they should be: each is named in one line.
#include "runtime/comm/Control.h"
#include "runtime/comm/Sockets.h"
#include "tests/runtime/Expect.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace nano {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

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

TEST(Control, ARankThatTalksNonsenseEndsTheRun) {
  auto listener = listenOn(0);
  ASSERT_TRUE(listener);
  const int port = portOf(*listener);
  std::thread rank1([port] {
    const Deadline deadline = Clock::now() + 20s;
    auto socket = connectTo("127.0.0.1", port, deadline);
    ASSERT_TRUE(socket) << socket.error().message;
    ASSERT_TRUE(sendFrame(*socket, pack({"nanorun control 1", "j", "2", "1", "there", "77", ""}),
                          deadline));
    auto welcome = receiveFrame(*socket, 1 << 20, deadline);
    ASSERT_TRUE(welcome) << welcome.error().message;
    EXPECT_EQ(unpack(*welcome).at(0), "yes");
    EXPECT_TRUE(sendFrame(*socket, "Zap", deadline));
    while (receiveFrame(*socket, 1 << 20, deadline)) // until rank 0 has left
      ;
  });
  ControlOptions options;
  options.world = 2;
  options.job = "j";
  options.joinTimeout = 20s;
  auto control = Control::host(options, std::move(*listener), "");
  EXPECT_TRUE(control) << control.error().message;
  if (control) {
    Status status = exchangeNames(**control, "rank 0");
    EXPECT_FALSE(status);
    EXPECT_EQ(status ? "" : status.error().message,
              "rank 1 (process 77 on there) sent a message that nobody understands");
    control->reset();
  }
  rank1.join();
}

TEST(Control, SomethingElseAtThePlaceOfRankZero) {
  auto listener = listenOn(0);
  ASSERT_TRUE(listener);
  const int port = portOf(*listener);
  std::atomic<bool> isOver = false;
  std::thread other([&] {
    while (!isOver)
      if (Socket socket = acceptFrom(*listener, Clock::now() + 20ms))
        if (receiveFrame(socket, 1 << 20, Clock::now() + 5s))
          (void)sendFrame(socket, "HTTP/1.1 400 Bad Request", Clock::now() + 5s);
  });
  ControlOptions options;
  options.rank = 1;
  options.world = 2;
  options.joinTimeout = 3s;
  auto control = Control::join(options, {"127.0.0.1"}, port, "");
  isOver = true;
  other.join();
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().message, "rank 1 did not reach rank 0 within 3 s: 127.0.0.1:" +
                                         std::to_string(port) + " is not rank 0 of this run");
}

/// Rank 0's place refuses at first, then is taken by one who hears all and says nothing.
TEST(Control, RankZeroWaitsForOthers) {
  auto listener = listenOn(0);
  ASSERT_TRUE(listener);
  const int port = portOf(*listener);
  *listener = Socket();
  std::promise<void> over;
  std::thread rank0([port, isOver = over.get_future()] {
    std::this_thread::sleep_for(300ms);
    auto late = listenOn(port);
    ASSERT_TRUE(late) << late.error().message;
    Socket first = acceptFrom(*late, Clock::now() + 10s);
    EXPECT_TRUE(first);
    isOver.wait();
  });
  ControlOptions options;
  options.rank = 2;
  options.world = 3;
  options.joinTimeout = 3s;
  auto control = Control::join(options, {"127.0.0.1"}, port, "");
  over.set_value();
  rank0.join();
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().message, "rank 2 did not begin within 3 s: rank 0 at 127.0.0.1:" +
                                         std::to_string(port) + " waits for other ranks");
}

} // namespace
} // namespace nano
