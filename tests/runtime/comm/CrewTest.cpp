// Ranks as processes have them, each with its own connections over the loopback, on threads of the
// test: the same bits as threads that share memory, and a line that names who is at fault.
#include "runtime/comm/Crew.h"
#include "runtime/comm/Agreement.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/comm/Sockets.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/comm/Collectives.h"

#include <atomic>
#include <fstream>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace nano {
namespace {

using namespace std::chrono_literals;
using plan::DType;
using plan::Ranks;
using Work = std::function<Status(Communicator &)>;

int freePort() {
  auto listener = listenOn(0);
  return listener ? portOf(*listener) : 0;
}

CrewOptions optionsOf(int rank, int world, int port, std::chrono::milliseconds timeout = 60s) {
  CrewOptions options;
  options.launch = {Launch::Carrier::Sockets, "torchrun", rank, world, "127.0.0.1", port, "j"};
  options.timeout = timeout;
  options.joinTimeout = 20s;
  return options;
}

/// What each of `options.size()` ranks ends with.
std::vector<Status> runCrews(const std::vector<CrewOptions> &options, const Work &work) {
  std::vector<Status> ends(options.size(), ok());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options.size(); ++i)
    threads.emplace_back([&, i] {
      auto crew = Crew::start(options[i]);
      ends[i] = crew ? (*crew)->run(work) : Status(crew.error());
    });
  for (std::thread &thread : threads)
    thread.join();
  return ends;
}

std::vector<Status> runWorld(int world, const Work &work, std::chrono::milliseconds timeout = 60s) {
  std::vector<CrewOptions> options;
  int port = freePort();
  for (int rank = 0; rank < world; ++rank)
    options.push_back(optionsOf(rank, world, port, timeout));
  return runCrews(options, work);
}

void expectAllOk(const std::vector<Status> &ends) {
  for (const Status &end : ends)
    EXPECT_TRUE(end) << end.error().message;
}

void expectAllFailed(const std::vector<Status> &ends, const std::string &part) {
  for (const Status &end : ends) {
    ASSERT_FALSE(end);
    EXPECT_CONTAINS(end.error().message, part);
  }
}

Status reduceOne(Communicator &communicator, const char *what) {
  float value = 1;
  return communicator.allReduce(&value, 1, DType::F32, Combine::Sum, Ranks::All, what);
}

TEST(Crew, EveryCollectiveIsExactOverEverySet) {
  for (int world : {1, 2, 3, 5, 6, 8})
    expectAllOk(runWorld(world, [&](Communicator &communicator) -> Status {
      for (int group = 1; group <= world; ++group)
        if (world % group == 0)
          if (std::string wrong = test::checkCollectives(communicator, group); !wrong.empty())
            return failed(wrong);
      return ok();
    }));
}

TEST(Crew, TheSameBitsAsThreads) {
  constexpr int world = 4, group = 2;
  auto threads = Crew::threads(world);
  std::vector<uint64_t> expected(world), got(world);
  auto into = [](std::vector<uint64_t> &hashes) {
    return [&](Communicator &communicator) -> Status {
      hashes[size_t(communicator.rank())] = test::hashOfCollectives(communicator, group);
      return ok();
    };
  };
  ASSERT_TRUE(threads->run(into(expected)));
  expectAllOk(runWorld(world, into(got)));
  EXPECT_EQ(got, expected);
  EXPECT_NE(got[0], got[1]); // their shards differ
}

