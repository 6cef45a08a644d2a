// The plan file: what goes in comes out, any damage is found, every failure is one line that names
// the file.
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/ElfSymbols.h"
#include "tests/runtime/plan-device/TestPlans.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace nano::plan {
namespace {

namespace fs = std::filesystem;
using test::fullPlan;
using test::readBytes;

/// A directory of this test, removed at its end.
class PlanFile : public testing::Test {
protected:
  PlanFile() {
    std::string pattern = (fs::temp_directory_path() / "nano-plan-XXXXXX").string();
    directory = mkdtemp(pattern.data());
  }
  ~PlanFile() override { fs::remove_all(directory); }
  std::string path(const std::string &name) const { return (directory / name).string(); }
  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  fs::path directory;
};

/// Expects BadInput in one line that begins with the file's name, ends with advice, and contains
/// `part`.
void expectBad(const Result<Plan> &result, const std::string &name, const std::string &part) {
  ASSERT_FALSE(result) << "expected: " << part;
  const Error &error = result.error();
  EXPECT_EQ(error.exitStatus(), 2);
  EXPECT_EQ(error.message.rfind(name + ": ", 0), 0u) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("; "), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message << "\n  for: " << part;
}

/// The bytes of a plan file put together here, from the words of docs/plan-format.md.
std::string container(const std::string &meta, const std::string &code, const std::string &source,
                      uint32_t version = 2) {
  auto number = [](uint64_t value, int bytes) {
    return std::string(reinterpret_cast<const char *>(&value), size_t(bytes));
  };
  std::string table;
  uint64_t offset = 32 + 3 * 32;
  for (auto [name, content] : {std::pair("meta\0\0\0\0", &meta), std::pair("code\0\0\0\0", &code),
                               std::pair("source\0\0", &source)}) {
    table += std::string(name, 8) + number(offset, 8) + number(content->size(), 8) +
             number(XXH3_64bits(content->data(), content->size()), 8);
    offset += content->size();
  }
  std::string header = "NANOPLAN" + number(version, 4) + number(3, 4) + number(offset, 8);
  std::string covered = header + table;
  return header + number(XXH3_64bits(covered.data(), covered.size()), 8) + table + meta + code +
         source;
}

TEST_F(PlanFile, RestoresEveryField) {
  Plan plan = fullPlan();
  std::string bytes = serialize(plan);
  Result<Plan> restored = parse(bytes);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(serialize(*restored), bytes);
  EXPECT_EQ(planHash(*restored), planHash(plan));
}

TEST_F(PlanFile, RestoresDeviceCode) {
  Plan plan = test::fullCudaPlan();
  std::string bytes = serialize(plan);
  Result<Plan> restored = parse(bytes);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(serialize(*restored), bytes);
  std::string text = describe(plan);
  for (const char *part : {"target cuda\n", "  nano_kernels.h  37 bytes\n",
                           "  halve: a test, halve.cu, 32 iterations by 256 threads, 8 segments at "
                           "most, shared 2.0 KiB"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

TEST_F(PlanFile, KeepsNumbersExactly) {
  Plan plan = fullPlan();
  double third = 1.0 / 3, tiny = 5e-324;
  plan.states[3].init.values = {third, tiny, -0.0};
  plan.scalars[0].value = {Expr::Kind::Constant, -std::numeric_limits<double>::infinity(), "", {}};
  Result<Plan> restored = parse(serialize(plan));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_TRUE(std::signbit(restored->states[3].init.values[2]));
}

TEST_F(PlanFile, FollowsTheDocumentedLayout) {
  Plan plan = fullPlan();
  std::string bytes = serialize(plan);
  uint64_t metaBytes;
  std::memcpy(&metaBytes, bytes.data() + 32 + 16, sizeof metaBytes);
  EXPECT_EQ(container(bytes.substr(128, metaBytes), plan.code, plan.source), bytes);
}

/// A change of the format must change `planVersion`, and then this hash.
TEST_F(PlanFile, HashIsStable) {
  Plan plan = fullPlan();
  plan.code.clear();
  EXPECT_EQ(planHash(plan), "2344b514b0ad3538b4941b36a9759b08");
  EXPECT_NE(planHash(fullPlan()), planHash(plan));
}

TEST_F(PlanFile, WritesAndReads) {
  Plan plan = fullPlan();
  Status status = writePlanFile(plan, path("a.plan"));
  ASSERT_TRUE(status) << status.error().message;
  plan.model = "second";
  ASSERT_TRUE(writePlanFile(plan, path("a.plan")));
  Result<Plan> restored = readPlanFile(path("a.plan"));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1);
}

TEST_F(PlanFile, RefusesWhatIsNoPlan) {
  write("empty", "");
  write("text", "#!/bin/sh\necho hello\n");
  write("elf", test::kernelCode());
  expectBad(readPlanFile(path("empty")), path("empty"), "empty");
  expectBad(readPlanFile(path("text")), path("text"), "not a plan");
  expectBad(readPlanFile(path("elf")), path("elf"), "not a plan");
  expectBad(readPlanFile(path("missing")), path("missing"), "No such file");
  expectBad(readPlanFile(directory.string()), directory.string(), "not a file");
}

TEST_F(PlanFile, RefusesANewerVersion) {
  expectBad(parse(container("{}", "", "", 3), "n.plan"), "n.plan", "format version 3");
  expectBad(parse(container("{}", "", "", 0), "n.plan"), "n.plan", "header");
}

TEST_F(PlanFile, FindsTruncationAnywhere) {
  Plan plan = fullPlan();
  std::string bytes = serialize(plan);
  std::vector<size_t> lengths;
  for (size_t length = 1; length <= 140; ++length)
    lengths.push_back(length);
  size_t codeAt = bytes.size() - plan.source.size() - plan.code.size();
  for (size_t boundary : {codeAt, codeAt + plan.code.size(), bytes.size()})
    for (size_t length = boundary - 3; length < boundary + 3; ++length)
      if (length < bytes.size())
        lengths.push_back(length);
  for (size_t length = 200; length < bytes.size(); length += 997)
    lengths.push_back(length);
  for (size_t length : lengths)
    expectBad(parse(std::string_view(bytes).substr(0, length), "t.plan"), "t.plan", "truncated");
  expectBad(parse(bytes + "x", "t.plan"), "t.plan", "1 bytes follow");
}

TEST_F(PlanFile, FindsAChangedByteAnywhere) {
  std::string bytes = serialize(fullPlan());
  for (size_t at = 0; at < bytes.size(); at += at < 600 || at + 50 > bytes.size() ? 1 : 37)
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = char(changed[at] ^ flip);
      Result<Plan> result = parse(changed, "c.plan");
      ASSERT_FALSE(result) << "byte " << at;
      expectBad(result, "c.plan", "");
    }
}

TEST_F(PlanFile, RefusesAnInconsistentTable) {
  std::string bytes = container("{}", "", "");
  auto sealed = [&](size_t at, uint64_t value) {
    std::string changed = bytes;
    std::memcpy(changed.data() + at, &value, 8);
    std::string covered = changed.substr(0, 24) + changed.substr(32, 96);
    uint64_t checksum = XXH3_64bits(covered.data(), covered.size());
    std::memcpy(changed.data() + 24, &checksum, 8);
    return changed;
  };
  for (size_t section = 0; section < 3; ++section)
    for (size_t field = 0; field < 3; ++field)
      expectBad(parse(sealed(32 + 32 * section + 8 * field, UINT64_MAX - 1), "i.plan"), "i.plan",
                "section table");
}

TEST_F(PlanFile, WritesNothingInvalid) {
  Plan plan = fullPlan();
  plan.worlds.clear();
  Status status = writePlanFile(plan, path("a.plan"));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("ranks"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("a.plan")));
}

TEST_F(PlanFile, SaysWhyItCannotWrite) {
  auto expectError = [&](const std::string &to, const std::string &part) {
    Status status = writePlanFile(fullPlan(), to);
    ASSERT_FALSE(status) << to;
    EXPECT_EQ(status.error().exitStatus(), 2);
    EXPECT_EQ(status.error().message.rfind(to, 0), 0u) << status.error().message;
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  };
  expectError(path("no/such/a.plan"), "No such file");
  expectError(directory.string(), "not a regular file");
  expectError("/dev/null", "not a regular file");
  expectError("/proc/a.plan", "cannot create");
}

/// A disk that fills up in the middle, by way of a limit on the size of files.
TEST_F(PlanFile, KeepsTheOldFileWhenTheDiskIsFull) {
  Plan plan = fullPlan();
  ASSERT_TRUE(writePlanFile(plan, path("a.plan")));
  std::string before = readBytes(path("a.plan"));
  plan.model = "second";
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = {1000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Status status = writePlanFile(plan, path("a.plan"));
  setrlimit(RLIMIT_FSIZE, &old);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 2);
  EXPECT_NE(status.error().message.find("cannot write the file"), std::string::npos);
  EXPECT_EQ(readBytes(path("a.plan")), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1);
}

TEST_F(PlanFile, RestoresTenThousandCommands) {
  Plan plan = fullPlan();
  for (Program &program : plan.programs) {
    std::vector<Command> once = program.commands;
    while (program.commands.size() < 2000)
      program.commands.insert(program.commands.end(), once.begin(), once.end());
  }
  Result<Plan> restored = parse(serialize(plan));
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(*restored == plan);
}

TEST_F(PlanFile, DescribesItself) {
  std::string text = describe(fullPlan());
  const char *matmul =
      "  @0 matmul 2x [4x5]*[5x8] out y:f32 = 0.12 * in x+256:bf16 * in embed.weight:bf16^T + "
      "-1.5 * in y+512:f32  \"q·kᵀ\"\n";
  const char *scaled =
      "  @0 matmul [4x128]*[128x8] out y:f32 = in x:f8e5m2 * in x+1024:f8e4m3fn^T scaled by in "
      "logits, in logits+64 for blocks of 1x128, 128x1\n";
  const char *parameter =
      "  parameter embed.weight  bf16[32,8] in embed.weight = normal(0.5, 2), adam lr 0.6  "
      "test.cpp:12\n";
  const char *training =
      "training: first first, next next, update update; sequences of 16 tokens, global batch 64, "
      "100 steps, vocabulary 30\n";
  for (const char *part :
       {"model gpt \"full\" – 1, target cpu\n",
        "worlds 1 2\n",
        "needs sse2\n",
        "  model_dim = 8\n",
        "  seq_len = 16  (overridden)\n",
        "  y  f32[4,16,16]  4096 bytes (4.0 KiB) at ",
        "  test.cpp:7\n",
        parameter,
        "  parameter skip_weights  f32[3] in skip_weights = 3 values",
        "  lr.adam  f32 = 0.6 * select(step < 100, 1, -0.25)\n",
        "  add_scaled: mul, add, scratch 4.0 KiB  test.cpp:20  other.cpp:3\n",
        "program first: 10 commands, 2 streams, 3 events\n",
        "  @0 launch add_scaled [100 by 8](in x+64, in scalars, inout y+128) [50 by 1](in x+1024",
        matmul,
        "  @0 matmul [16x16]*[16x16] out y:f32 = in x:f32^T * in x:f32\n",
        scaled,
        "  @0 all_reduce inout embed.weight.grad, inout loss of 256 1 f32  \"gradients\"\n",
        "  @0 fill out embed.weight of 256 bf16\n",
        "  @0 copy in x, out y of 32 f32\n",
        "  @0 record event 2\n",
        "  @1 wait for event 2\n",
        training})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_LT(text.find("  x  f32"), text.find("  loss  f32")) << "largest buffers first";
}

TEST(ElfSymbols, ListsWhatIsDefined) {
  auto symbols = definedSymbols(test::kernelCode());
  ASSERT_TRUE(symbols) << symbols.error().message;
  EXPECT_EQ(symbols->count("add_scaled"), 1u);
  EXPECT_EQ(symbols->count("halve"), 1u);
  EXPECT_EQ(symbols->count("absent"), 0u);
}

TEST(ElfSymbols, SurvivesDamage) {
  const std::string &code = test::kernelCode();
  for (size_t length = 0; length < code.size(); length += length < 256 ? 1 : 61)
    (void)bool(definedSymbols(std::string_view(code).substr(0, length)));
  EXPECT_FALSE(definedSymbols(""));
  EXPECT_FALSE(definedSymbols(std::string_view(code).substr(0, 63)));
  EXPECT_FALSE(definedSymbols(std::string(4096, 'x')));
  for (size_t at = 0; at < 64; ++at) {
    std::string changed = code;
    changed[at] = char(0xff);
    (void)bool(definedSymbols(changed));
  }
}

} // namespace
} // namespace nano::plan
