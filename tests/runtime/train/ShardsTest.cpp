// Checkpoints of several ranks: every element once, each loads at any number of ranks, and neither
// a kill nor a failure of one rank costs the one before.
#include "runtime/Interrupt.h"
#include "runtime/StateRuns.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/files/Checkpoint.h"
#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/resource.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {
namespace {

using plan::DType;
using plan::Ranks;
using plan::Sharding;
using test::namesIn;
using test::readText;
using test::ScratchDirectory;
using test::writeText;
using Role = plan::State::Role;

/// Tensors of a model that ranks share in every way that there is. `scale` makes it larger.
plan::Plan makePlan(int world, int group, int64_t scale = 1) {
  plan::Plan plan;
  plan.model = "shared";
  plan.worlds = {world};
  plan.group = group;
  auto add = [&](const std::string &name, Role role, DType type, std::vector<int64_t> shape) {
    plan::State state;
    state.name = name;
    state.role = role;
    state.type = type;
    state.shape = std::move(shape);
    state.init.values = {0};
    state.buffer = uint32_t(plan.buffers.size());
    plan.buffers.push_back({name, 0, bytesOf(state), type, state.shape, {}});
    plan.states.push_back(std::move(state));
  };
  /// The pieces stand one after the other with `gap` elements of padding between; a rank alone has
  /// each as a state of its own.
  auto addShared = [&](const std::string &name, DType type, Ranks ranks, int64_t chunk, int64_t gap,
                       const std::vector<std::pair<std::string, std::vector<int64_t>>> &tensors) {
    const int64_t parts = placeOf(ranks, 0, world, group).members;
    if (world == 1) {
      for (const auto &[tensor, shape] : tensors)
        add(tensor, Role::Optimizer, type, shape);
      return;
    }
    Sharding sharding{ranks, parts, chunk, {}};
    int64_t end = 0;
    for (const auto &[tensor, shape] : tensors) {
      sharding.pieces.push_back({tensor, shape, end});
      end += int64_t(elementsOf(shape)) + gap;
    }
    const int64_t rows = (end + chunk * parts - 1) / (chunk * parts);
    add(name, Role::Optimizer, type, {rows, chunk});
    plan.states.back().sharding = sharding;
  };
  add("matrix", Role::Parameter, DType::F32, {5, 7 * scale});
  add("table", Role::Parameter, DType::BF16, {1001 * scale});
  add("two", Role::Parameter, DType::F32, {2});
  add("none", Role::Parameter, DType::F32, {0, 3});
  add("two.adam_m", Role::Optimizer, DType::F32, {2});
  // Rounds of matrices, one for each rank: the last round is not full.
  addShared(
      "momenta", DType::F32, Ranks::Group, 12 * scale, 0,
      {{"a.muon_b", {3, 4 * scale}}, {"b.muon_b", {3, 4 * scale}}, {"c.muon_b", {4, 3 * scale}}});
  // One tensor in one chunk a rank, with an end that is padding.
  addShared("moments", DType::BF16, Ranks::Group, (1001 * scale + group - 1) / group, 0,
            {{"table.adam_m", {1001 * scale}}});
  // Small chunks that cross from one tensor to the next, over all ranks, and over peers.
  addShared("small", DType::F32, Ranks::All, 3, 2, {{"x", {2, 5}}, {"y", {7}}, {"z", {1}}});
  addShared("peers", DType::I32, Ranks::Peers, 4, 1, {{"p", {9}}, {"q", {2, 2}}});
  return plan;
}

/// Element `element` of a tensor after step `step`, as bytes: anything that is finite in every
/// type.
void put(const std::string &tensor, uint64_t element, int64_t step, uint64_t size, uint8_t *out) {
  const uint64_t hash = XXH64(tensor.data(), tensor.size(), element * 1000003 + uint64_t(step));
  for (uint64_t i = 0; i < size; ++i)
    out[i] = uint8_t(hash >> (8 * i)) & 0x3F;
}

/// What a rank holds, element by element as `plan::Sharding` says it. Padding is 0xEE.
std::vector<uint8_t> contentOf(const plan::State &state, const Seat &seat, int64_t step) {
  const uint64_t size = plan::sizeOf(state.type), count = elementsOf(state.shape);
  std::vector<uint8_t> content(count * size, 0xEE);
  for (uint64_t i = 0; i < count; ++i) {
    if (!state.sharding) {
      put(state.name, i, step, size, content.data() + i * size);
      continue;
    }
    const Sharding &sharding = *state.sharding;
    const auto chunk = uint64_t(sharding.chunk);
    const auto place = uint64_t(placeOf(sharding.ranks, seat.rank, seat.world, seat.group).place);
    const uint64_t whole = (i / chunk * uint64_t(sharding.parts) + place) * chunk + i % chunk;
    for (const Sharding::Piece &piece : sharding.pieces)
      if (whole >= uint64_t(piece.offset) &&
          whole < uint64_t(piece.offset) + elementsOf(piece.shape))
        put(piece.name, whole - uint64_t(piece.offset), step, size, content.data() + i * size);
  }
  return content;
}

/// What a rank does on its thread; all ranks' results, by rank.
template <typename Result>
std::vector<Result> onRanks(int world, const std::function<Result(Communicator &)> &work) {
  LocalGroup group(world);
  std::vector<std::optional<Result>> results(size_t(world), std::nullopt);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] { results[size_t(rank)] = work(group.communicator(rank)); });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<Result> all;
  for (auto &result : results)
    all.push_back(std::move(*result));
  return all;
}