TEST(Crew, LargeReductionsGoInRounds) {
  constexpr int64_t count = (int64_t(1) << 22) + 12345;
  expectAllOk(runWorld(3, [&](Communicator &communicator) -> Status {
    std::vector<float> data(count);
    for (int64_t i = 0; i < count; ++i)
      data[size_t(i)] = float(communicator.rank() + 1) * float(i % 1024);
    if (Status status = communicator.allReduce(data.data(), count, DType::F32, Combine::Sum,
                                               Ranks::All, "large");
        !status)
      return status;
    for (int64_t i = 0; i < count; ++i)
      if (data[size_t(i)] != 6 * float(i % 1024))
        return failed("element " + std::to_string(i));
    // A part's element i of member p is (rank + 1) · (i % 1024 + p).
    constexpr int64_t part = count / 3 + 777;
    std::vector<float> whole(3 * part), mine(part);
    for (int64_t member = 0; member < 3; ++member)
      for (int64_t i = 0; i < part; ++i)
        whole[size_t(member * part + i)] =
            float(communicator.rank() + 1) * float(i % 1024 + member);
    if (Status status = communicator.reduceScatter(whole.data(), mine.data(), part, DType::F32,
                                                   Ranks::All, "large parts");
        !status)
      return status;
    for (int64_t i = 0; i < part; ++i)
      if (mine[size_t(i)] != 6 * float(i % 1024 + communicator.rank()))
        return failed("element " + std::to_string(i) + " of a part");
    return ok();
  }));
}

TEST(Crew, KnowsWhereItsRanksAre) {
  std::vector<std::thread> threads;
  int port = freePort();
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([rank, port] {
      auto crew = Crew::start(optionsOf(rank, 3, port));
      ASSERT_TRUE(crew) << crew.error().message;
      EXPECT_EQ((*crew)->world(), 3);
      EXPECT_EQ((*crew)->hasFirst(), rank == 0);
      EXPECT_EQ((*crew)->onMachine(), 3);
      EXPECT_EQ((*crew)->describe(), "TCP");
      EXPECT_TRUE((*crew)->run([](Communicator &) { return ok(); }));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Crew, TellsWhatRank0Says) {
  constexpr int world = 3;
  const int port = freePort();
  std::vector<std::string> heard(world);
  std::vector<Status> ends(world, ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      auto crew = Crew::start(optionsOf(rank, world, port));
      if (!crew) {
        ends[size_t(rank)] = crew.error();
        return;
      }
      if (auto told = (*crew)->tell("of rank " + std::to_string(rank), "a word"))
        heard[size_t(rank)] = *told;
      // The run comes behind it.
      ends[size_t(rank)] = (*crew)->run(
          [](Communicator &communicator) -> Status { return communicator.barrier("its run"); });
    });
  for (std::thread &thread : threads)
    thread.join();
  expectAllOk(ends);
  EXPECT_EQ(heard, std::vector<std::string>(world, "of rank 0"));
  EXPECT_EQ(*Crew::threads(world)->tell("mine", "a word"), "mine");
}

TEST(Crew, AFailureEndsAllWithItsReason) {
  for (int culprit : {0, 1, 2}) {
    auto ends = runWorld(3, [&](Communicator &communicator) -> Status {
      communicator.doing("step 7, program 'last'");
      if (Status status = reduceOne(communicator, "grads (model.cpp:20)"); !status)
        return status;
      if (communicator.rank() == culprit)
        return failed("the disk is full");
      return reduceOne(communicator, "more");
    });
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(ends[size_t(rank)]);
      const std::string message = ends[size_t(rank)].error().message;
      if (rank == culprit) {
        EXPECT_EQ(message, "the disk is full");
        continue;
      }
      // A rank may hear of it at the end of the first collective, or in its next one.
      auto heardIn = [&](const std::string &name) {
        return "all-reduce '" + name + "' of 1 f32 on rank " + std::to_string(rank) + ": rank " +
               std::to_string(culprit) +
               " failed after all-reduce 'grads (model.cpp:20)' of 1 f32, step 7, program 'last': "
               "the disk is full";
      };
      EXPECT_TRUE(message == heardIn("grads (model.cpp:20)") || message == heardIn("more"))
          << message;
    }
  }
}

TEST(Crew, ARankThatEndsEarlyKeepsTheOthersFromSuccess) {
  auto ends = runWorld(2, [&](Communicator &communicator) -> Status {
    return communicator.rank() ? failed("cannot write") : ok();
  });
  EXPECT_EQ(ends[1].error().message, "cannot write");
  ASSERT_FALSE(ends[0]);
  EXPECT_CONTAINS(ends[0].error().message, "rank 1 failed after no collective: cannot write");
}

