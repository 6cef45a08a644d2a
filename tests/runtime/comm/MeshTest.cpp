// Connections that carry tensors: what is wrong with the other end, or with what it sends, is said.
#include "runtime/comm/Mesh.h"

#include <atomic>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace nano {
namespace {

using namespace std::chrono_literals;

bool never() { return false; }

/// What rank 1 is told when it sends to rank 0, which gave `whereabouts`.
Transport::Loss lossTo(const std::string &whereabouts) {
  auto mesh = Mesh::open();
  EXPECT_TRUE(mesh);
  (*mesh)->know(1, {{"h", "1", "", whereabouts}, {"h", "2", "", (*mesh)->whereabouts()}}, "job");
  float value = 1;
  auto loss = (*mesh)->exchange({{0, &value, sizeof value}}, {}, 1, never);
  EXPECT_TRUE(loss);
  return loss.value_or(Transport::Loss());
}

TEST(Mesh, SaysWhyItCannotReachARank) {
  auto listener = listenOn(0);
  ASSERT_TRUE(listener);
  const std::string port = std::to_string(portOf(*listener));
  Transport::Loss loss = lossTo("");
  EXPECT_EQ(loss.rank, 0);
  EXPECT_EQ(loss.reason, "cannot be made: it gave no address");

  auto lossWith = [&](const std::optional<std::string> &answer) {
    std::thread other([&] {
      Socket socket = acceptFrom(*listener, std::chrono::steady_clock::now() + 20s);
      ASSERT_TRUE(socket);
      auto greeting = receiveFrame(socket, 4096, std::chrono::steady_clock::now() + 20s);
      EXPECT_TRUE(greeting);
      if (answer) {
        EXPECT_TRUE(sendFrame(socket, *answer, std::chrono::steady_clock::now() + 20s));
      }
    });
    Transport::Loss end = lossTo(pack({"127.0.0.1", port}));
    other.join();
    EXPECT_EQ(end.rank, 0);
    return end.reason;
  };
  EXPECT_EQ(lossWith("SSH-2.0"), "cannot be made: 127.0.0.1: somebody else answers there");
  EXPECT_EQ(lossWith(std::nullopt), "cannot be made: 127.0.0.1: the connection was closed");
  *listener = Socket();
  EXPECT_EQ(lossTo(pack({"127.0.0.1", port})).reason,
            "cannot be made: 127.0.0.1:" + port + ": Connection refused");
}

TEST(Mesh, RefusesDataOfAnotherCall) {
  auto first = Mesh::open(), second = Mesh::open();
  ASSERT_TRUE(first && second);
  const std::vector<Peer> peers = {{"h", "1", "127.0.0.1", (*first)->whereabouts()},
                                   {"h", "2", "127.0.0.1", (*second)->whereabouts()}};
  (*first)->know(0, peers, "job");
  (*second)->know(1, peers, "job");
  const float sent[2] = {1, 2};
  std::thread rank0([&] { EXPECT_FALSE((*first)->exchange({{1, sent, 8}}, {}, 5, never)); });
  float received = 0;
  auto loss = (*second)->exchange({}, {{0, &received, 4}}, 6, never);
  rank0.join();
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
  EXPECT_EQ(loss->reason, "carried 8 bytes of call 5 where 4 of call 6 were due");
  EXPECT_EQ(received, 0);
}

/// Connections that say nothing, or lie, come before the one that is waited for.
TEST(Mesh, StrangersKeepNobody) {
  auto first = Mesh::open("127.0.0.1"), second = Mesh::open("127.0.0.1");
  ASSERT_TRUE(first && second);
  const std::vector<Peer> peers = {{"h", "1", "", (*first)->whereabouts()},
                                   {"h", "2", "", (*second)->whereabouts()}};
  EXPECT_EQ(unpack((*first)->whereabouts()).at(0), "127.0.0.1");
  const int port = numberOf(unpack((*first)->whereabouts()).at(1));
  (*first)->know(0, peers, "key");
  (*second)->know(1, peers, "key");
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) {
    auto socket = connectTo("127.0.0.1", port, std::chrono::steady_clock::now() + 5s);
    ASSERT_TRUE(socket);
    if (i % 2) { // as rank 1 would begin
      ASSERT_TRUE(sendFrame(*socket, pack({"nanorun mesh 2", "1", "0", std::string(32, 'n')}),
                            std::chrono::steady_clock::now() + 5s));
      ASSERT_TRUE(sendFrame(*socket, std::string(32, 'm'), std::chrono::steady_clock::now() + 5s));
    }
    strangers.push_back(std::move(*socket));
  }
  const float sent = 3;
  float received = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::thread rank1([&] { EXPECT_FALSE((*second)->exchange({{0, &sent, 4}}, {}, 5, never)); });
  EXPECT_FALSE((*first)->exchange({}, {{1, &received, 4}}, 5, never));
  rank1.join();
  EXPECT_EQ(received, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
}

/// Ranks that do not know the same key do not take each other's data.
TEST(Mesh, AnotherKeyIsAnotherRun) {
  auto first = Mesh::open(), second = Mesh::open();
  ASSERT_TRUE(first && second);
  const std::vector<Peer> peers = {{"h", "1", "127.0.0.1", (*first)->whereabouts()},
                                   {"h", "2", "127.0.0.1", (*second)->whereabouts()}};
  (*first)->know(0, peers, "one key");
  (*second)->know(1, peers, "another");
  std::atomic<bool> isOver = false;
  float value = 1;
  std::thread rank0([&] {
    float received = 0;
    EXPECT_TRUE((*first)->exchange({}, {{1, &received, 4}}, 5, [&] { return isOver.load(); }));
    EXPECT_EQ(received, 0);
  });
  auto loss = (*second)->exchange({{0, &value, 4}}, {}, 5, never);
  isOver = true;
  rank0.join();
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 0);
  EXPECT_TRUE(loss->reason.find("somebody else answers there") != std::string::npos)
      << loss->reason;
}

} // namespace
} // namespace nano