/// Called for every read of a rank.
using OnRead = std::function<Status(Communicator &)>;

/// Saves after step `step`; the ranks' results.
std::vector<Result<std::string>> saveAll(const std::string &directory, const plan::Plan &plan,
                                         int64_t step, const OnRead &onRead = {}) {
  return onRanks<Result<std::string>>(int(plan.worlds[0]), [&](Communicator &communicator) {
    Manifest manifest = manifestOf(plan, "hash");
    manifest.step = step;
    manifest.world = communicator.world();
    const Seat seat = seatOf(plan, communicator);
    std::map<const plan::State *, std::vector<uint8_t>> contents;
    return saveCheckpoint(
        directory, manifest, plan, communicator,
        [&](const plan::State &state, uint64_t offset, void *data, uint64_t bytes) {
          if (onRead)
            if (Status status = onRead(communicator); !status)
              return status;
          std::vector<uint8_t> &content = contents[&state];
          if (content.empty())
            content = contentOf(state, seat, step);
          std::memcpy(data, content.data() + offset, bytes);
          return ok();
        });
  });
}

bool save(const std::string &directory, const plan::Plan &plan, int64_t step) {
  bool isGood = true;
  for (const Result<std::string> &path : saveAll(directory, plan, step)) {
    EXPECT_TRUE(path) << path.error().message;
    isGood = isGood && path && *path == directory + "/" + checkpointName(step);
  }
  return isGood;
}

/// Whether every rank of the plan gets what it held after the checkpoint's step; padding becomes
/// zero.
void expectLoads(const Checkpoint &checkpoint, const plan::Plan &plan) {
  ASSERT_TRUE(checkPlan(checkpoint, plan, "hash", [](const std::string &) {}));
  const int world = int(plan.worlds[0]);
  for (int rank = 0; rank < world; ++rank) {
    const Seat seat{rank, world, int(plan.group)};
    std::map<std::string, std::vector<uint8_t>> found;
    for (const plan::State &state : plan.states)
      found[state.name].assign(bytesOf(state), 0xDD);
    auto write = [&](const plan::State &state, uint64_t offset, const void *data, uint64_t bytes) {
      std::memcpy(found[state.name].data() + offset, data, bytes);
      return ok();
    };
    auto clear = [&](const plan::State &state) {
      std::fill(found[state.name].begin(), found[state.name].end(), uint8_t(0));
      return ok();
    };
    for (auto [stored, role] : {std::pair(&checkpoint.parameters, Role::Parameter),
                                std::pair(&checkpoint.optimizer, Role::Optimizer)})
      ASSERT_TRUE(loadStates(*stored, statesOf(plan, role), seat, write, clear));
    for (const plan::State &state : plan.states) {
      std::vector<uint8_t> expected = contentOf(state, seat, checkpoint.manifest.step);
      std::replace(expected.begin(), expected.end(), uint8_t(0xEE), uint8_t(0));
      EXPECT_EQ(found[state.name], expected) << state.name << " on rank " << rank;
    }
  }
}

