// How ranks come together, against ends that are silent, strangers, liars, or gone.
#include "runtime/comm/Control.h"
#include "runtime/comm/Secret.h"
#include "runtime/comm/Sockets.h"
#include "tests/runtime/Expect.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace nano {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::string>;

const std::string version = "nanorun control 2", key(32, 'k');

ControlOptions optionsOf(int rank, int world, std::chrono::milliseconds joinTimeout = 20s) {
  ControlOptions options;
  options.rank = rank;
  options.world = world;
  options.job = "j";
  options.key = key;
  options.joinTimeout = joinTimeout;
  return options;
}

/// Rank 0, hosting in the background; the port is known at once.
class Host {
public:
  explicit Host(const ControlOptions &options) {
    auto listener = listenOn(0, "127.0.0.1");
    EXPECT_TRUE(listener);
    port = portOf(*listener);
    end = std::async(std::launch::async,
                     [options, listener = std::make_shared<Socket>(std::move(*listener))] {
                       return Control::host(options, std::move(*listener), "0");
                     });
  }
  int port = 0;
  std::future<Result<std::unique_ptr<Control>>> end;
};

auto joinInBackground(const ControlOptions &options, int port) {
  return std::async(std::launch::async, [=] {
    return Control::join(options, {"127.0.0.1"}, port, std::to_string(options.rank));
  });
}

Deadline soon() { return Clock::now() + 10s; }

/// Someone who speaks the protocol by hand.
struct Comer {
  explicit Comer(int port) {
    auto made = connectTo("127.0.0.1", port, soon());
    EXPECT_TRUE(made);
    socket = std::move(*made);
    const Texts challenge = hear();
    EXPECT_EQ(challenge.at(0), version);
    ofHost = challenge.at(1);
  }
  /// The fields of rank 0's next message; nothing when it has closed.
  Texts hear() const {
    auto message = receiveFrame(socket, 1 << 20, soon());
    return message ? unpack(*message) : Texts();
  }
  /// Says that it is a rank, with a MAC by that key, and returns the answer.
  Texts say(const std::string &known, const std::string &job, int world, int rank) {
    const std::string hello =
        pack({job, std::to_string(world), std::to_string(rank), "there", "77", ""});
    message = pack(
        {version, ofGuest, hello, macOf(known, Texts{version, ofHost, ofGuest, "hello", hello})});
    EXPECT_TRUE(sendFrame(socket, message, soon()));
    return hear();
  }
  Socket socket;
  std::string ofHost, ofGuest = std::string(32, 'g'), message;
};

std::string reasonOf(const Texts &answer) {
  EXPECT_EQ(answer.size(), 3u);
  EXPECT_EQ(answer.empty() ? "" : answer[0], "no");
  return answer.size() < 2 ? "" : unpack(answer[1]).at(1);
}

void expectTogether(Host &host,
                    std::vector<std::future<Result<std::unique_ptr<Control>>>> &others) {
  // All are there before one leaves.
  std::vector<std::unique_ptr<Control>> controls;
  auto take = [&](auto &future) {
    auto control = future.get();
    EXPECT_TRUE(control) << control.error().message;
    if (control)
      controls.push_back(std::move(*control));
  };
  take(host.end);
  for (auto &other : others)
    take(other);
  for (const auto &control : controls)
    for (size_t rank = 0; rank < control->peers().size(); ++rank)
      EXPECT_EQ(control->peers()[rank].mine, std::to_string(rank));
}

TEST(Join, SilentOnesKeepNobody) {
  Host host(optionsOf(0, 4));
  std::vector<Socket> silent;
  for (int i = 0; i < 40; ++i) {
    auto socket = connectTo("127.0.0.1", host.port, soon());
    ASSERT_TRUE(socket);
    if (i % 3 == 0) { // half of a message
      ASSERT_TRUE(sendFrame(*socket, "", soon()));
    }
    silent.push_back(std::move(*socket));
  }
  const auto begin = Clock::now();
  std::vector<std::future<Result<std::unique_ptr<Control>>>> others;
  for (int rank = 1; rank < 4; ++rank)
    others.push_back(joinInBackground(optionsOf(rank, 4), host.port));
  expectTogether(host, others);
  EXPECT_LT(Clock::now() - begin, 4s) << "less than one of them is waited for";
}

/// More than are kept at a time: those that have been silent for longest go.
TEST(Join, AFloodOfSilentOnes) {
  Host host(optionsOf(0, 2));
  std::vector<Socket> silent;
  for (int i = 0; i < 700; ++i) {
    auto socket = connectTo("127.0.0.1", host.port, soon());
    if (!socket)
      break; // this process may have no more
    silent.push_back(std::move(*socket));
  }
  std::vector<std::future<Result<std::unique_ptr<Control>>>> others;
  others.push_back(joinInBackground(optionsOf(1, 2), host.port));
  expectTogether(host, others);
}

