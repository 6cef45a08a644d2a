// Checkpoints: what is saved loads, damage of any byte is seen, and neither kill -9 nor a failed
// write costs the one before.
#include "runtime/files/Checkpoint.h"

#include "runtime/Interrupt.h"
#include "runtime/comm/LocalCommunicator.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
bool canExchange = true;
} // namespace

/// In place of libc's: a file system that cannot exchange directories, where a test says so.
extern "C" int renameat2(int fromFolder, const char *from, int toFolder, const char *to,
                         unsigned flags) noexcept {
  if (canExchange)
    return int(::syscall(SYS_renameat2, fromFolder, from, toFolder, to, flags));
  errno = EINVAL;
  return -1;
}

namespace nano {
namespace {

using test::makePlan;
using test::namesIn;
using test::readText;
using test::ScratchDirectory;
using test::writeText;

/// State values of step k: every f32 is k, every bf16 is k's upper half, so that mixed checkpoints
/// show.
Status valuesOf(int64_t step, const plan::State &state, void *data, uint64_t bytes) {
  auto value = float(step);
  const auto *source =
      reinterpret_cast<const char *>(&value) + (state.type == plan::DType::BF16 ? 2 : 0);
  uint64_t element = plan::sizeOf(state.type);
  for (uint64_t i = 0; i < bytes; i += element)
    std::memcpy(static_cast<char *>(data) + i, source, element);
  return ok();
}

Result<std::string> saveStep(const std::string &directory, const plan::Plan &plan, int64_t step) {
  Manifest manifest = manifestOf(plan, "hash");
  manifest.step = step;
  manifest.shard = 3;
  manifest.shardFile = "train_000003.bin";
  manifest.position = 1000 + uint64_t(step);
  manifest.epoch = 2;
  manifest.seed = UINT64_MAX;
  manifest.world = 4;
  LocalGroup group(1);
  return saveCheckpoint(directory, manifest, plan, group.communicator(0),
                        [&](const plan::State &state, uint64_t, void *data, uint64_t bytes) {
                          return valuesOf(step, state, data, bytes);
                        });
}

/// Whether every state in the checkpoint has the values of its step.
void expectWhole(const Checkpoint &checkpoint, const plan::Plan &plan) {
  using Role = plan::State::Role;
  auto expect = [&](const plan::State &state, uint64_t, const void *data, uint64_t bytes) {
    std::vector<char> expected(bytes);
    EXPECT_TRUE(valuesOf(checkpoint.manifest.step, state, expected.data(), bytes));
    EXPECT_EQ(std::memcmp(data, expected.data(), bytes), 0) << state.name;
    return ok();
  };
  EXPECT_TRUE(checkPlan(checkpoint, plan, "hash", [](const std::string &line) { FAIL() << line; }));
  auto clear = [](const plan::State &) { return ok(); };
  for (auto [stored, role] : {std::pair(&checkpoint.parameters, Role::Parameter),
                              std::pair(&checkpoint.optimizer, Role::Optimizer)})
    EXPECT_TRUE(loadStates(*stored, statesOf(plan, role), Seat(), expect, clear));
}

Result<Checkpoint> find(const std::string &directory, std::vector<std::string> *skipped = nullptr) {
  return findCheckpoint(directory, [&](const std::string &line) {
    if (skipped)
      skipped->push_back(line);
    else
      ADD_FAILURE() << line;
  });
}

TEST(Checkpoint, RoundTrip) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan({}, {{"model_dim", "64", true}, {"dtype", "bf16", false}});
  std::string directory = scratch / "runs/a";
  for (int64_t step : {2, 10, 9}) {
    auto path = saveStep(directory, plan, step);
    ASSERT_TRUE(path) << path.error().message;
    EXPECT_EQ(*path, directory + "/" + checkpointName(step));
  }
  EXPECT_EQ(namesIn(directory),
            (std::vector<std::string>{"step-000002", "step-000009", "step-000010"}));
  EXPECT_EQ(
      namesIn(directory + "/step-000010"),
      (std::vector<std::string>{"manifest.json", "optimizer.safetensors", "params.safetensors"}));
  auto checkpoint = find(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const Manifest &manifest = checkpoint->manifest;
  EXPECT_EQ(manifest.step, 10);
  EXPECT_EQ(manifest.shard, 3u);
  EXPECT_EQ(manifest.shardFile, "train_000003.bin");
  EXPECT_EQ(manifest.position, 1010u);
  EXPECT_EQ(manifest.epoch, 2u);
  EXPECT_EQ(manifest.seed, UINT64_MAX);
  EXPECT_EQ(manifest.world, 4);
  EXPECT_EQ(manifest.model, "bigram");
  expectWhole(*checkpoint, plan);
  // One of them by its own path.
  auto older = find(directory + "/step-000002");
  ASSERT_TRUE(older);
  EXPECT_EQ(older->manifest.step, 2);
}

TEST(Checkpoint, SameStepAgainReplacesIt) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan();
  ASSERT_TRUE(saveStep(scratch.path, plan, 5));
  writeText(scratch / "step-000005/note.txt", "of the first");
  ASSERT_TRUE(saveStep(scratch.path, plan, 5));
  EXPECT_EQ(namesIn(scratch.path), (std::vector<std::string>{"step-000005"}));
  EXPECT_EQ(namesIn(scratch / "step-000005").size(), 3u);
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint);
  expectWhole(*checkpoint, plan);
}