Result<Checkpoint> find(const std::string &directory) {
  return findCheckpoint(directory, [](const std::string &line) { ADD_FAILURE() << line; });
}

/// Numbers of ranks with sizes of groups.
const std::vector<std::pair<int, int>> layouts = {{1, 1}, {2, 2}, {3, 3}, {4, 2}, {8, 8}, {8, 4}};

TEST(Shards, SavedAtAnyWorldLoadAtAnyOther) {
  for (auto [world, group] : layouts) {
    ScratchDirectory scratch;
    ASSERT_TRUE(save(scratch.path, makePlan(world, group), 3));
    auto checkpoint = find(scratch.path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->manifest.world, world);
    for (auto [otherWorld, otherGroup] : layouts) {
      SCOPED_TRACE(testing::Message()
                   << world << "/" << group << " at " << otherWorld << "/" << otherGroup);
      expectLoads(*checkpoint, makePlan(otherWorld, otherGroup));
    }
  }
}

TEST(Shards, AFileThatARankCannotMakeIsNamed) {
  namespace fs = std::filesystem;
  auto messageAfter = [](const std::function<void(const std::string &temporary)> &spoil) {
    ScratchDirectory scratch;
    const std::string temporary = scratch / (".step-000003.tmp-" + std::to_string(::getpid()));
    bool isSpoilt = false;
    auto ends = saveAll(scratch.path, makePlan(2, 2), 3, [&](Communicator &communicator) {
      if (communicator.rank() == 0 || std::exchange(isSpoilt, true))
        return ok();
      while (!fs::exists(temporary + "/optimizer-00000.safetensors"))
        std::this_thread::sleep_for(std::chrono::milliseconds(1)); // rank 0 makes its files
      spoil(temporary);
      return ok();
    });
    for (const Result<std::string> &end : ends) {
      EXPECT_FALSE(end);
      EXPECT_EQ(end.error().exitStatus(), 2);
    }
    EXPECT_EQ(ends[0].error().message, ends[1].error().message);
    std::string message = ends[1].error().message;
    EXPECT_EQ(message.rfind(scratch.path + "/", 0), 0U) << message;
    return message.substr(scratch.path.size() + 1);
  };
  const std::string file = "step-000003/optimizer-00001.safetensors";
  EXPECT_EQ(messageAfter([](const std::string &temporary) {
              fs::rename(temporary, fs::path(temporary).parent_path() / "elsewhere");
            }),
            file + ": cannot be created: No such file or directory; ranks on several machines need "
                   "a directory that all of them see");
  EXPECT_EQ(messageAfter([](const std::string &temporary) {
              fs::create_directory(temporary + "/optimizer-00001.safetensors");
            }),
            file + ": cannot be created: Is a directory");
}

TEST(Shards, AFileThatRankZeroDoesNotSeeIsNamed) {
  ScratchDirectory scratch;
  const std::string temporary = scratch / (".step-000003.tmp-" + std::to_string(::getpid()));
  auto ends = saveAll(scratch.path, makePlan(2, 2), 3, [&](Communicator &communicator) {
    // A rank's parameters are on the disk when it reads optimizer states.
    if (communicator.rank() == 1 &&
        std::filesystem::exists(temporary + "/optimizer-00001.safetensors"))
      std::filesystem::remove(temporary + "/params-00001.safetensors");
    return ok();
  });
  for (const Result<std::string> &end : ends) {
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().exitStatus(), 2);
    EXPECT_EQ(end.error().message,
              scratch / "step-000003/params-00001.safetensors: rank 0 does not see what another "
                        "rank wrote; ranks on several machines need a directory that all of them "
                        "see");
  }
  EXPECT_EQ(namesIn(scratch.path), std::vector<std::string>());
}

