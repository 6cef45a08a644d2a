// Files that people name: nothing but a regular file is read or replaced, nothing is waited for,
// and no text nests deeper than a parser's stack.
#include "base/InputFile.h"
#include "base/JsonDepth.h"
#include "base/OutputFile.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/data/TokenShards.h"
#include "runtime/files/BuildCache.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/FileWriter.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

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

TEST(Files, ManyWritersReplaceOneFile) {
  ScratchDirectory scratch;
  const std::string path = scratch / "shared";
  auto replaceOften = [&] {
    for (int i = 0; i < 500; ++i) {
      Result<OutputFile> file = OutputFile::replace(path);
      ASSERT_TRUE(file) << file.error().message;
      ASSERT_TRUE(file->append("whole"));
      const Status status = file->finish(OutputFile::Keep::IfNothingCrashes);
      ASSERT_TRUE(status) << status.error().message;
    }
  };
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back(replaceOften);
  for (std::thread &writer : writers)
    writer.join();
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

TEST(Files, NobodyCanGuessWhatStandsBeside) {
  ScratchDirectory scratch;
  std::set<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    Result<AtomicFile> file = AtomicFile::create(scratch / "file");
    ASSERT_TRUE(file);
    const std::vector<std::string> names = namesIn(scratch.path);
    ASSERT_EQ(names.size(), 1u);
    EXPECT_TRUE(std::regex_match(names[0], std::regex("file\\.tmp-[0-9a-f]{16}"))) << names[0];
    seen.insert(names[0]);
  }
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_TRUE(namesIn(scratch.path).empty());
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

TEST(Files, TheCacheIsOfItsUserAlone) {
  ScratchDirectory scratch;
  std::vector<std::string> said;
  auto report = [&](const std::string &line) { said.push_back(line); };
  const std::string key(32, 'a'), folder = scratch / "new/cache";
  BuildCache made(folder, ".x", report);
  EXPECT_FALSE(made.find(key));
  made.store(key, "bytes");
  EXPECT_EQ(made.find(key), "bytes");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(said.empty());

  fs::permissions(folder, fs::perms::others_write, fs::perm_options::add);
  BuildCache open(folder, ".x", report);
  EXPECT_FALSE(open.find(key));
  open.store(std::string(32, 'b'), "bytes");
  EXPECT_FALSE(open.find(key));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_CONTAINS(said[0], folder + ": other users may write to this folder of compiled kernels");
  EXPECT_EQ(namesIn(folder), std::vector<std::string>{key + ".x"});

  // What another has put there before the folder was closed stays unused.
  fs::permissions(folder, fs::perms::owner_all);
  BuildCache closed(folder, ".x", report);
  EXPECT_EQ(closed.find(key), "bytes");
  const std::string entry = folder + "/" + key + ".x";
  fs::permissions(entry, fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(closed.find(key));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_CONTAINS(said[1], entry + ": this entry of the kernel cache is another user's, or others");
  closed.store(key, "bytes");
  EXPECT_EQ(closed.find(key), "bytes");
  if (::geteuid() != 0)
    return;
  ASSERT_EQ(::chown(entry.c_str(), 1, 1), 0);
  EXPECT_FALSE(closed.find(key));
  ASSERT_EQ(said.size(), 3u);
  ASSERT_EQ(::chown(folder.c_str(), 1, 1), 0);
  EXPECT_FALSE(closed.find(key));
  ASSERT_EQ(said.size(), 4u);
  EXPECT_CONTAINS(said[3], folder + ": this folder of compiled kernels belongs to another user");
}

/// An entry is of the text that its key was made from: parts that run on elsewhere are others.
TEST(Files, TheCacheIsBoundToWhatItIsMadeFrom) {
  const std::string key = BuildCache::keyOf({"flags", "text"});
  EXPECT_TRUE(std::regex_match(key, std::regex("[0-9a-f]{64}"))) << key;
  EXPECT_EQ(key, BuildCache::keyOf({"flags", "text"}));
  for (const std::vector<std::string_view> &parts : {std::vector<std::string_view>{"flags", "texu"},
                                                     {"flagst", "ext"},
                                                     {"flags", "text", ""},
                                                     {"flagstext"},
                                                     {"text", "flags"}})
    EXPECT_NE(key, BuildCache::keyOf(parts));
  ScratchDirectory scratch;
  BuildCache cache(scratch.path, ".x", nullptr);
  cache.store(key, "bytes");
  const std::string other = BuildCache::keyOf({"flags", "other text"});
  fs::copy_file(scratch / (key + ".x"), scratch / (other + ".x"));
  EXPECT_FALSE(cache.find(other));
  EXPECT_EQ(cache.find(key), "bytes");
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

TEST(Files, AShardTruncatedWhileItIsRead) {
  ScratchDirectory scratch;
  const std::string path = scratch / "a.bin";
  test::writeShard(path, test::makeTokens(50000, 100, 1));
  auto shards = TokenShards::open(path, 100, "--train");
  ASSERT_TRUE(shards);
  std::vector<int32_t> inputs(16), targets(16);
  ASSERT_TRUE((*shards)->read(0, 40000, 16, inputs.data(), targets.data()));
  ASSERT_EQ(::truncate(path.c_str(), 1024), 0);
  Status status = (*shards)->read(0, 40000, 16, inputs.data(), targets.data());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_CONTAINS(status.error().message, path + ": ends after ");
}

//===- Checkpoints -------------------------------------------------------------===//

void saveStep(const std::string &directory, int64_t step) {
  const plan::Plan plan = test::makePlan();
  Manifest manifest = manifestOf(plan, "hash");
  manifest.step = step;
  LocalGroup group(1);
  ASSERT_TRUE(saveCheckpoint(directory, manifest, plan, group.communicator(0),
                             [](const plan::State &, uint64_t, void *data, uint64_t bytes) {
                               std::memset(data, 0, bytes);
                               return ok();
                             }));
}

/// What is said when the checkpoint of step 1 is found behind one of step 2 that cannot be read.
std::string saidOfStep2(const std::string &directory) {
  std::vector<std::string> lines;
  auto found = findCheckpoint(directory, [&](const std::string &line) { lines.push_back(line); });
  if (!found || found->manifest.step != 1 || lines.size() != 1)
    return "no fallback";
  EXPECT_EQ(lines[0].rfind("skipping checkpoint " + directory + "/step-000002: ", 0), 0u);
  return lines[0];
}

TEST(Files, ABadManifestHidesNothing) {
  ScratchDirectory scratch;
  saveStep(scratch.path, 1);
  saveStep(scratch.path, 2);
  const std::string folder = scratch / "step-000002", path = folder + "/manifest.json";
  std::string text = readText(path);
  // Parsed at once; what is computed of it is not.
  for (size_t depth : {1000, 120000, 3000000}) {
    const std::string nested =
        R"({"deep":)" + std::string(depth, '[') + std::string(depth, ']') + "," + text.substr(1);
    writeText(path, nested);
    EXPECT_CONTAINS(saidOfStep2(scratch.path), "manifest.json: it nests more than 256");
    writeText(path, std::string(depth, '['));
    EXPECT_CONTAINS(saidOfStep2(scratch.path), "manifest.json: it nests more than 256");
  }
  fs::remove(path);
  makeFifo(path);
  EXPECT_CONTAINS(saidOfStep2(scratch.path), "manifest.json: is not a regular file but a FIFO");
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);
  EXPECT_CONTAINS(saidOfStep2(scratch.path), "but a character device");
  fs::remove(path);
  makeSparse(path, uint64_t(1) << 40);
  EXPECT_CONTAINS(saidOfStep2(scratch.path), "has 1099511627776 bytes, and a manifest at most");
  fs::remove(path);
  writeText(path, text);
  fs::remove(folder + "/params.safetensors");
  makeFifo(folder + "/params.safetensors");
  EXPECT_CONTAINS(saidOfStep2(scratch.path), "params.safetensors: is not a regular file");
  fs::remove_all(folder);
  makeFifo(folder);
  EXPECT_CONTAINS(saidOfStep2(scratch.path), "Not a directory");
}

TEST(Files, ParametersTruncatedWhileTheyAreLoaded) {
  ScratchDirectory scratch;
  saveStep(scratch.path, 1);
  auto found = findCheckpoint(scratch.path, [](const std::string &line) { FAIL() << line; });
  ASSERT_TRUE(found);
  const std::string path = scratch / "step-000001/params.safetensors";
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  Status status = found->parameters.read("weight", 0, 50, [](const StoredTensors::Stretch &) {
    ADD_FAILURE() << "there is nothing to hand out";
    return ok();
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 1);
  EXPECT_CONTAINS(status.error().message, path + ": ends after 0 bytes");
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

TEST(Files, AHeaderThatNests) {
  ScratchDirectory scratch;
  for (size_t depth : {300, 120000, 4000000})
    for (auto [before, open, shut] :
         {std::tuple("", "[", "]"),
          std::tuple(R"({"a":{"shape":[2],"data_offsets":[0,8],"dtype":)", "[", "]"),
          std::tuple(R"({"a":{"dtype":"F32","data_offsets":[0,8],"shape":)", "{\"a\":", "}")}) {
      std::string text = before;
      for (size_t i = 0; i < depth; ++i)
        text += open;
      if (!std::string_view(before).empty())
        text += std::string_view(open) == "[" ? "" : "1";
      for (size_t i = 0; i < depth; ++i)
        text += shut;
      text += std::string_view(before).empty() ? "" : "}}";
      const uint64_t length = text.size();
      std::string file(reinterpret_cast<const char *>(&length), 8);
      writeText(scratch / "x.safetensors", file + text + "12345678");
      auto opened = SafetensorsFile::open(scratch / "x.safetensors");
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().exitStatus(), 2);
      EXPECT_EQ(opened.error().message,
                scratch / "x.safetensors: not a valid safetensors file: the header nests more than "
                          "256 arrays and objects in each other");
    }
}

} // namespace
} // namespace nano