TEST(Checkpoint, FileSystemsThatCannotExchangeDirectories) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan();
  ASSERT_TRUE(saveStep(scratch.path, plan, 5));
  canExchange = false;
  auto result = saveStep(scratch.path, plan, 5);
  canExchange = true;
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().exitStatus(), 1);
  EXPECT_EQ(result.error().message,
            scratch / "step-000005: exists and cannot be replaced: Invalid argument; save to "
                      "another directory");
  EXPECT_EQ(namesIn(scratch.path), (std::vector<std::string>{"step-000005"}));
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint);
  expectWhole(*checkpoint, plan);
}

TEST(Checkpoint, NoneThere) {
  ScratchDirectory scratch;
  auto missing = find(scratch / "no");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exitStatus(), 2);
  EXPECT_CONTAINS(missing.error().message, "No such file or directory");
  auto empty = find(scratch.path);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().exitStatus(), 2);
  EXPECT_CONTAINS(empty.error().message, "holds no complete checkpoint");
}

TEST(Checkpoint, DamageIsSeenAndTheOneBeforeTaken) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan();
  ASSERT_TRUE(saveStep(scratch.path, plan, 1));
  std::mt19937 generator(1);
  for (const char *name : {"manifest.json", "params.safetensors", "optimizer.safetensors"}) {
    for (int round = 0; round < 12; ++round) {
      ASSERT_TRUE(saveStep(scratch.path, plan, 2));
      std::string path = scratch / "step-000002/" + name;
      std::string content = readText(path);
      if (round == 0)
        std::filesystem::remove(path);
      else if (round == 1)
        writeText(path, "");
      else if (round == 2)
        writeText(path, content.substr(0, content.size() / 2));
      else if (round == 3)
        writeText(path, content + content);
      else {
        // The manifest's white space is the one place where a byte may change without a change of
        // meaning.
        size_t place = 0;
        do
          place = generator() % content.size();
        while (std::isspace(uint8_t(content[place])));
        content[place] = char(content[place] ^ (1 << generator() % 7));
        writeText(path, content);
      }
      std::vector<std::string> skipped;
      auto checkpoint = find(scratch.path, &skipped);
      ASSERT_TRUE(checkpoint);
      EXPECT_EQ(checkpoint->manifest.step, 1) << name << " round " << round;
      ASSERT_EQ(skipped.size(), 1u);
      EXPECT_CONTAINS(skipped[0], "skipping checkpoint " + (scratch / "step-000002"));
      EXPECT_CONTAINS(skipped[0], name);
      EXPECT_EQ(skipped[0].find('\n'), std::string::npos);
      expectWhole(*checkpoint, plan);
    }
  }
}

TEST(Checkpoint, OfAnotherPlan) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan({}, {{"num_iterations", "8", false}, {"old", "1", false}});
  ASSERT_TRUE(saveStep(scratch.path, plan, 1));
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint);
  std::vector<std::string> lines;
  auto report = [&](const std::string &line) { lines.push_back(line); };

  EXPECT_TRUE(checkPlan(*checkpoint, plan, "hash", report));
  EXPECT_TRUE(lines.empty());
  EXPECT_TRUE(checkPlan(*checkpoint, plan, "other", report));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_CONTAINS(
      lines[0],
      "was made by another plan (same model name and hyperparameters, compiled otherwise)");

  plan::Plan changed = makePlan({}, {{"num_iterations", "9", false}, {"new", "2", false}});
  EXPECT_TRUE(checkPlan(*checkpoint, changed, "other", report));
  EXPECT_CONTAINS(lines[1],
                  "(new was absent, is 2, num_iterations was 8, is 9, old was 1, is absent)");

  plan::Plan larger = makePlan({.vocabSize = 60}, plan.hyperparameters);
  larger.model = "trigram";
  Status status = checkPlan(*checkpoint, larger, "other", report);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 2);
  EXPECT_CONTAINS(status.error().message,
                  "was made by another plan (model was bigram, is trigram)");
  EXPECT_CONTAINS(status.error().message, "weight is F32 [50], the plan has F32 [60]");

  plan::Plan otherOptimizer = plan;
  otherOptimizer.states[2].name = "weight.adam_m";
  status = checkPlan(*checkpoint, otherOptimizer, "other", report);
  ASSERT_FALSE(status);
  EXPECT_CONTAINS(status.error().message, "its optimizer state: does not fit the plan");
  EXPECT_CONTAINS(status.error().message,
                  "missing: weight.adam_m; not in the plan: weight.momentum");
}