TEST(Crew, DifferentCollectivesAreAnError) {
  // Whichever of ranks 0 and 1 is heard of first is the one that rank 2 is compared with.
  const auto ends = runWorld(3, [&](Communicator &communicator) {
    return reduceOne(communicator, communicator.rank() == 2 ? "b" : "a");
  });
  expectAllFailed(ends, "rank 2 calls all-reduce 'b' of 1 f32 where rank ");
  expectAllFailed(ends, " calls all-reduce 'a' of 1 f32");
  expectAllFailed(runWorld(2,
                           [&](Communicator &communicator) {
                             return communicator.rank() ? communicator.barrier("b")
                                                        : reduceOne(communicator, "a");
                           }),
                  "rank 1 calls barrier 'b' where rank 0 calls all-reduce 'a' of 1 f32");
  expectAllFailed(runWorld(2,
                           [&](Communicator &communicator) -> Status {
                             auto texts =
                                 communicator.exchange("", communicator.rank() ? "b" : "a");
                             return texts ? ok() : Status(texts.error());
                           }),
                  "rank 1 calls exchange 'b' where rank 0 calls exchange 'a'");
}

TEST(Crew, ARankThatHangsIsNamed) {
  for (int culprit : {0, 1}) {
    auto ends = runWorld(
        3,
        [&](Communicator &communicator) -> Status {
          communicator.doing("step 3, program 'next'");
          if (Status status = reduceOne(communicator, "a"); !status)
            return status;
          if (communicator.rank() == culprit) {
            while (!communicator.failure())
              std::this_thread::sleep_for(5ms);
            return *communicator.failure();
          }
          return reduceOne(communicator, "b");
        },
        1s);
    expectAllFailed(ends, "rank " + std::to_string(culprit) + " (process " +
                              std::to_string(::getpid()) + " on " + hostName() +
                              ") makes no progress for 1 s, last seen in all-reduce 'a' of 1 "
                              "f32, step 3, program 'next'");
  }
}

TEST(Crew, ARankThatShowsLifeIsWaitedFor) {
  expectAllOk(runWorld(
      2,
      [&](Communicator &communicator) -> Status {
        if (communicator.rank() == 0)
          for (int i = 0; i < 25; ++i) {
            std::this_thread::sleep_for(100ms);
            communicator.doing("writing shard " + std::to_string(i));
          }
        return communicator.barrier("saved");
      },
      2s));
}

TEST(Crew, DevicesThatWaitForEachOtherAreFoundOut) {
  expectAllFailed(runWorld(
                      2,
                      [&](Communicator &communicator) -> Status {
                        communicator.doing("step 1");
                        if (communicator.rank() == 0)
                          communicator.waiting("step 2, for the GPU");
                        while (!communicator.failure())
                          std::this_thread::sleep_for(5ms);
                        return *communicator.failure();
                      },
                      1s),
                  "makes no progress for 1 s, last seen in no collective, step 1");
  // Each waits for the other.
  expectAllFailed(runWorld(
                      2,
                      [&](Communicator &communicator) -> Status {
                        if (Status status = communicator.setGroup(2); !status)
                          return status;
                        if (communicator.rank() == 0) // with nobody
                          if (Status status = communicator.allReduce(
                                  nullptr, 0, DType::F32, Combine::Sum, Ranks::Peers, "alone");
                              !status)
                            return status;
                        communicator.waiting("step 2, for the GPU");
                        while (!communicator.failure())
                          std::this_thread::sleep_for(5ms);
                        return *communicator.failure();
                      },
                      1s),
                  "all ranks wait for 1 s; furthest behind is rank 1 (process " +
                      std::to_string(::getpid()) + " on " + hostName() +
                      "), last seen in no collective, step 2, for the GPU");
}

TEST(Crew, StopsAProcessThatDoesNotEnd) {
  std::vector<CrewOptions> options;
  int port = freePort();
  std::atomic<bool> stopped = false;
  for (int rank = 0; rank < 2; ++rank)
    options.push_back(optionsOf(rank, 2, port));
  options[1].stop = [&](const std::string &message) {
    EXPECT_EQ(message, "rank 0 failed after no collective: it was tired");
    stopped = true;
  };
  runCrews(options, [&](Communicator &communicator) -> Status {
    if (communicator.rank() == 0)
      return failed("it was tired");
    while (!stopped) // in a kernel that waits for something else
      std::this_thread::sleep_for(10ms);
    return ok();
  });
  EXPECT_TRUE(stopped);
}