TEST(Shards, ALoadSaysWhatItReads) {
  ScratchDirectory scratch;
  ASSERT_TRUE(save(scratch.path, makePlan(2, 2), 1));
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint);
  const plan::Plan plan = makePlan(1, 1);
  std::vector<std::string> said;
  ASSERT_TRUE(loadStates(
      checkpoint->parameters, statesOf(plan, Role::Parameter), Seat(),
      [](const plan::State &, uint64_t, const void *, uint64_t) { return ok(); },
      [](const plan::State &) { return ok(); },
      [&](const std::string &what) { said.push_back(what); }));
  std::sort(said.begin(), said.end()); // two tensors are read at a time
  const std::string path = scratch / "step-000001/params-0000";
  EXPECT_EQ(said, (std::vector<std::string>{"reading 'matrix' from " + path + "0.safetensors",
                                            "reading 'table' from " + path + "0.safetensors",
                                            "reading 'table' from " + path + "1.safetensors",
                                            "reading 'two' from " + path + "1.safetensors"}));
}

TEST(Shards, EveryRankWritesItsShareAndNoByteIsWrittenTwice) {
  uint64_t total = 0; // of the tensors as one rank has them
  for (const plan::State &state : makePlan(1, 1, 100).states)
    total += bytesOf(state);
  for (auto [world, group] : layouts) {
    ScratchDirectory scratch;
    ASSERT_TRUE(save(scratch.path, makePlan(world, group, 100), 1));
    uint64_t sum = 0, least = UINT64_MAX, most = 0;
    for (int rank = 0; rank < world; ++rank) {
      uint64_t own = 0;
      for (const char *stem : {"params", "optimizer"}) {
        char name[40] = ".safetensors";
        if (world > 1)
          std::snprintf(name, sizeof name, "-%05d.safetensors", rank);
        auto file = SafetensorsFile::open(scratch / "step-000001/" + stem + name);
        ASSERT_TRUE(file) << file.error().message;
        for (const auto &[tensor, entry] : file->tensors())
          own += entry.end - entry.begin;
      }
      sum += own;
      least = std::min(least, own);
      most = std::max(most, own);
    }
    EXPECT_EQ(sum, total) << world;
    EXPECT_EQ(namesIn(scratch / "step-000001").size(), 2 * size_t(world) + 1);
    // Muon's three matrices are whole chunks, so that some ranks have none of them.
    EXPECT_LE(most - least, 4800 + 200 * uint64_t(world)) << world;
  }
}

TEST(Shards, ReadersOfSafetensorsSeeStretches) {
  ScratchDirectory scratch;
  ASSERT_TRUE(save(scratch.path, makePlan(2, 2), 1));
  auto file = SafetensorsFile::open(scratch / "step-000001/params-00001.safetensors");
  ASSERT_TRUE(file);
  std::vector<std::string> names;
  for (const auto &[name, entry] : file->tensors())
    names.push_back(name);
  // 140 + 2002 + 8 bytes: the second half begins in the table.
  EXPECT_EQ(names, (std::vector<std::string>{"table[468:1001]", "two"}));
  EXPECT_EQ(file->tensors().at("table[468:1001]").shape, std::vector<int64_t>{533});
}