TEST(Checkpoint, ValuesThatAreNotFiniteAreNotSaved) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan();
  ASSERT_TRUE(saveStep(scratch.path, plan, 1));
  for (const char *poisoned : {"weight", "bias", "weight.momentum"}) {
    Manifest manifest = manifestOf(plan, "hash");
    manifest.step = 2;
    LocalGroup group(1);
    auto result =
        saveCheckpoint(scratch.path, manifest, plan, group.communicator(0),
                       [&](const plan::State &state, uint64_t, void *data, uint64_t bytes) {
                         if (state.name != poisoned)
                           return valuesOf(2, state, data, bytes);
                         auto *values = static_cast<uint8_t *>(data);
                         std::memset(values, 0, bytes);
                         values[bytes - 1] = 0xff; // the last value becomes −inf
                         values[bytes - 2] = 0x80;
                         return ok();
                       });
    ASSERT_FALSE(result) << poisoned;
    EXPECT_EQ(result.error().exitStatus(), 1);
    EXPECT_EQ(result.error().message, std::string("state '") + poisoned +
                                          "' holds values that are not finite; it is not saved");
    EXPECT_EQ(namesIn(scratch.path), (std::vector<std::string>{"step-000001"}));
  }
}

TEST(Checkpoint, EveryFailedWriteLeavesWhatWasThere) {
  ScratchDirectory scratch;
  InterruptGuard guard; // SIGXFSZ ignored: a write beyond the limit fails with EFBIG
  plan::Plan plan = makePlan({.vocabSize = 500});
  ASSERT_TRUE(saveStep(scratch.path, plan, 1));
  uint64_t largest = 0;
  for (const auto &entry : std::filesystem::directory_iterator(scratch / "step-000001"))
    largest = std::max<uint64_t>(largest, entry.file_size());
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  int failures = 0;
  for (uint64_t limit = 0; limit <= largest; limit += 97) {
    struct rlimit small = {limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    auto result = saveStep(scratch.path, plan, 2);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    if (result)
      break;
    ++failures;
    EXPECT_EQ(result.error().exitStatus(), 2);
    EXPECT_CONTAINS(result.error().message,
                    "cannot be written: File too large; make room or save elsewhere");
    EXPECT_CONTAINS(result.error().message, scratch / "step-000002/");
    ASSERT_EQ(namesIn(scratch.path), (std::vector<std::string>{"step-000001"}))
        << "limit " << limit;
  }
  EXPECT_GT(failures, 20);
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint);
  expectWhole(*checkpoint, plan);
}

TEST(Checkpoint, WriteErrors) {
  EXPECT_EQ(writeError("x", ENOSPC).exitStatus(), 2);
  EXPECT_EQ(writeError("x", EDQUOT).exitStatus(), 2);
  EXPECT_EQ(writeError("x", EIO).exitStatus(), 1);
  EXPECT_EQ(writeError("x", ENOSPC).message,
            "x: cannot be written: No space left on device; make room or save elsewhere");
}

TEST(Checkpoint, PlaceThatCannotBeWritten) {
  ScratchDirectory scratch;
  writeText(scratch / "file", "");
  plan::Plan plan = makePlan();
  auto result = saveStep(scratch / "file/runs", plan, 1);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().exitStatus(), 2);
  EXPECT_CONTAINS(result.error().message, "directory cannot be created");
  Status status = makeWritableDirectory(scratch / "file");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exitStatus(), 2);
}

TEST(Checkpoint, KilledAtAnyMoment) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan({.vocabSize = 20000});
  test::expectSavesOutliveKills(
      scratch.path, 20, 11, [&](int64_t step) { return bool(saveStep(scratch.path, plan, step)); },
      [&](const Checkpoint &checkpoint) { expectWhole(checkpoint, plan); });
}

} // namespace
} // namespace nano