TEST(Join, NobodyTakesASeatWithoutTheKey) {
  Host host(optionsOf(0, 2));
  // With the words of the protocol before there were keys.
  auto old = connectTo("127.0.0.1", host.port, soon());
  ASSERT_TRUE(old);
  ASSERT_TRUE(
      sendFrame(*old, pack({"nanorun control 1", "j", "2", "1", "there", "77", ""}), soon()));
  EXPECT_TRUE(receiveFrame(*old, 1 << 20, soon())) << "the challenge";
  EXPECT_FALSE(receiveFrame(*old, 1 << 20, soon())) << "then it is over";
  for (const std::string &wrong : {std::string(), std::string("wrong"), std::string(32, 'K')}) {
    Comer comer(host.port);
    EXPECT_EQ(reasonOf(comer.say(wrong, "j", 2, 1)),
              "process 77 on there does not know the secret of this job: it is of another, or was "
              "not given the NANO_JOB_SECRET or --job-secret that rank 0 has");
    EXPECT_EQ(comer.hear(), Texts());
  }
  // What a rank of the job has said once is of no use to who has heard it.
  Comer wrongWorld(host.port);
  EXPECT_CONTAINS(reasonOf(wrongWorld.say(key, "j", 5, 1)), "was started as one of 5 ranks");
  Comer repeats(host.port);
  ASSERT_TRUE(sendFrame(repeats.socket, wrongWorld.message, soon()));
  EXPECT_CONTAINS(reasonOf(repeats.hear()), "does not know the secret");
  std::vector<std::future<Result<std::unique_ptr<Control>>>> others;
  others.push_back(joinInBackground(optionsOf(1, 2), host.port));
  expectTogether(host, others);
}

TEST(Join, WhoDoesNotFitIsToldAndTheOthersGoOn) {
  Host host(optionsOf(0, 3));
  const std::string where = "rank 0 at 127.0.0.1:" + std::to_string(host.port) + " refuses: ";
  const std::string self = "process " + std::to_string(::getpid()) + " on " + hostName();
  auto refused = [&](const ControlOptions &options) {
    auto control = joinInBackground(options, host.port).get();
    EXPECT_FALSE(control);
    EXPECT_EQ(control.error().exitStatus(), 2);
    return control.error().message;
  };
  const auto begin = Clock::now();
  EXPECT_EQ(refused(optionsOf(1, 2)),
            where + "rank 1 (" + self + ") was started as one of 2 ranks and rank 0 as one of 3");
  ControlOptions other = optionsOf(1, 3);
  other.job = "k";
  EXPECT_EQ(refused(other), where + self + " belongs to another job, 'k', than rank 0, 'j'");
  other = optionsOf(1, 3);
  other.key = "another";
  EXPECT_CONTAINS(refused(other), where + self + " does not know the secret of this job");
  std::vector<std::future<Result<std::unique_ptr<Control>>>> others;
  Comer seated(host.port);
  EXPECT_EQ(seated.say(key, "j", 3, 2).at(0), "seat");
  EXPECT_EQ(refused(optionsOf(2, 3)),
            where + "two processes were started as rank 2, one of them " + self);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_EQ(host.end.wait_for(0s), std::future_status::timeout) << "rank 0 waits on";
  auto first = joinInBackground(optionsOf(1, 3), host.port);
  EXPECT_EQ(seated.hear().at(0), "yes");
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(host.end.get());
}

/// Nobody waits for the time to pass where a rank that was there has gone.
TEST(Join, ARankThatGoesAwayEndsAll) {
  Host host(optionsOf(0, 4, 60s));
  const auto begin = Clock::now();
  auto other = joinInBackground(optionsOf(2, 4, 60s), host.port);
  {
    Comer gone(host.port);
    EXPECT_EQ(gone.say(key, "j", 4, 1).at(0), "seat");
    std::this_thread::sleep_for(200ms); // the other has its seat
  }
  const std::string reason = "rank 1 (process 77 on there) went away while the others came";
  auto end = host.end.get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().message, reason);
  auto otherEnd = other.get();
  ASSERT_FALSE(otherEnd);
  EXPECT_EQ(otherEnd.error().exitStatus(), 1);
  EXPECT_EQ(otherEnd.error().message,
            "rank 0 at 127.0.0.1:" + std::to_string(host.port) + " ends: " + reason);
  EXPECT_LT(Clock::now() - begin, 10s);
}

TEST(Join, RankZeroSaysWhomItRefused) {
  Host host(optionsOf(0, 2, 1s));
  EXPECT_FALSE(joinInBackground(optionsOf(1, 3), host.port).get());
  auto end = host.end.get();
  ASSERT_FALSE(end);
  EXPECT_CONTAINS(end.error().message, "rank 1 did not come to rank 0 within 1 s (port ");
  EXPECT_CONTAINS(end.error().message, "; it refused: rank 1 (process ");
  EXPECT_CONTAINS(end.error().message, "was started as one of 3 ranks and rank 0 as one of 2");
}