TEST(Crew, RefusesRanksThatDoNotFitAndGoesOn) {
  int port = freePort();
  const std::string process = "process " + std::to_string(::getpid()) + " on " + hostName();
  auto work = [](Communicator &communicator) { return reduceOne(communicator, "a"); };
  std::vector<Status> first;
  std::thread rank0([&] { first = runCrews({optionsOf(0, 2, port)}, work); });
  auto refused = runCrews({optionsOf(1, 3, port)}, work);
  ASSERT_FALSE(refused[0]);
  EXPECT_EQ(refused[0].error().exitStatus(), 2);
  EXPECT_EQ(refused[0].error().message,
            "rank 0 at 127.0.0.1:" + std::to_string(port) + " refuses: rank 1 (" + process +
                ") was started as one of 3 ranks and rank 0 as one of 2");
  expectAllOk(runCrews({optionsOf(1, 2, port)}, work));
  rank0.join();
  expectAllOk(first);
}

/// A secret that is given counts for all: who has none, or another, stays out.
TEST(Crew, AGivenSecretKeepsOthersOut) {
  int port = freePort();
  auto work = [](Communicator &communicator) { return reduceOne(communicator, "a"); };
  auto with = [&](int rank, const std::string &secret) {
    CrewOptions options = optionsOf(rank, 2, port);
    options.launch.secret = secret;
    return options;
  };
  std::vector<Status> first;
  std::thread rank0([&] { first = runCrews({with(0, "correct horse battery")}, work); });
  for (const char *secret : {"", "another one of them"}) {
    auto refused = runCrews({with(1, secret)}, work);
    ASSERT_FALSE(refused[0]);
    EXPECT_CONTAINS(refused[0].error().message, "does not know the secret of this job");
  }
  expectAllOk(runCrews({with(1, "correct horse battery")}, work));
  rank0.join();
  expectAllOk(first);
}

/// On one machine rank 0 listens at the loopback, and there is nothing to be cautious of.
TEST(Crew, OneMachineNeedsNoSecret) {
  int port = freePort();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto crew = Crew::start(optionsOf(rank, 2, port));
      ASSERT_TRUE(crew) << crew.error().message;
      EXPECT_EQ((*crew)->caution(), "");
      EXPECT_TRUE((*crew)->run([](Communicator &c) { return c.barrier("here"); }));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Crew, ARankOfAnotherJobIsRefusedAndTheRunGoesOn) {
  int port = freePort();
  auto work = [](Communicator &communicator) { return reduceOne(communicator, "a"); };
  std::vector<Status> first;
  std::thread rank0([&] { first = runCrews({optionsOf(0, 2, port)}, work); });
  for (int world : {2, 3}) { // whether it would fit or not
    CrewOptions other = optionsOf(1, world, port);
    other.launch.job = "k";
    auto refused = runCrews({other}, work);
    ASSERT_FALSE(refused[0]);
    EXPECT_EQ(refused[0].error().message, "rank 0 at 127.0.0.1:" + std::to_string(port) +
                                              " refuses: process " + std::to_string(::getpid()) +
                                              " on " + hostName() +
                                              " belongs to another job, 'k', than rank 0, 'j'");
  }
  expectAllOk(runCrews({optionsOf(1, 2, port)}, work));
  rank0.join();
  expectAllOk(first);
}

TEST(Crew, SaysWhoDidNotCome) {
  int port = freePort();
  CrewOptions first = optionsOf(0, 4, port), third = optionsOf(2, 4, port);
  first.joinTimeout = 2s;
  expectAllFailed(runCrews({first, third}, [](Communicator &) { return ok(); }),
                  "ranks 1, 3 did not come to rank 0 within 2 s (port " + std::to_string(port));
  CrewOptions alone = optionsOf(1, 2, port);
  alone.joinTimeout = 1s;
  auto ends = runCrews({alone}, [](Communicator &) { return ok(); });
  EXPECT_EQ(ends[0].error().message, "rank 1 did not reach rank 0 within 1 s: 127.0.0.1:" +
                                         std::to_string(port) + ": Connection refused");
}