TEST(Shards, AnErrorOfOneRankIsOneOfAll) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan(4, 2);
  ASSERT_TRUE(save(scratch.path, plan, 1));
  auto results = saveAll(scratch.path, plan, 2, [](Communicator &communicator) -> Status {
    return communicator.rank() == 2 ? badInput("rank 2's device is gone") : ok();
  });
  for (const auto &result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "rank 2's device is gone");
    EXPECT_EQ(result.error().exitStatus(), 2);
  }
  EXPECT_EQ(namesIn(scratch.path), std::vector<std::string>{"step-000001"});
  // A rank that is not there any more.
  results = saveAll(scratch.path, plan, 2, [](Communicator &communicator) -> Status {
    if (communicator.rank() != 3)
      return ok();
    communicator.abort("struck by lightning");
    return failed("struck by lightning");
  });
  for (size_t rank = 0; rank < 4; ++rank) {
    ASSERT_FALSE(results[rank]);
    EXPECT_CONTAINS(results[rank].error().message, "struck by lightning");
    EXPECT_EQ(results[rank].error().exitStatus(), 1);
  }
  // Nobody waited for the others: what they still wrote may stand under another name.
  std::vector<std::string> names = namesIn(scratch.path);
  std::erase_if(names, [](const std::string &name) { return name[0] == '.'; });
  EXPECT_EQ(names, std::vector<std::string>{"step-000001"});
}

TEST(Shards, EveryFailedWriteLeavesWhatWasThere) {
  ScratchDirectory scratch;
  InterruptGuard guard; // SIGXFSZ ignored: a write beyond the limit fails with EFBIG
  plan::Plan plan = makePlan(3, 3);
  ASSERT_TRUE(save(scratch.path, plan, 1));
  uint64_t largest = 0;
  for (const auto &entry : std::filesystem::directory_iterator(scratch / "step-000001"))
    largest = std::max<uint64_t>(largest, entry.file_size());
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::set<std::string> failures;
  for (uint64_t limit = 0; limit <= largest; limit += 37) {
    struct rlimit small = {limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    auto results = saveAll(scratch.path, plan, 2);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    if (results[0])
      break;
    for (const auto &result : results) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().message, results[0].error().message);
      EXPECT_EQ(result.error().exitStatus(), 2);
    }
    const std::string &message = results[0].error().message;
    EXPECT_CONTAINS(message, "cannot be written: File too large; make room or save elsewhere");
    failures.insert(message.substr(0, message.find(": cannot")));
    ASSERT_EQ(namesIn(scratch.path), std::vector<std::string>{"step-000001"}) << "limit " << limit;
  }
  EXPECT_GT(failures.size(), 2u) << "files whose writing failed";
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint);
  expectLoads(*checkpoint, plan);
}

TEST(Shards, KilledAtAnyMoment) {
  ScratchDirectory scratch;
  const plan::Plan plan = makePlan(4, 2, 20);
  test::expectSavesOutliveKills(
      scratch.path, 15, 5,
      [&](int64_t step) {
        std::vector<Result<std::string>> ends = saveAll(scratch.path, plan, step);
        return std::all_of(ends.begin(), ends.end(), [](const auto &end) { return bool(end); });
      },
      [](const Checkpoint &checkpoint) { expectLoads(checkpoint, makePlan(2, 1, 20)); });
}

/// The manifest with changes, its checksum made good.
void changeManifest(const std::string &directory,
                    const std::function<void(nlohmann::json &)> &change) {
  const std::string path = directory + "/manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(readText(path));
  manifest.erase("checksum");
  change(manifest);
  const std::string text = manifest.dump();
  manifest["checksum"] = hexText(XXH3_64bits(text.data(), text.size()));
  writeText(path, manifest.dump());
}