/// Something at rank 0's place that answers `answers`, one after the other, to each message.
std::string errorBefore(const std::vector<std::string> &answers, bool closes,
                        std::chrono::milliseconds joinTimeout) {
  auto listener = listenOn(0, "127.0.0.1");
  EXPECT_TRUE(listener);
  const int port = portOf(*listener);
  std::atomic<bool> isOver = false;
  std::thread other([&] {
    std::vector<Socket> kept;
    while (!isOver) {
      Socket socket = acceptFrom(*listener, Clock::now() + 20ms);
      if (!socket)
        continue;
      for (const std::string &answer : answers) {
        (void)sendFrame(socket, answer, soon());
        (void)receiveFrame(socket, 1 << 20, Clock::now() + 500ms);
      }
      if (!closes)
        kept.push_back(std::move(socket));
    }
  });
  auto control = Control::join(optionsOf(1, 2, joinTimeout), {"127.0.0.1"}, port, "");
  isOver = true;
  other.join();
  EXPECT_FALSE(control);
  std::string message = control ? "" : control.error().message;
  if (size_t place = message.find(std::to_string(port)); place != std::string::npos)
    message.replace(place, std::to_string(port).size(), "PORT");
  return message;
}

TEST(Join, SomethingElseAtThePlaceOfRankZero) {
  const std::string stranger =
      "rank 1 did not reach rank 0 within 2 s: 127.0.0.1:PORT is not rank 0 of this run";
  const std::string challenge = pack({version, std::string(32, 'h')});
  EXPECT_EQ(errorBefore({"HTTP/1.1 400 Bad Request"}, true, 2s), stranger);
  // One that knows the words but not the key.
  EXPECT_EQ(errorBefore({challenge, pack({"seat", "", std::string(32, 'm')})}, true, 2s), stranger);
  EXPECT_EQ(errorBefore({challenge, pack({"yes", pack({}), ""})}, true, 2s), stranger);
  EXPECT_EQ(errorBefore({}, false, 2s),
            "rank 1 did not reach rank 0 within 2 s: 127.0.0.1:PORT: no answer in time");
}

TEST(Join, RankZeroWaitsForOthers) {
  Host host(optionsOf(0, 3, 6s));
  auto control = joinInBackground(optionsOf(2, 3, 1s), host.port).get();
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().message, "rank 2 did not begin within 1 s: rank 0 at 127.0.0.1:" +
                                         std::to_string(host.port) + " waits for other ranks");
  // It is not waited for any longer.
  EXPECT_CONTAINS(host.end.get().error().message, "rank 2 (process ");
}

TEST(Join, RankZeroThatGoesAwayIsNotWaitedFor) {
  int channel[2];
  ASSERT_EQ(::pipe(channel), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto listener = listenOn(0, "127.0.0.1");
    int port = listener ? portOf(*listener) : 0;
    if (::write(channel[1], &port, sizeof port) == sizeof port)
      (void)Control::host(optionsOf(0, 3, 60s), std::move(*listener), "");
    ::_exit(0);
  }
  int port = 0;
  ASSERT_EQ(::read(channel[0], &port, sizeof port), ssize_t(sizeof port));
  ::close(channel[0]);
  ::close(channel[1]);
  auto waiting = joinInBackground(optionsOf(1, 3, 60s), port);
  std::this_thread::sleep_for(500ms); // it has its seat
  ::kill(child, SIGKILL);
  const auto begin = Clock::now();
  auto end = waiting.get();
  ::waitpid(child, nullptr, 0);
  ASSERT_FALSE(end);
  EXPECT_CONTAINS(end.error().message, "rank 0 at 127.0.0.1:" + std::to_string(port) +
                                           " went away while the ranks came: ");
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(Join, ARankThatTalksNonsenseEndsTheRun) {
  Host host(optionsOf(0, 2));
  std::thread rank1([&] {
    Comer comer(host.port);
    EXPECT_EQ(comer.say(key, "j", 2, 1).at(0), "seat");
    EXPECT_EQ(comer.hear().at(0), "yes");
    EXPECT_TRUE(sendFrame(comer.socket, "Zap", soon()));
    while (receiveFrame(comer.socket, 1 << 20, soon())) // until rank 0 has left
      ;
  });
  auto control = host.end.get();
  EXPECT_TRUE(control) << control.error().message;
  if (control) {
    Status status = (*control)->begin("exchange 'names'");
    if (status) {
      auto texts = (*control)->exchange("rank 0");
      status = texts ? ok() : Status(texts.error());
    }
    EXPECT_FALSE(status);
    EXPECT_EQ(status ? "" : status.error().message,
              "rank 1 (process 77 on there) sent a message that nobody understands");
    control->reset();
  }
  rank1.join();
}

} // namespace
} // namespace nano
