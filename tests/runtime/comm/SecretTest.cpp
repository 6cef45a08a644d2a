// Secrets as they are given, keyed hashes against published ones, and keys that only processes of
// one user get.
#include "runtime/comm/Secret.h"
#include "tests/runtime/Expect.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace nano {
namespace {

using namespace std::chrono_literals;

std::string hexOf(const std::string &bytes) {
  std::string text;
  for (char byte : bytes) {
    constexpr const char *digits = "0123456789abcdef";
    text += {digits[uint8_t(byte) >> 4], digits[uint8_t(byte) & 15]};
  }
  return text;
}

/// RFC 4231, cases 1 and 2.
TEST(Secret, MacsAreHmacSha256) {
  EXPECT_EQ(hexOf(macOf(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hexOf(macOf("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::string> texts = {"a", "bc"};
  const std::string mac = macOf("key", texts);
  EXPECT_TRUE(isMacOf(mac, "key", texts));
  EXPECT_FALSE(isMacOf(mac, "kez", texts));
  EXPECT_FALSE(isMacOf(mac, "key", {"ab", "c"})) << "where a text ends counts";
  EXPECT_FALSE(isMacOf(mac.substr(1), "key", texts));
  EXPECT_FALSE(isMacOf("", "key", texts));
  EXPECT_EQ(randomBytes(32).size(), 32u);
  EXPECT_NE(randomBytes(32), randomBytes(32));
}

TEST(Secret, FromAVariableOrAFile) {
  EXPECT_EQ(*givenSecret("", std::nullopt), "");
  EXPECT_EQ(*givenSecret("", "  0123456789abcdef\n"), "0123456789abcdef");
  auto bad = [](const std::string &path, const std::optional<std::string> &variable) {
    auto secret = givenSecret(path, variable);
    EXPECT_FALSE(secret);
    EXPECT_EQ(secret.error().exitStatus(), 2);
    return secret.error().message;
  };
  EXPECT_EQ(bad("", "short"), "NANO_JOB_SECRET: has 5 characters, a secret has at least 16; make "
                              "one with openssl rand -hex 32");
  EXPECT_CONTAINS(bad("", ""), "NANO_JOB_SECRET: has 0 characters");
  std::string folder = std::filesystem::temp_directory_path().string() + "/nano-secret-XXXXXX";
  ASSERT_TRUE(::mkdtemp(folder.data()));
  const std::string path = folder + "/secret";
  auto write = [&](const std::string &text) {
    std::ofstream(path, std::ios::trunc) << text;
    std::filesystem::permissions(path, std::filesystem::perms(0600));
  };
  EXPECT_EQ(bad(path, std::nullopt),
            "--job-secret " + path + ": cannot be opened: No such file or directory");
  EXPECT_EQ(bad(folder, std::nullopt), "--job-secret " + folder + ": is not a regular file");
  write("of the file, which counts\n");
  EXPECT_EQ(*givenSecret(path, "0123456789abcdef"), "of the file, which counts");
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  EXPECT_EQ(bad(path, std::nullopt),
            "--job-secret " + path + ": other users may read or change it; chmod 600 " + path);
  write(std::string(5000, 'x'));
  EXPECT_EQ(bad(path, std::nullopt), "--job-secret " + path + ": is longer than 4096 bytes");
  write(" \n");
  EXPECT_CONTAINS(bad(path, std::nullopt), "has 0 characters");
  std::filesystem::remove_all(folder);
}

/// A place, and the thread that serves it.
class KeyServer {
public:
  explicit KeyServer(int port, const std::string &key) {
    auto made = openKeyPlace(port);
    EXPECT_TRUE(made) << made.error().message;
    place = std::move(*made);
    thread = std::thread([this, key] {
      while (!isOver) {
        pollfd entry = {place.fd(), POLLIN, 0};
        if (::poll(&entry, 1, 20) > 0)
          handOutKey(place, key);
      }
    });
  }
  ~KeyServer() {
    isOver = true;
    thread.join();
  }

private:
  Socket place;
  std::atomic<bool> isOver = false;
  std::thread thread;
};

TEST(Secret, KeysAreHandedToTheSameUserOnly) {
  auto listener = listenOn(0);
  ASSERT_TRUE(listener);
  const int port = portOf(*listener); // nobody else has it
  auto soon = [] { return std::chrono::steady_clock::now() + 5s; };
  EXPECT_EQ(askForKey(port, soon()), std::nullopt) << "nobody is there";
  KeyServer server(port, std::string(32, 'k'));
  EXPECT_EQ(askForKey(port, soon()), std::string(32, 'k'));
  auto second = openKeyPlace(port);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            "the job's secret cannot be shared on this machine: Address already in use; give one "
            "in NANO_JOB_SECRET or --job-secret");
  if (::geteuid() != 0)
    GTEST_SKIP() << "becoming another user needs root";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::setuid(65534) != 0)
      ::_exit(3);
    ::_exit(askForKey(port, soon()) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

} // namespace
} // namespace nano