TEST(Crew, SaysThatAPortIsTaken) {
  auto listener = listenOn(0);
  ASSERT_TRUE(listener);
  int port = portOf(*listener);
  auto ends = runCrews({optionsOf(0, 2, port)}, [](Communicator &) { return ok(); });
  EXPECT_EQ(ends[0].error().message,
            "rank 0, where the others look for it: cannot listen on port " + std::to_string(port) +
                ": Address already in use; choose another place with --coordinator HOST:PORT");
}

TEST(Crew, AStrangerDoesNotDisturb) {
  int port = freePort();
  auto work = [](Communicator &communicator) { return reduceOne(communicator, "a"); };
  std::vector<Status> first;
  std::thread rank0([&] { first = runCrews({optionsOf(0, 2, port)}, work); });
  const auto deadline = std::chrono::steady_clock::now() + 15s;
  bool came = false;
  while (!came && std::chrono::steady_clock::now() < deadline) {
    auto socket = connectTo("127.0.0.1", port, deadline);
    came = socket && sendFrame(*socket, "GET / HTTP/1.1", deadline);
    if (!came)
      std::this_thread::sleep_for(5ms); // rank 0 does not listen yet
  }
  EXPECT_TRUE(came);
  expectAllOk(runCrews({optionsOf(1, 2, port)}, work));
  rank0.join();
  expectAllOk(first);
}

TEST(Crew, SaysThatAThreadCannotBeMade) {
  // Room for the stacks of a few threads only.
  constexpr size_t gigabyte = size_t(1) << 30;
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  pthread_attr_t attributes, saved;
  ASSERT_EQ(pthread_getattr_default_np(&saved), 0);
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, gigabyte), 0);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = pages * size_t(sysconf(_SC_PAGESIZE)) + 4 * gigabyte + gigabyte / 2;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
  std::atomic<int> begun = 0;
  Status end = Crew::threads(16)->run([&](Communicator &communicator) {
    ++begun;
    return communicator.barrier("start");
  });
  EXPECT_EQ(pthread_setattr_default_np(&saved), 0);
  EXPECT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().exitStatus(), 1);
  EXPECT_GT(begun, 0);
  EXPECT_EQ(end.error().message, "no thread for rank " + std::to_string(begun + 1) +
                                     " of 16 can be made: Resource temporarily unavailable");
}

TEST(Agreement, NamesWhoDiffersInWhat) {
  for (int culprit : {0, 2}) {
    auto threads = Crew::threads(3);
    std::atomic<int> told = 0;
    Status end = threads->run([&](Communicator &communicator) {
      Status status =
          agree(communicator,
                {{"plan", "1f"}, {"--steps", communicator.rank() == culprit ? "20" : "10"}});
      EXPECT_FALSE(status);
      EXPECT_EQ(status.error().exitStatus(), 2);
      EXPECT_EQ(status.error().message,
                culprit == 2 ? "rank 2 differs from rank 0 in --steps: '20', rank 0 has '10'; "
                               "start all ranks with the same files and options"
                             : "rank 1 differs from rank 0 in --steps: '10', rank 0 has '20'; "
                               "start all ranks with the same files and options");
      ++told;
      return status;
    });
    EXPECT_FALSE(end);
    EXPECT_EQ(told, 3);
  }
  auto threads = Crew::threads(2);
  EXPECT_TRUE(threads->run([](Communicator &communicator) {
    return agree(communicator, {{"plan", "1f"}, {"--steps", "3"}});
  }));
  threads = Crew::threads(2);
  Status end = threads->run([](Communicator &communicator) {
    return agree(communicator,
                 communicator.rank() ? Facts{{"plan", "1f"}} : Facts{{"plan", "1f"}, {"x", ""}});
  });
  ASSERT_FALSE(end);
  EXPECT_CONTAINS(end.error().message, "rank 1 runs another version of nanorun than rank 0");
}

} // namespace
} // namespace nano