TEST(Shards, ManifestsThatDoNotFitTheFiles) {
  ScratchDirectory scratch;
  plan::Plan plan = makePlan(2, 2);
  auto errorWith = [&](const std::function<void(nlohmann::json &)> &change) {
    EXPECT_TRUE(save(scratch.path, plan, 1));
    changeManifest(scratch / "step-000001", change);
    auto checkpoint = openCheckpoint(scratch / "step-000001");
    EXPECT_FALSE(checkpoint);
    if (checkpoint)
      return std::string();
    EXPECT_EQ(checkpoint.error().exitStatus(), 2);
    EXPECT_CONTAINS(checkpoint.error().message, scratch / "step-000001");
    return checkpoint.error().message;
  };
  EXPECT_CONTAINS(errorWith([](auto &m) { m["version"] = 3; }),
                  "version 3 is not known to this nanorun");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["files"].erase(0); }),
                  "tensor 'matrix': its 35 elements are not each in one file");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["files"][0]["name"] = "../params-00000.safetensors"; }),
                  "'../params-00000.safetensors' is no name of a file beside it");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["files"].push_back(m["files"][0]); }),
                  "some of its elements are in another file too");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"].erase("two"); }),
                  "tensor 'two': the manifest does not list it");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"].erase("table"); }),
                  "the manifest does not list it");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"]["two"]["shape"] = {3}; }),
                  "tensor 'two': is F32 [2], the manifest lists F32 [3]");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"]["table"]["shape"] = {1002}; }),
                  "tensor 'table': its 1002 elements are not each in one file");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"]["table"]["shape"] = {1000}; }),
                  "the manifest lists BF16 [1000]");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"]["table"]["shape"] = {-1}; }),
                  "tensor 'table[0:468]': the manifest gives it a shape that cannot be");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["step"] = -1; }),
                  "/manifest.json: its step is negative");
  for (const char *number : {"8e70", "1.5", "-1", "18446744073709551616"})
    EXPECT_CONTAINS(
        errorWith([&](auto &m) { m["data"]["position"] = nlohmann::json::parse(number); }),
        "a field is missing or has another type")
        << number;
  EXPECT_CONTAINS(errorWith([](auto &m) { m["parameters"]["table"]["shape"] = {8e70}; }),
                  "a field is missing or has another type");
  EXPECT_CONTAINS(errorWith([](auto &m) { m["files"] = nlohmann::json::array(); }),
                  "the manifest lists no file of parameters");
}

/// A parser keeps the last of two values, and the checksum is made of what it keeps.
TEST(Shards, ManifestsWithAKeyTwice) {
  ScratchDirectory scratch;
  ASSERT_TRUE(save(scratch.path, makePlan(1, 1), 4));
  const std::string path = scratch / "step-000004/manifest.json", good = readText(path);
  for (auto [before, twice, key] : {std::tuple("{", R"("step": 9, )", "step"),
                                    {R"("data": {)", R"("epoch": 5, )", "epoch"},
                                    {R"("parameters": {)", R"("two": {}, )", "two"}}) {
    const size_t place = good.find(before) + std::string_view(before).size();
    writeText(path, std::string(good).insert(place, twice));
    auto checkpoint = openCheckpoint(scratch / "step-000004");
    ASSERT_FALSE(checkpoint) << key;
    EXPECT_EQ(checkpoint.error().exitStatus(), 2);
    EXPECT_EQ(checkpoint.error().message,
              path + ": the key '" + key + "' occurs twice in one object");
  }
}

TEST(Shards, ListsOfFilesGoFromRankToRank) {
  const std::vector<FileRecord> files = {{"a.safetensors", Role::Optimizer, 5, "00ff"}};
  auto read = parseRecords(recordsText(files));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->at(0).name, "a.safetensors");
  EXPECT_EQ(read->at(0).holds, Role::Optimizer);
  EXPECT_EQ(read->at(0).bytes, 5u);
  EXPECT_EQ(read->at(0).checksum, "00ff");
  for (const char *text : {"", "[", "[1]", R"([{"name": "a.safetensors"}])"}) {
    auto wrong = parseRecords(text);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().message, "another rank's list of files cannot be read");
    EXPECT_EQ(wrong.error().exitStatus(), 1);
  }
}

TEST(Shards, FirstVersionLoads) {
  ScratchDirectory scratch;
  ASSERT_TRUE(save(scratch.path, makePlan(1, 1), 4));
  changeManifest(scratch / "step-000004", [](nlohmann::json &manifest) {
    manifest["version"] = 1;
    manifest.erase("parameters");
    manifest.erase("optimizer");
    for (nlohmann::json &file : manifest["files"])
      file.erase("holds");
  });
  auto checkpoint = find(scratch.path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  for (auto [world, group] : layouts)
    expectLoads(*checkpoint, makePlan(world, group));
}

} // namespace
} // namespace nano
