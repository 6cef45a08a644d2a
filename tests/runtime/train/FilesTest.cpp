// Files that people name: nothing but a regular file is read or replaced, nothing is waited for,
// and no text nests deeper than a parser's stack.
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/data/TokenShards.h"
#include "runtime/files/BuildCache.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/FileWriter.h"
#include "runtime/plan/InputFile.h"
#include "runtime/plan/JsonDepth.h"
#include "runtime/plan/OutputFile.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <tuple>
#include <unistd.h>

namespace nano {
namespace {

namespace fs = std::filesystem;
using test::namesIn;
using test::readText;
using test::ScratchDirectory;
using test::writeText;

void makeFifo(const std::string &path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }

void makeSocket(const std::string &path) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
  ::close(descriptor);
}

/// A file of so many bytes that takes no place on the disk.
void makeSparse(const std::string &path, uint64_t bytes) {
  writeText(path, "");
  ASSERT_EQ(::truncate(path.c_str(), off_t(bytes)), 0);
}

//===- Writing -----------------------------------------------------------------===//

/// Publishes `text` at the path; the error, empty when there is none.
std::string publish(const std::string &path, const std::string &text) {
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.error().message;
  Status status = file->writer().append(text);
  if (status)
    status = file->publish();
  return status ? "" : status.error().message;
}

TEST(Files, ADeviceIsWrittenTo) {
  ScratchDirectory scratch;
  const std::string device = scratch / "null";
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0)
    GTEST_SKIP() << "a device can only be made by root";
  if (const int opened = ::open(device.c_str(), O_WRONLY); opened < 0)
    GTEST_SKIP() << "no device can be opened here";
  else
    ::close(opened);
  EXPECT_EQ(publish(device, "text"), "");
  struct stat found = {};
  ASSERT_EQ(::lstat(device.c_str(), &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  EXPECT_EQ(namesIn(scratch.path), std::vector<std::string>{"null"});
}

TEST(Files, ALinkStaysAndItsFileIsReplaced) {
  ScratchDirectory scratch;
  fs::create_directory(scratch / "data");
  writeText(scratch / "data/file", "before");
  fs::create_symlink("data/file", scratch / "link");
  fs::create_symlink("/dev/null", scratch / "null");
  fs::create_symlink("data/none", scratch / "dangling");
  fs::create_symlink("no/where", scratch / "lost");
  fs::create_symlink("loop", scratch / "loop");
  EXPECT_EQ(publish(scratch / "link", "after"), "");
  EXPECT_EQ(publish(scratch / "null", "after"), "");
  EXPECT_EQ(publish(scratch / "dangling", "new"), "");
  EXPECT_EQ(readText(scratch / "data/file"), "after");
  EXPECT_EQ(readText(scratch / "data/none"), "new");
  for (const char *link : {"link", "null", "dangling"})
    EXPECT_TRUE(fs::is_symlink(scratch / link)) << link;
  EXPECT_EQ(publish(scratch / "lost", "x"),
            scratch / "lost: cannot be created: No such file or directory");
  EXPECT_EQ(publish(scratch / "loop", "x"),
            scratch / "loop: cannot be created: Too many levels of symbolic links");
  EXPECT_EQ(namesIn(scratch / "data"), (std::vector<std::string>{"file", "none"}));
}

TEST(Files, AFifoIsForReadersThatAreThere) {
  ScratchDirectory scratch;
  const std::string fifo = scratch / "fifo";
  makeFifo(fifo);
  EXPECT_EQ(publish(fifo, "x"), fifo + ": is a FIFO that nobody reads; start its reader first, or "
                                       "give the name of a file");
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(publish(fifo, "some text"), "");
  char text[32] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 9);
  EXPECT_STREQ(text, "some text");
  EXPECT_TRUE(fs::is_fifo(fifo));

  // A reader that goes away is an error, not the end of the process.
  Result<AtomicFile> file = AtomicFile::create(fifo);
  ASSERT_TRUE(file);
  ::close(reader);
  Status status = file->writer().append("more");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_EQ(status.error().message, fifo + ": cannot be written: Broken pipe");
}

TEST(Files, WhatIsNoPlaceForAFile) {
  ScratchDirectory scratch;
  makeSocket(scratch / "socket");
  EXPECT_EQ(publish(scratch / "socket", "x"),
            scratch / "socket: is a socket; give the name of a file");
  EXPECT_EQ(publish(scratch.path, "x"), scratch.path + ": is a directory; give the name of a file");
  if (::mknod((scratch / "disk").c_str(), S_IFBLK | 0600, makedev(7, 250)) == 0) {
    EXPECT_EQ(publish(scratch / "disk", "x"),
              scratch / "disk: is a block device; give the name of a file");
  }
}

TEST(Files, NothingThatStandsBesideIsTouched) {
  ScratchDirectory scratch;
  const std::string temporary = fmt::format("{}/file.tmp-{}", scratch.path, ::getpid());
  writeText(scratch / "precious", "precious");
  fs::create_symlink("precious", temporary);
  EXPECT_EQ(publish(scratch / "file", "text"), "");
  EXPECT_EQ(readText(scratch / "file"), "text");
  EXPECT_EQ(readText(scratch / "precious"), "precious");
  EXPECT_TRUE(fs::is_symlink(temporary));
}

TEST(Files, TheCacheReadsAndReplacesRegularFilesOnly) {
  ScratchDirectory scratch;
  std::vector<std::string> said;
  BuildCache cache(scratch.path, ".x", [&](const std::string &line) { said.push_back(line); });
  const std::string key(32, 'a'), path = scratch / (key + ".x");
  makeFifo(path);
  EXPECT_FALSE(cache.find(key));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_CONTAINS(said[0], path + ": is not a regular file but a FIFO");
  cache.store(key, "bytes");
  ASSERT_EQ(said.size(), 2u);
  EXPECT_CONTAINS(said[1], "compiled kernels cannot be kept there");
  EXPECT_TRUE(fs::is_fifo(path));
  fs::remove(path);

  fs::create_directory(scratch / "elsewhere");
  fs::create_symlink("elsewhere/entry", path);
  BuildCache other(scratch.path, ".x", [&](const std::string &line) { said.push_back(line); });
  other.store(key, "bytes");
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_EQ(other.find(key), "bytes");
  EXPECT_EQ(namesIn(scratch / "elsewhere"), std::vector<std::string>{"entry"});
}

//===- Reading -----------------------------------------------------------------===//

constexpr InputKind small = {"a test", 1000, "give another"};

std::string errorOf(const std::string &path) {
  Result<std::string> text = readInput(path, small);
  if (text)
    return "no error";
  EXPECT_EQ(text.error().exitStatus(), 2);
  return text.error().message;
}

TEST(Files, WhatIsNoRegularFileIsNotOpened) {
  ScratchDirectory scratch;
  makeFifo(scratch / "fifo");
  makeSocket(scratch / "socket");
  fs::create_symlink("/dev/zero", scratch / "endless");
  auto refusal = [&](const std::string &name, const char *what) {
    return fmt::format("{}: is not a regular file but {}; give another", scratch / name, what);
  };
  EXPECT_EQ(errorOf(scratch / "fifo"), refusal("fifo", "a FIFO"));
  EXPECT_EQ(errorOf(scratch / "socket"), refusal("socket", "a socket"));
  EXPECT_EQ(errorOf(scratch / "endless"), refusal("endless", "a character device"));
  EXPECT_EQ(errorOf(scratch.path), scratch.path + ": is not a regular file but a directory; "
                                                  "give another");
  EXPECT_EQ(errorOf(scratch / "none"), scratch / "none: cannot be read: No such file or directory; "
                                                 "give another");
}

TEST(Files, NoFileIsLargerThanItsKind) {
  ScratchDirectory scratch;
  for (uint64_t bytes : {0, 1, 999, 1000}) {
    writeText(scratch / "file", std::string(bytes, 'x'));
    Result<std::string> text = readInput(scratch / "file", small);
    ASSERT_TRUE(text) << bytes;
    EXPECT_EQ(*text, std::string(bytes, 'x'));
  }
  writeText(scratch / "file", std::string(1001, 'x'));
  EXPECT_EQ(errorOf(scratch / "file"),
            scratch / "file: has 1001 bytes, and a test at most 1000; give another");
  makeSparse(scratch / "sparse", uint64_t(1) << 40);
  EXPECT_EQ(errorOf(scratch / "sparse"),
            scratch / "sparse: has 1099511627776 bytes, and a test at most 1000; give another");
  // Files of the kernel's say that they have none.
  Result<std::string> status = readInput("/proc/self/status", input::system);
  ASSERT_TRUE(status);
  EXPECT_CONTAINS(*status, "Threads:");
  EXPECT_CONTAINS(errorOf("/proc/cpuinfo"), "/proc/cpuinfo: has more than 1000 bytes, and a test");
}

TEST(Files, TruncatedWhileItIsOpen) {
  ScratchDirectory scratch;
  const std::string path = scratch / "file";
  writeText(path, std::string(100000, 'x'));
  Result<InputFile> file = InputFile::open(path, input::tensors);
  ASSERT_TRUE(file);
  ASSERT_EQ(::truncate(path.c_str(), 60000), 0);
  std::string bytes(100000, '\0');
  EXPECT_TRUE(file->read(0, bytes.data(), 60000));
  Status status = file->read(50000, bytes.data(), 50000);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_EQ(status.error().message,
            path + ": ends after 60000 bytes and had 100000 when it was opened: it was truncated "
                   "while it was in use; put it back and start again");
}

//===- JSON --------------------------------------------------------------------===//

TEST(Files, DepthOfJson) {
  const std::string open(256, '['), shut(256, ']');
  EXPECT_FALSE(nestsTooDeep(""));
  EXPECT_FALSE(nestsTooDeep(open + shut));
  EXPECT_FALSE(nestsTooDeep(open + shut + "," + open + shut)); // beside each other
  EXPECT_TRUE(nestsTooDeep("[" + open + shut + "]"));
  EXPECT_TRUE(nestsTooDeep("{\"a\":" + open));
  EXPECT_FALSE(nestsTooDeep("\"" + std::string(1000, '[') + "\""));
  EXPECT_FALSE(nestsTooDeep("[\"\\\"" + std::string(1000, '[') + "\"]")); // behind \"
  EXPECT_TRUE(nestsTooDeep("[\"\\\\\"," + std::string(1000, '[')));       // behind \\, which ends
  std::string objects;
  for (int i = 0; i < 257; ++i)
    objects += "{\"a\":";
  EXPECT_TRUE(nestsTooDeep(objects));
}

} // namespace
} // namespace nano
